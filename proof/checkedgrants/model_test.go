package checkedgrants

import "fmt"

// horizon is how many ticks there are at most, and processes how many processes.
const (
	horizon   = 8
	processes = 2
)

// algorithm is how the limit of a world counts.
type algorithm int

const (
	meter algorithm = iota // a bucket of n, from which one unit drains in a tick
	window
	log
)

// world says what can happen in a search. The zero value of a field means that it cannot.
type world struct {
	name    string
	counts  algorithm
	n       int8
	length  int8 // of the window, in ticks
	lasts   int8 // how long a grant lasts, in ticks
	most    int8 // units of a grant, and what the meter of a log lets through in lasts
	ticks   int8
	drift   bool // a process's clock may miss one tick
	crash   bool
	forward int8 // the store's clock may step so far forward, once
	back    int8 // and back, once
	fault   fault
}

// fault is a mistake that the model makes on purpose.
type fault int

const (
	none fault = iota
	deadlineFromReply
	noMargin
	noMeter
	acrossWindows
	returnsSpent
	spendsReturned
	lostCounts
	renewedLocally
	carriedOver
)

var faults = map[fault]string{
	deadlineFromReply: "a grant lasts from when the reply came",
	noMargin:          "a grant lasts its whole time, while the process's clock may be slow",
	noMeter:           "nothing bounds what is granted and not spent",
	acrossWindows:     "a grant outlives its window",
	returnsSpent:      "all of a grant is returned, whatever was spent",
	spendsReturned:    "what was returned is spent all the same",
	lostCounts:        "a request without a reply counts as granted",
	renewedLocally:    "a grant that has lapsed is spent while no other is granted",
	carriedOver:       "what is left of a grant lasts as long as the next one",
}

// process is what a process remembers: a grant, and a request for one. Two grants of one process are two processes here, since what
// they share makes no difference to the bound.
type process struct {
	units, spent  int8 // of the grant
	sent, charged int8 // when it was asked for, on the process's clock, and charged, on the store's
	since         int8 // when it was spent first
	asking        bool
	asked         int8 // when, on the process's clock
	slow          int8 // ticks that its clock has missed
	dead          bool
}

// state is everything. Instants are ticks, those of the store on its own clock.
type state struct {
	now, store, seen int8 // seen: the latest instant at which the store has charged
	charged, metered [2 * horizon]int8
	spent            [horizon]int8
	stepped          int8 // how far the store's clock has stepped forward
	steppedBack      bool
	of               [processes]process
}

// action is what happened.
type action struct {
	what string
	who  int
}

func (a action) String() string { return fmt.Sprintf("%s %d", a.what, a.who+1) }

func (w *world) margin() int8 {
	if w.drift && w.fault != noMargin {
		return 1
	}
	return 0
}

// clock is a process's own.
func (s *state) clock(p *process) int8 { return s.now - p.slow }

// level is how much of a bucket is used, after all that was charged in ticks.
func level(charged *[2 * horizon]int8, now int8, drain func(ticks int8) int8) (used int8) {
	sum := int8(0)
	for at := now; at >= 0; at-- {
		sum += charged[at]
		used = max(used, sum-drain(now-at))
	}
	return used
}

// free is how many units the store may still charge.
func (w *world) free(s *state) int8 {
	switch w.counts {
	case meter:
		return w.n - level(&s.charged, s.seen, func(ticks int8) int8 { return ticks })
	case window:
		return w.n - s.charged[s.seen/w.length]
	case log:
	}
	sum := int8(0)
	for at := max(0, s.seen-w.length+1); at <= s.seen; at++ {
		sum += s.charged[at]
	}
	return w.n - sum
}

// room is how many units the store may still grant.
func (w *world) room(s *state) int8 {
	if w.counts != log || w.fault == noMeter {
		return w.free(s)
	}
	return min(w.free(s), w.most-level(&s.metered, s.seen, func(ticks int8) int8 { return ticks * w.most / w.lasts }))
}

// place is where a charge at an instant is counted.
func (w *world) place(at int8) int8 {
	if w.counts == window {
		return at / w.length
	}
	return at
}

// alive reports whether a grant may be spent.
func (w *world) alive(s *state, p *process) bool {
	until := p.sent + w.lasts - w.margin()
	switch w.fault { //nolint:exhaustive // of the others it is as it should be
	case deadlineFromReply:
		until = max(until, p.since+w.lasts-w.margin())
		if p.spent == 0 { // the reply comes now
			return true
		}
	case renewedLocally:
		if p.asking {
			until++
		}
	}
	if w.counts == window && w.fault != acrossWindows && s.clock(p) >= (p.charged/w.length+1)*w.length {
		return false
	}
	return s.clock(p) < until
}

// next calls visit with every state that may follow.
func (w *world) next(from *state, visit func(action, state)) {
	if from.now < w.ticks {
		w.tick(from, visit)
	}
	for i := range from.of {
		if !from.of[i].dead {
			w.act(from, i, visit)
		}
	}
	if w.forward > 0 && from.stepped == 0 {
		s := *from
		s.stepped, s.store = w.forward, s.store+w.forward
		s.seen = max(s.seen, s.store)
		visit(action{"the store's clock steps forward", -1}, s)
	}
	if w.back > 0 && !from.steppedBack && from.store >= w.back {
		s := *from
		s.steppedBack, s.store = true, s.store-w.back
		visit(action{"the store's clock steps back", -1}, s)
	}
}

func (w *world) tick(from *state, visit func(action, state)) {
	s := *from
	s.now, s.store = s.now+1, s.store+1
	s.seen = max(s.seen, s.store)
	visit(action{"tick", -1}, s)
	for i := range s.of {
		if w.drift && s.of[i].slow == 0 {
			slow := s
			slow.of[i].slow = 1
			visit(action{"tick, which is missed by", i}, slow)
		}
	}
}

// act visits what one process may do, and what may become of its requests.
func (w *world) act(from *state, who int, visit func(action, state)) {
	do := func(what string, change func(s *state, p *process) bool) {
		s := *from
		if change(&s, &s.of[who]) {
			visit(action{what, who}, s)
		}
	}
	do("asks", func(s *state, p *process) bool {
		if p.asking {
			return false
		}
		p.asking, p.asked = true, s.clock(p)
		return true
	})
	do("is granted", w.grant)
	do("is charged, and never told", func(s *state, p *process) bool {
		charged := *p // which is forgotten
		if !w.grant(s, &charged) {
			return false
		}
		p.asking, p.asked = false, 0
		return true
	})
	do("is never heard", func(s *state, p *process) bool {
		if !p.asking {
			return false
		}
		if w.fault == lostCounts && p.units == 0 {
			p.units, p.sent, p.charged = w.most, p.asked, s.seen
		}
		p.asking, p.asked = false, 0
		return true
	})
	do("spends", func(s *state, p *process) bool {
		if p.spent == p.units || !w.alive(s, p) {
			return false
		}
		if p.spent == 0 && w.fault == deadlineFromReply {
			p.since = s.clock(p)
		}
		p.spent++
		s.spent[s.now]++
		p.forget(w.fault == returnsSpent)
		return true
	})
	do("is admitted without a grant", func(s *state, _ *process) bool {
		if w.free(s) < 1 {
			return false
		}
		s.charged[w.place(s.seen)]++
		s.spent[s.now]++
		return true
	})
	do("returns the rest", w.settle)
	if w.crash {
		do("dies", func(_ *state, p *process) bool {
			*p = process{dead: true}
			return true
		})
	}
}

// forget forgets a grant that is spent, unless it is kept for a mistake.
func (p *process) forget(kept bool) {
	if p.spent == p.units && !kept {
		p.units, p.spent, p.sent, p.charged, p.since = 0, 0, 0, 0, 0
	}
}

// grant has the store answer a request, with as many units as fit.
func (w *world) grant(s *state, p *process) bool {
	carried := int8(0)
	if w.fault == carriedOver {
		carried = p.units - p.spent
	}
	if !p.asking || p.units > carried {
		return false
	}
	units := max(0, min(w.most, w.room(s)))
	s.charged[w.place(s.seen)] += units
	if w.counts == log {
		s.metered[s.seen] += units
	}
	if units > 0 {
		p.units, p.spent, p.sent, p.charged = units+carried, 0, p.asked, s.seen
	}
	p.asking, p.asked = false, 0
	return true
}

// settle has the store take back what was not spent, as if it had never been charged.
func (w *world) settle(s *state, p *process) bool {
	rest := p.units - p.spent
	if w.fault == returnsSpent {
		rest = p.units
	}
	if rest == 0 || s.charged[w.place(p.charged)] < rest {
		return false
	}
	s.charged[w.place(p.charged)] -= rest
	if w.fault == spendsReturned {
		return true
	}
	p.spent = p.units
	p.forget(false)
	return true
}

// bound is the law: what is spent in any time is at most what the documentation states.
func (w *world) bound(s *state) bool { return w.excess(s) <= 0 }

// excess is how much more was spent than the bound, in the worst time.
func (w *world) excess(s *state) int8 {
	worst := int8(-128)
	for from := range s.now + 1 {
		sum := int8(0)
		for to := from; to <= s.now; to++ {
			sum += s.spent[to]
			switch w.counts {
			case meter: // n + r·(τ + L), a tick less than L, and what the store itself has admitted more after a step of its clock
				worst = max(worst, sum-w.n-(to-from+w.lasts-1)-s.stepped)
			case window:
				if from/w.length == to/w.length && from%w.length == 0 {
					worst = max(worst, sum-w.n)
				}
			case log:
				if to-from < w.length {
					worst = max(worst, sum-w.n-w.most-w.most*(w.lasts-1)/w.lasts) // a tick less than n + 2m
				}
			}
		}
	}
	return worst
}
