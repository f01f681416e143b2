package grant

import (
	"math"
	"sync/atomic"
	"time"
)

// Asked is what a store has answered to the request for a grant.
type Asked struct {
	// Units are how many units were charged: none if not even one fits.
	Units int
	// Remaining, Next and Reset are those of the limit after the charge.
	Remaining   int
	Next, Reset time.Duration
	// Receipt is what the store has to know to take units back.
	Receipt any
}

// Grant is units that were charged at once. Any number of goroutines may spend them. It is three lines of a cache: one that is
// written by all, one that is read by all, and the rest. So goroutines that spend different grants do not slow each other down.
type Grant struct {
	left atomic.Int64 // what is not spent; below 0 when the grant has ended
	_    [56]byte

	asked Asked
	until int64 // when it lapses
	low   int64 // when no more are left, the next grant is asked for

	late    int64                 // what an earlier grant had left when this one was charged, and has spent since
	renewed atomic.Bool           // the next grant has been asked for
	next    atomic.Pointer[Grant] // which follows when this one is spent
	_       [40]byte
}

// ended is what is left of a grant that has ended. Whoever takes units from it gives them back at once, so that it stays
// far below 0.
const ended = math.MinInt64 / 2

// take takes units, and returns what is left then, or less than 0 if there are not enough.
func (g *Grant) take(units int64) (left int64) {
	if left = g.left.Add(-units); left < 0 {
		g.left.Add(units)
	}
	return left
}

// Spent is units that were spent. The zero Spent is none.
type Spent struct {
	grant *Grant
	left  int64 // what was left of the grant then
	units int64 // of the grant: the others are those that were left of the one before it
}

// Undo puts units back that were spent for a call which does not pass. A grant that has ended meanwhile keeps them from
// everybody, and so does one that was spent together with the next one: its units must not last as long as those.
func (s Spent) Undo() { s.grant.left.Add(s.units) }

// Answer is how the limit stood when the units were granted, with what was left of them.
func (s Spent) Answer() (remaining int, next, reset time.Duration) {
	return s.grant.asked.Remaining + int(s.left), s.grant.asked.Next, s.grant.asked.Reset
}

// end ends the grant, and returns what nobody has spent.
func (g *Grant) end() (unspent int64) { return max(0, g.left.Swap(ended)) }

// spent returns how many units have been spent so far.
func (g *Grant) spent() int64 { return int64(g.asked.Units) - max(0, g.left.Load()) }
