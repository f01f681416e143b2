package arrival

import (
	"fmt"
	"slices"
	"time"
)

const (
	// farApart is how far a line may be from the one before it without a look at those behind it.
	farApart = 2 * 3600 * Second
	// mostAhead is how many lines are looked at behind one, and mostBatches in how many batches: a line may have a mebibyte.
	mostAhead   = 1024
	mostBatches = 16
)

// An order judges which lines of one log have a time far outside of those around them, such as one of 2036 in a log of today. A span that has
// such a line in it would be of years. A log that is quiet for a night, or that another one follows, has none: the lines behind the jump
// stay where it has led.
type order struct {
	lines            int   // those that count
	last             int64 // the instant of the last one
	earliest, latest int64
}

// outlies reports whether a line counts nowhere. ahead returns the instants of the lines behind it, mostAhead at most.
func (o *order) outlies(at int64, ahead func() []int64) bool {
	if o.lines > 0 && apart(at, o.last) <= farApart || !o.strays(at, ahead) {
		if o.lines == 0 {
			o.earliest, o.latest = at, at
		}
		o.lines++
		o.last, o.earliest, o.latest = at, min(o.earliest, at), max(o.latest, at)
		return false
	}
	return true
}

// strays reports whether a line that is far from the one before it, or is the first, is alone there.
func (o *order) strays(at int64, ahead func() []int64) bool {
	next := ahead()
	if o.lines == 0 {
		return strayFirst(at, next)
	}
	stay := 0
	for _, other := range next {
		if at > o.last && other >= at-farApart || at < o.last && other < o.last-farApart {
			stay++
		}
	}
	if back := len(next) - stay; back >= 2 && 8*stay < back {
		return true
	}
	const few, enough = 16, 100 // fewer lines ahead prove nothing, and more lines behind do
	return len(next) < few && o.lines >= enough && farFrom(at, o.last, o.latest-o.earliest)
}

// strayFirst reports whether the first line of a log is far from where the others are.
func strayFirst(at int64, next []int64) bool {
	const enough = 4
	if len(next) < enough {
		return false
	}
	sorted := slices.Sorted(slices.Values(next))
	n := len(sorted)
	return farFrom(at, sorted[n/2], sorted[n-1-n/8]-sorted[n/8])
}

// farFrom reports whether two instants are further apart than any pause of a log that tells of so much time.
func farFrom(a, b, span int64) bool {
	const day = 24 * 3600 * Second
	return apart(a, b) > max(day, 10*span)
}

func apart(a, b int64) int64 { return max(a, b) - min(a, b) }

// Outlier says how many lines were set aside, since their time is far outside of those around them. It is empty if none was.
func (s *Summary) Outlier() string {
	if s.Aside == 0 {
		return ""
	}
	first := time.UnixMicro(s.FirstAside).UTC().Format(time.RFC3339)
	if s.Aside == 1 {
		return fmt.Sprintf("1 of %d lines has a time far outside of the lines around it, and counts nowhere. Its time is %s.", s.Lines, first)
	}
	return fmt.Sprintf("%d of %d lines have a time far outside of the lines around them, and count nowhere. The time of the first one is %s.",
		s.Aside, s.Lines, first)
}

// setAside takes the arrivals out of a batch that are far, in time, from those around them.
func (rd *reading) setAside(c *cursor, b *batch) {
	var aside map[int32]bool
	for i, at := range b.times {
		if !c.order.outlies(at, func() []int64 { return rd.ahead(c, b.times[i+1:]) }) {
			continue
		}
		if aside == nil {
			aside = make(map[int32]bool)
		}
		aside[int32(i)] = true
		if rd.summary.Aside++; rd.summary.Aside == 1 {
			rd.summary.FirstAside = at
		}
	}
	if aside == nil {
		return
	}
	kept := b.arrivals[:0]
	for i := range b.arrivals {
		switch a := &b.arrivals[i]; {
		case !aside[b.places[i]]:
			kept = append(kept, *a)
		case a.Whole:
			b.whole--
		}
	}
	clear(b.arrivals[len(kept):]) // they may refer to requests
	b.arrivals = kept
}

// ahead returns the instants of the lines that follow in a log: the given ones, and those of the batches behind them.
func (rd *reading) ahead(c *cursor, next []int64) []int64 {
	next = slices.Clip(next[:min(len(next), mostAhead)])
	for i := 0; len(next) < mostAhead && i < mostBatches; i++ {
		if i == len(c.ahead) {
			b, err := rd.receive(c)
			if b == nil || err != nil {
				break // the next one who asks is told
			}
			c.ahead = append(c.ahead, b)
		}
		times := c.ahead[i].times
		next = append(next, times[:min(len(times), mostAhead-len(next))]...)
	}
	return next
}
