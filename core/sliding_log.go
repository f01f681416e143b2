package core

import (
	"fmt"
	"slices"
	"sort"
	"time"
)

// SlidingLog returns a limit of n events in any window of the given length,
// exactly: it remembers when each admitted unit passed.
//
// It is the only limit whose memory grows with its numbers: up to n instants for
// each key, and never more, since refused requests are not remembered. n may be
// at most a million. A window is a whole number of microseconds.
//
// When the window of a named limit is made longer, what is remembered counts on in it, and what
// has left the shorter one may have been forgotten.
//
//	SlidingLog(5, 15*time.Minute) // logins
func SlidingLog(n int, window time.Duration) Limit {
	return newLimit(slidingLog, n, Rate{Events: n, Period: window})
}

// logged is the arithmetic of a log of instants.
//
// Its usage is the units in the window, and three waits in microseconds: until
// the oldest of them leaves it, until enough of them have left it for the cost
// that was observed, and until the newest leaves it.
type logged struct{}

func (logged) units(capacity int, rate Rate) (units, error) {
	if capacity > mostLogged {
		return units{}, fmt.Errorf("a log of %d instants for each key is larger than %d: take a sliding window", capacity, mostLogged)
	}
	return windowUnits(capacity, rate.Period, time.Microsecond)
}

func (logged) observe(l *Limit, s *state, now int64, cost int) (usage, bool) {
	log := s.instants()
	length := len(log)
	first := sort.Search(length, func(i int) bool { return log[i] > now-l.units.window })
	if first == length {
		return usage{}, false
	}
	repair := log[length-1] > now
	if excess := length - first - l.capacity; excess > 0 {
		first += excess
		repair = true
	}
	left := func(i int) int64 { return min(log[i], now) + l.units.window - now }
	u := usage{int64(length - first), left(first), 0, left(length - 1)}
	if missing := length - first + cost - l.capacity; missing > 0 && cost <= l.capacity {
		u.third = left(first + missing - 1)
	}
	return u, repair
}

func (logged) store(l *Limit, s *state, u usage, now int64, cost int) {
	log := s.instants()
	log = log[len(log)-int(u.used):]
	for i := len(log) - 1; i >= 0 && log[i] > now; i-- { // from the future
		log[i] = now
	}
	for range cost {
		log = append(log, now)
	}
	if s.log == nil {
		s.log = new([]int64)
	}
	*s.log = log
}

func (logged) settle(l *Limit, s *state, now int64, c *correction) bool {
	log := s.instants()
	first := sort.Search(len(log), func(i int) bool { return log[i] > now-l.units.window })
	before := len(log)
	change, at := countChange(l, int64(len(log)-first), c), c.at.At
	if c.events < 0 {
		change = int64(c.events)
	}
	switch {
	case change > 0:
		if at == 0 {
			at = now
		}
		if at <= now-l.units.window {
			return false
		}
		log, before = log[first:], before-first
		place := sort.Search(len(log), func(i int) bool { return log[i] > at })
		log = slices.Insert(log, place, slices.Repeat([]int64{at}, int(change))...)
	case change < 0 && at == 0:
		log = log[:max(0, len(log)+int(change))]
	case change < 0:
		end := sort.Search(len(log), func(i int) bool { return log[i] > at })
		begin := sort.Search(len(log), func(i int) bool { return log[i] >= at })
		log = slices.Delete(log, max(begin, end+int(change)), end)
	}
	if len(log) == before {
		return false
	}
	if s.log == nil {
		s.log = new([]int64)
	}
	*s.log = log
	return true
}

func (logged) fits(l *Limit, u usage, cost int) bool {
	return int64(cost) <= l.units.capacity-u.used
}

func (logged) wait(_ *Limit, u usage, _ int) int64 { return u.third }

func (logged) charged(l *Limit, u usage, cost int) usage {
	if u.used == 0 {
		u.second = l.units.window
	}
	return usage{u.used + int64(cost), u.second, u.third, l.units.window}
}

func (logged) remaining(l *Limit, u usage) int     { return int(l.units.capacity - u.used) }
func (logged) next(_ *Limit, u usage, _ int) int64 { return u.second }
func (logged) reset(_ *Limit, u usage) int64       { return u.fourth }
