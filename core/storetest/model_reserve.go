package storetest

import (
	"cmp"
	"math/big"
	"slices"

	"github.com/weir-go/ratelimit/core"
)

// openCharge is a charge that is given back at its end, unless it is closed before.
type openCharge struct {
	charge

	until int64
}

// recovery returns how many microseconds after a charge something can be left of it.
func recovery(l core.Limit) int64 {
	n := numbersOf(l)
	if n.pace == nil {
		return 2 * n.window * n.tick
	}
	return roundedUp(new(big.Rat).Quo(n.most, n.pace)).Int64() * n.tick
}

// reserve remembers that a charge is given back at its end, and returns it with its name.
func (m *model) reserve(c charge) charge {
	id := identity(c.check)
	m.opened++
	c.name = m.opened
	m.open[id] = append(m.open[id], openCharge{c, c.at + c.check.ReserveFor.Microseconds()})
	return c
}

// mostEnded is how many ended reservations a call gives back, over all keys: see [core.Check.ReserveFor].
const mostEnded = 4

// giveBackEnded gives back up to *most ended reservations of a state, the latest to end first, and counts them off. The
// newest charge comes first.
func (m *model) giveBackEnded(id string, now int64, most *int) {
	open := m.open[id]
	slices.SortStableFunc(open, func(a, b openCharge) int { return cmp.Compare(b.until, a.until) })
	first := slices.IndexFunc(open, func(c openCharge) bool { return c.until <= now })
	if first < 0 {
		return
	}
	last := min(first+*most, len(open))
	*most -= last - first
	ended := slices.Clone(open[first:last])
	m.open[id] = slices.Delete(open, first, last)
	ended = slices.DeleteFunc(ended, func(c openCharge) bool { return now >= c.at+recovery(c.check.Limit) })
	slices.SortStableFunc(ended, func(a, b openCharge) int {
		order := cmp.Or(cmp.Compare(b.at, a.at), cmp.Compare(b.order, a.order))
		if order == 0 && a.used != nil {
			return b.used.Cmp(a.used)
		}
		return order
	})
	for _, c := range ended {
		m.settle(c.charge, -c.check.Units(), false, now)
	}
}

// settleOpen settles a charge at its real cost: all of that is charged if the charge was given back already. Ended ones
// were given back before.
func (m *model) settleOpen(c charge, cost int, now int64) {
	if c.check.ReserveFor > 0 {
		id := identity(c.check)
		place := slices.IndexFunc(m.open[id], func(o openCharge) bool { return o.name == c.name })
		if place < 0 {
			m.settle(charge{check: core.Check{Key: c.check.Key, Limit: c.check.Limit, Shadow: c.check.Shadow, Mode: core.Look}}, cost, false, now)
			return
		}
		m.open[id] = slices.Delete(m.open[id], place, place+1)
	}
	m.settle(c, min(cost, mostCharged(c.check.Limit))-c.check.Units(), false, now)
}
