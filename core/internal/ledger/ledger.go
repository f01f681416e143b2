// Package ledger keeps the charges of a reservation: what was charged at first, what was added since, and which of
// it has been settled. It knows neither limits nor a store.
package ledger

import "slices"

// Ledger has the charges of the checks of a call, with receipts of type R. Checks are known by their places in the call.
// The zero Ledger says that nothing was added and nothing is settled. One goroutine uses it at a time.
type Ledger[R any] struct {
	// Settled says that nothing is left to settle: all is settled, or may be.
	Settled bool

	grown []growth[R] // the oldest first
	done  []bool      // by the checks: their first charges are settled; it may be shorter
}

// growth is what a check was charged more.
type growth[R any] struct {
	check, units int
	receipt      R
	done         bool
}

// Grow adds a charge to those of a check.
func (l *Ledger[R]) Grow(check, units int, receipt R) {
	l.grown = append(l.grown, growth[R]{check: check, units: units, receipt: receipt})
}

// Reserved returns how many units of a check are charged, of which units were at first.
func (l *Ledger[R]) Reserved(check, units int) int {
	for i := range l.grown {
		if l.grown[i].check == check {
			units += l.grown[i].units
		}
	}
	return units
}

// IsDone reports whether the first charge of a check is settled.
func (l *Ledger[R]) IsDone(check int) bool { return check < len(l.done) && l.done[check] }

// Charge is a charge of a Check of some Units that is to be settled at a Cost.
type Charge[R any] struct {
	Check, Units, Cost int
	// Grown says that the charge was added by [Ledger.Grow], with the Receipt.
	Grown   bool
	Receipt R

	place int // among those that were added
}

// Open appends the charges of a check that are not settled to a list, the newest first. units were charged at first, and
// cost is the real cost of all. The oldest units are used first.
func (l *Ledger[R]) Open(list []Charge[R], check, units, cost int) []Charge[R] {
	total := l.Reserved(check, units)
	for i := range slices.Backward(l.grown) {
		g := &l.grown[i]
		if g.check != check {
			continue
		}
		total -= g.units // what older charges have
		own := max(0, cost-total)
		cost -= own
		if !g.done {
			list = append(list, Charge[R]{Check: check, Units: g.units, Cost: own, Grown: true, Receipt: g.receipt, place: i})
		}
	}
	if !l.IsDone(check) {
		list = append(list, Charge[R]{Check: check, Units: units, Cost: cost})
	}
	return list
}

// SettledBut notes that charges of a list are settled, but for those at some places of it.
func (l *Ledger[R]) SettledBut(list []Charge[R], undone []int) {
	l.Settled = false
	for i := range list {
		if !slices.Contains(undone, i) {
			l.settle(&list[i])
		}
	}
}

// PerhapsSettled notes that charges of a list may be settled. They are not settled again, but for those of checks that are
// safe to settle twice.
func (l *Ledger[R]) PerhapsSettled(list []Charge[R], safe func(check int) bool) {
	l.Settled = true
	for i := range list {
		if c := &list[i]; safe(c.Check) {
			l.Settled = false
		} else {
			l.settle(c)
		}
	}
}

func (l *Ledger[R]) settle(c *Charge[R]) {
	if c.Grown {
		l.grown[c.place].done = true
		return
	}
	if missing := c.Check + 1 - len(l.done); missing > 0 {
		l.done = append(l.done, make([]bool, missing)...)
	}
	l.done[c.Check] = true
}

// Split takes the first charges of some of n checks out of the ledger, into one of their own, which is Settled if this one is.
// Charges that were settled before count as open again. What was added stays.
func (l *Ledger[R]) Split(n int, out func(check int) bool) Ledger[R] {
	own := Ledger[R]{Settled: l.Settled}
	own.done, l.done = make([]bool, n), make([]bool, n)
	for i := range n {
		l.done[i] = out(i)
		own.done[i] = !l.done[i]
	}
	return own
}
