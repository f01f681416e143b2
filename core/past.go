package core

import (
	"maps"
	"strings"
)

// past is how low the level of a meter may have come since something was charged, as
// far as settlements have seen it. Who has given back lets others take what he has
// given, so that less is left of what was charged before it than has not drained.
//
// It is kept beside the state and for as long as anything can be left of a charge: a
// question neither reads nor writes it.
type past struct {
	units  units // of the limit
	points []point
	until  int64 // when it means nothing any more
}

// point is when something was given back, or the key was reset, and the least that was
// used from then on until the last point.
type point struct {
	at    int64
	order int64 // tells those of one microsecond apart
	low   int64
}

// mostPoints bounds a past. Lows rise from point to point, so that few are ever kept.
const mostPoints = 16

// low returns the least that may have been used of a limit since a charge, or most if
// nothing was given back since. A log has no instants of before a reset, so that only those
// of one microsecond have to be told apart.
func (p *past) low(l *Limit, charged Moment, now int64) int64 {
	if p == nil {
		return most
	}
	for _, since := range p.points {
		if since.at < charged.At || since.at == charged.At && since.order <= charged.Order {
			continue
		}
		if l.algorithm == slidingLog && since.at != charged.At {
			continue
		}
		last := p.points[len(p.points)-1]
		if since.low == 0 || p.units != l.units || now < last.at {
			return 0
		}
		return min(since.low, chargeLeft(l, last.low, now, last.at))
	}
	return most
}

// note notes that a level was lowered. From the last point until now it may have come
// to what has not drained since, if all that was charged came after that. Of points
// with one low the last says what the others do.
func (p *past) note(l *Limit, now, order, low int64) {
	noted := point{at: now, order: order, low: low}
	if places := len(p.points); places > 0 {
		last := p.points[places-1]
		open := int64(0)
		switch {
		case now < last.at: // the clock has stepped back, so that nothing is known
			noted.at, noted.low = last.at, 0
		case p.units == l.units && low > 0:
			open = min(chargeLeft(l, last.low, now, last.at), low)
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
	p.units = l.units
	p.until = max(p.until, noted.at+l.recovery())
}

// recovery returns how long something can be left of a charge, in microseconds.
func (l *Limit) recovery() int64 {
	u := &l.units
	if u.drain == 0 {
		return 2 * u.window * u.tick // of a sliding window; others are over before
	}
	return divideUp(u.capacity, u.drain) * u.tick
}

// settled is the pasts of a shard's keys. The zero value, with a bound, is empty.
type settled struct {
	pasts map[entryKey]*past
	order int64 // how many points there have ever been
	lost  int64 // of what was charged before, the pasts have been given up
	bound int   // of pasts
	sweep int   // at how many to look for those that have ended
	slack int64 // microseconds that a past outlives its end
}

// unknown is a past in which everything may have been.
var unknown = &past{points: []point{{at: most, low: 0}}}

// past returns that of a key since a moment, or nil if it has none.
func (s *settled) past(key entryKey, since Moment) *past {
	if s.lost > 0 && since.At != 0 && since.Order < s.lost {
		return unknown
	}
	return s.pasts[key]
}

// note notes that the level of a key was lowered.
func (s *settled) note(key entryKey, now int64, l *Limit, low int64) {
	s.order++
	p := s.pasts[key]
	if p == nil {
		s.makeRoom(now)
		p = new(past)
		if s.pasts == nil {
			s.pasts = make(map[entryKey]*past)
		}
		key.key = strings.Clone(key.key)
		s.pasts[key] = p
	}
	p.note(l, now, s.order, low)
}

// reset notes that a key was reset, whose state was left by one of some limits.
func (s *settled) reset(key entryKey, now int64, limits ...*Limit) {
	for _, l := range limits {
		s.note(key, now, l, 0)
	}
}

// leastSettled is how many pasts are kept without a look for those that have ended.
const leastSettled = 64

// makeRoom forgets the pasts that have ended when their number has doubled. If there are
// too many that have not, all are given up: what was charged before is not given back.
func (s *settled) makeRoom(now int64) {
	if len(s.pasts) < max(s.sweep, leastSettled) && len(s.pasts) < s.bound {
		return
	}
	maps.DeleteFunc(s.pasts, func(_ entryKey, p *past) bool { return p.until <= now-s.slack })
	if len(s.pasts) >= s.bound {
		clear(s.pasts)
		s.lost = s.order
	}
	s.sweep = 2 * len(s.pasts)
}
