package exact

import (
	"maps"
	"strings"
)

// past is when a key was reset. Earlier charges get nothing back.
//
// It is kept beside the state, for as long as anything can be left of a charge. A check neither
// reads nor writes it. A meter needs none: its notes are part of its state.
type past struct {
	at    int64
	order int64 // orders the events of one microsecond
	until int64 // when it means nothing any more
}

// remains reports whether anything may remain of a charge. A list has nothing from before a reset: of a log only
// a reset in the same microsecond matters, and of holders none.
func (p *past) remains(s *Spec, charged Charge) bool {
	if p == nil || s.Algorithm.Holds() || s.Algorithm.Logs() && p.at != charged.At {
		return true
	}
	return p.at < charged.At || p.at == charged.At && p.order <= charged.Order
}

// Pasts are the resets of some keys, as far as settlements have to know them. Their number is bounded: when they have to
// be given up, earlier charges are not refunded any more. Pasts belong to one goroutine at a time, and must not be copied
// once they are used. [NewPasts] makes them.
type Pasts struct {
	of    map[Key]*past
	order int64 // how many resets and notes there have ever been
	lost  int64 // charges before this order have lost their pasts
	bound int   // of pasts
	sweep int   // at how many to look for ended ones
	slack int64 // microseconds that a past outlives its end
	most  int   // pasts since the map was made
}

// NewPasts returns empty Pasts for up to bound keys, each of which is kept for slack microseconds
// longer than it has to be.
func NewPasts(bound int, slack int64) Pasts { return Pasts{bound: bound, slack: slack} }

// Order returns the [Charge.Order] of a charge made now.
func (p *Pasts) Order() int64 { return p.order }

// Len returns how many keys have a past.
func (p *Pasts) Len() int { return len(p.of) }

// Has reports whether a key has a past.
func (p *Pasts) Has(key Key) bool { return p.of[key] != nil }

// Reset notes that a key was reset that had a state of one of some specs: earlier charges are not refunded any more.
func (p *Pasts) Reset(key Key, now int64, of ...*Spec) {
	for _, s := range of {
		if s.Algorithm.tellsItself() {
			continue
		}
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
		one.at, one.order = max(one.at, now), p.order
		one.until = max(one.until, one.at+s.recovery())
	}
}

// Number returns the number of the next reservation that is noted: see [State.Note].
func (p *Pasts) Number() int64 {
	p.order++
	return p.order
}

// remains reports whether anything may remain of a charge of a key, as far as resets tell. A charge in the future was made
// before the clock stepped back, at an unknown time. A list knows all the same whether it has the charge, and so does a
// meter.
func (p *Pasts) remains(key Key, s *Spec, charged Charge, now int64) bool {
	switch {
	case s.Algorithm.tellsItself():
		return true
	case charged.At > now && !s.Algorithm.Lists():
		return false
	case p.lost > 0 && charged.Order < p.lost:
		return s.Algorithm.Lists()
	}
	return p.of[key].remains(s, charged)
}

// tellsItself reports whether the states of an algorithm tell how much of a charge is left.
func (a Algorithm) tellsItself() bool { return a.Noted() || a == FairShare || a.Prepaid() }

// leastSettled is how many pasts are kept without a look for ended ones.
const leastSettled = 64

// makeRoom forgets the pasts that have ended when their number has doubled. If too many have not ended, all are given up:
// earlier charges are not refunded then.
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

// Forget looks at up to looks pasts and forgets the ended ones, slack included. It frees the
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
		of := make(map[Key]*past, left) // a map keeps the room of its deleted entries
		maps.Copy(of, p.of)
		p.of, p.most, p.sweep = of, left, 2*left
	}
}

// mostMoved bounds how many pasts move at once into a smaller map.
const mostMoved = 4096
