package core

import "slices"

// ledger has the charges of a reservation: the first charges, the later ones, and which of them have been settled. It knows
// neither limits nor a store. Checks are known by their places in the call. The zero ledger says that nothing was added and
// nothing is settled. One goroutine uses it at a time.
type ledger struct {
	// settled says that nothing is left to settle: all is settled, or may be.
	settled bool

	grown []growth // the oldest first
	done  []bool   // by the checks: their first charges are settled; it may be shorter
}

// growth is a later charge of a check.
type growth struct {
	check, units int
	receipt      Receipt
	done         bool
}

// grow adds a charge to those of a check.
func (l *ledger) grow(check, units int, receipt Receipt) {
	l.grown = append(l.grown, growth{check: check, units: units, receipt: receipt})
}

// reserved returns how many units of a check are charged, of which units were at first.
func (l *ledger) reserved(check, units int) int {
	for i := range l.grown {
		if l.grown[i].check == check {
			units += l.grown[i].units
		}
	}
	return units
}

// isDone reports whether the first charge of a check is settled.
func (l *ledger) isDone(check int) bool { return check < len(l.done) && l.done[check] }

// openCharge is a charge of some units of a check that is to be settled at a cost.
type openCharge struct {
	check, units, cost int
	// grown says that the charge was added by [ledger.grow], with the receipt.
	grown   bool
	receipt Receipt

	place int // among the growths
}

// open appends the charges of a check that are not settled to a list, the newest first. units were charged at first, and
// cost is the real cost of all. The oldest units are used first.
func (l *ledger) open(list []openCharge, check, units, cost int) []openCharge {
	total := units
	if len(l.grown) > 0 {
		total = l.reserved(check, units)
	}
	for i := range slices.Backward(l.grown) {
		g := &l.grown[i]
		if g.check != check {
			continue
		}
		total -= g.units // units of older charges
		own := max(0, cost-total)
		cost -= own
		if !g.done {
			list = append(list, openCharge{check: check, units: g.units, cost: own, grown: true, receipt: g.receipt, place: i})
		}
	}
	if !l.isDone(check) {
		list = append(list, openCharge{check: check, units: units, cost: cost})
	}
	return list
}

// settledBut notes that the charges of a list are settled, except those at some places of it.
func (l *ledger) settledBut(list []openCharge, undone []int) {
	l.settled = false
	for i := range list {
		if !slices.Contains(undone, i) {
			l.settle(&list[i])
		}
	}
}

// perhapsSettled notes that the charges of a list may be settled. They are not settled again, except those of checks that
// are safe to settle twice.
func (l *ledger) perhapsSettled(list []openCharge, safe func(check int) bool) {
	l.settled = true
	for i := range list {
		if c := &list[i]; safe(c.check) {
			l.settled = false
		} else {
			l.settle(c)
		}
	}
}

func (l *ledger) settle(c *openCharge) {
	if c.grown {
		l.grown[c.place].done = true
		return
	}
	if missing := c.check + 1 - len(l.done); missing > 0 {
		l.done = append(l.done, make([]bool, missing)...)
	}
	l.done[c.check] = true
}

// split takes the first charges of some of n checks out of the ledger, into one of their own, which is settled if this
// one is. Charges that were settled before count as open again. Later charges stay.
func (l *ledger) split(n int, out func(check int) bool) ledger {
	own := ledger{settled: l.settled}
	own.done, l.done = make([]bool, n), make([]bool, n)
	for i := range n {
		l.done[i] = out(i)
		own.done[i] = !l.done[i]
	}
	return own
}
