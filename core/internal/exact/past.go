package exact

import (
	"maps"
	"slices"
	"strings"
)

// past is how low the level of a meter may have come since something was charged, as
// far as settlements have seen it. After a refund, others may be charged with the same units. Then less
// is left of an earlier charge than what has not drained of it.
//
// It is kept beside the state, for as long as anything can be left of a charge. A check neither
// reads nor writes it.
type past struct {
	units  Units // of the limit
	points []point
	until  int64 // when it means nothing any more
}

// point is when something was refunded, or the key was reset, and the least that was
// used from then on until the last point.
type point struct {
	at    int64
	order int64 // orders the points of one microsecond
	low   int64
}

// mostPoints bounds a past. Lows rise from point to point, so that few are ever kept.
const mostPoints = 16

// low returns the least that may have been used of a limit since a charge, or most if
// nothing was refunded since. A list has nothing from before a reset: of a log only points of the same
// microsecond matter, and of holders none.
func (p *past) low(s *Spec, charged Charge, now int64) int64 {
	if p == nil || s.Algorithm.Holds() {
		return most
	}
	for _, since := range p.points {
		if since.at < charged.At || since.at == charged.At && since.order <= charged.Order {
			continue
		}
		if s.Algorithm.Logs() && since.at != charged.At {
			continue
		}
		last := p.points[len(p.points)-1]
		if since.low == 0 || p.units != s.Units || now < last.at {
			return 0
		}
		return min(since.low, s.left(last.low, now, last.at))
	}
	return most
}

// spend takes from the points since a charge what was refunded of it. All that is refunded of what was
// charged before a point was a part of what was used at that point.
func (p *past) spend(charged Charge, refunded int64) {
	kept := len(p.points)
	for _, one := range slices.Backward(p.points) {
		if charged.At < one.at || charged.At == one.at && charged.Order < one.order {
			one.low = max(0, one.low-refunded)
		}
		if kept == len(p.points) || one.low < p.points[kept].low {
			kept--
			p.points[kept] = one
		}
	}
	p.points = p.points[kept:]
}

// note notes that a level was lowered. From the last point until now it may have come
// to what has not drained since, if all that was charged came after that. Of points
// with one low the last says what the others do.
func (p *past) note(s *Spec, now, order, low int64) {
	noted := point{at: now, order: order, low: low}
	if places := len(p.points); places > 0 {
		last := p.points[places-1]
		open := int64(0)
		switch {
		case now < last.at: // the clock has stepped back, so that nothing is known
			noted.at, noted.low = last.at, 0
		case p.units == s.Units && low > 0:
			open = min(s.left(last.low, now, last.at), low)
		}
		for places > 0 && p.points[places-1].low >= open {
			places--
		}
		p.points = p.points[:places]
		if open < noted.low {
			p.points = append(p.points, point{at: last.at, order: last.order, low: open})
		}
	}
	p.points = append(p.points, noted)
	if excess := len(p.points) - mostPoints; excess > 0 {
		p.points[excess].low = p.points[0].low
		p.points = p.points[excess:]
	}
	p.units = s.Units
	p.until = max(p.until, noted.at+s.recovery())
}

// Pasts are what settlements and resets have to know of what was refunded earlier under some keys.
// There are no more of them than a bound: when they have to be given up, nothing is refunded any
// more of what was charged before. Pasts belong to one goroutine at a time, and must not be copied
// once they are used. [NewPasts] makes them.
type Pasts struct {
	of    map[Key]*past
	order int64 // how many points there have ever been
	lost  int64 // the pasts of what was charged before this order have been given up
	bound int   // of pasts
	sweep int   // at how many to look for those that have ended
	slack int64 // microseconds that a past outlives its end
	most  int   // pasts since the map was made
}

// NewPasts returns empty Pasts for up to bound keys, each of which is kept for slack microseconds
// longer than it has to be.
func NewPasts(bound int, slack int64) Pasts { return Pasts{bound: bound, slack: slack} }

// Order returns the [Charge.Order] of what is charged now.
func (p *Pasts) Order() int64 { return p.order }

// Len returns how many keys have a past.
func (p *Pasts) Len() int { return len(p.of) }

// Has reports whether a key has a past.
func (p *Pasts) Has(key Key) bool { return p.of[key] != nil }

// Reset notes that a key was reset whose state was left by one of some specs: nothing is refunded
// any more of what was charged before.
func (p *Pasts) Reset(key Key, now int64, of ...*Spec) {
	for _, s := range of {
		p.note(key, now, s, 0)
	}
}

// unknown is a past in which everything may have been.
var unknown = &past{points: []point{{at: most, low: 0}}}

// past returns that of a key since a charge, or nil if it has none.
func (p *Pasts) past(key Key, since Charge) *past {
	if p.lost > 0 && since.At != 0 && since.Order < p.lost {
		return unknown
	}
	return p.of[key]
}

// note notes that the level of a key was lowered.
func (p *Pasts) note(key Key, now int64, s *Spec, low int64) {
	p.order++
	one := p.of[key]
	if one == nil {
		p.makeRoom(now)
		one = new(past)
		if p.of == nil {
			p.of = make(map[Key]*past)
		}
		key.Subject = strings.Clone(key.Subject) // it may be a part of a whole request
		p.of[key] = one
		p.most = max(p.most, len(p.of))
	}
	one.note(s, now, p.order, low)
}

// leastSettled is how many pasts are kept without a look for those that have ended.
const leastSettled = 64

// makeRoom forgets the pasts that have ended when their number has doubled. If there are
// too many that have not, all are given up: what was charged before is not refunded.
func (p *Pasts) makeRoom(now int64) {
	if len(p.of) < max(p.sweep, leastSettled) && len(p.of) < p.bound {
		return
	}
	maps.DeleteFunc(p.of, func(_ Key, one *past) bool { return one.until <= now-p.slack })
	if len(p.of) >= p.bound {
		clear(p.of)
		p.lost = p.order
	}
	p.sweep = 2 * len(p.of)
}

// Forget looks at so many pasts and forgets those that have ended at an instant, slack included. It gives back the
// room that is not needed any more.
func (p *Pasts) Forget(now int64, looks int) {
	if len(p.of) == 0 {
		p.of, p.most, p.sweep = nil, 0, 0
		return
	}
	for key, one := range p.of { // which begins at random
		if looks--; looks < 0 {
			break
		}
		if one.until <= now {
			delete(p.of, key)
		}
	}
	if left := len(p.of); p.most > 2*leastSettled && left < p.most/4 && left <= mostMoved {
		of := make(map[Key]*past, left) // a map keeps the room of what was deleted from it
		maps.Copy(of, p.of)
		p.of, p.most, p.sweep = of, left, 2*left
	}
}

// mostMoved bounds how many pasts move at once into a smaller map.
const mostMoved = 4096
