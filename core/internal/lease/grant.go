package lease

import (
	"math"
	"sync/atomic"
	"time"
)

// Asked is a store's answer to the request for a grant.
type Asked struct {
	// Units are how many units were charged: none if not even one fits.
	Units int
	// Remaining, Next and Reset are those of the limit after the charge.
	Remaining   int
	Next, Reset time.Duration
	// Receipt is the store's own record of the charge, to take units back.
	Receipt any
}

// Grant is units that were charged at once. Any number of goroutines may spend them. It is three lines of a cache: one that is
// written by all, one that is read by all, and the rest. So goroutines that spend different grants do not slow each other down.
type Grant struct {
	left atomic.Int64 // unspent units; below 0 when the grant has ended
	_    [56]byte

	asked Asked
	until int64 // when it lapses
	low   int64 // when no more are left, the next grant is asked for

	late    int64                 // units that an earlier grant had left when this one was charged, and has spent since
	renewed atomic.Bool           // the next grant has been asked for
	next    atomic.Pointer[Grant] // follows when this one is spent
	of      *entry
	_       [32]byte
}

// ended is the left of a grant that has ended, less the units being taken from it in vain. Each taker puts them back at
// once, so that left stays far below 0.
const ended = math.MinInt64 / 2

// take takes units, and returns the units left then, or less than 0 if there are not enough.
func (g *Grant) take(units int64) (left int64) {
	if left = g.left.Add(-units); left < 0 {
		g.put(units)
	}
	return left
}

// put puts units back. Those of a grant that has ended are given back to the store.
func (g *Grant) put(units int64) {
	for left := g.left.Add(units); left < ended/2; left = g.left.Load() {
		if left <= ended {
			return
		}
		if g.left.CompareAndSwap(left, ended) {
			g.of.giveBackLate(g, left-ended)
			return
		}
	}
}

// Spent is units that were spent. The zero Spent is none.
type Spent struct {
	grant *Grant
	left  int64 // units left of the grant then
	units int64 // of the grant

	former *Grant // has ended, and its rest was spent, too; nil: none
	rest   int64
}

// Undo puts units back that were spent for a call which does not pass. Units of a grant that has ended are given back to the
// store: they must not last as long as those of the next one.
func (s Spent) Undo() {
	s.grant.put(s.units)
	if s.rest > 0 {
		s.former.of.giveBackLate(s.former, s.rest)
	}
}

// Answer is the state of the limit when the units were granted, plus the units of the grant that are left.
func (s Spent) Answer() (remaining int, next, reset time.Duration) {
	return s.grant.asked.Remaining + int(s.left), s.grant.asked.Next, s.grant.asked.Reset
}

// end ends the grant, and returns the unspent units.
func (g *Grant) end() (unspent int64) {
	for {
		left := g.left.Load()
		if left < ended/2 {
			return 0
		}
		if g.left.CompareAndSwap(left, ended+min(0, left)) {
			return max(0, left)
		}
	}
}

// spent returns how many units have been spent so far.
func (g *Grant) spent() int64 { return int64(g.asked.Units) - max(0, g.left.Load()) }
