package core

import (
	"fmt"
	"time"
)

// SlidingWindow returns a limit of n events in about any window of the given
// length, kept with two counters: the events of the current window, and those of
// the one before it, weighted by how much of that the sliding window still
// covers. Windows are aligned to 1970 on the store's clock.
//
// It takes a fraction of the memory of [SlidingLog] and smooths out the double
// burst of [FixedWindow]. It is an estimate in that the previous window's events
// are taken to have come evenly; the weighted part is not rounded. A window is a
// whole number of milliseconds, or of microseconds where n windows' worth of them
// stays below 2^53.
//
// When the capacity of a named limit is made smaller, what has been used fills it at most: the
// count of the previous window may be more than the capacity, as long as its weighted part is not.
// When the window is made longer, refusals count on in the
// former one until the next admission, so that their RetryAfter is an estimate.
//
//	SlidingWindow(1000, time.Hour)
func SlidingWindow(n int, window time.Duration) Limit {
	return newLimit(slidingWindow, n, Rate{Events: n, Period: window})
}

// sliding is the arithmetic of two weighted counters.
//
// Its usage is the events of the current window, those of the previous one, and
// the ticks since the current one began.
type sliding struct{}

func (sliding) units(capacity int, rate Rate) (units, error) {
	var problem error
	for _, tick := range [...]time.Duration{time.Microsecond, time.Millisecond} {
		u, err := windowUnits(capacity, rate.Period, tick)
		if err != nil {
			problem = err
			continue
		}
		if _, ok := multiply(u.capacity, u.window); ok {
			return u, nil
		}
		problem = fmt.Errorf("%d events weighted by %v cannot be counted in whole numbers below 2^53, not even in milliseconds: "+
			"take a smaller capacity or a shorter window", capacity, rate.Period)
	}
	return units{}, problem
}

func (a sliding) observe(l *Limit, s *state, now int64, _ int) (usage, bool) {
	u, repair := a.counted(l, s, now)
	full := l.units.capacity
	if s.empty() || s.ruling.limit.units == l.units && u.used <= full && u.second <= full {
		return u, repair
	}
	// Counts of another capacity stand as far as what is used of them, by their weights, fits
	// in this one.
	used, window, left := min(u.used, full), l.units.window, l.units.window-u.third
	second := u.second
	if room := (full - used) * window; second*left > room {
		second = room / left
	}
	repair = repair || used != u.used || second != u.second
	return usage{used: used, second: second, third: u.third}, repair
}

// counted is observe, for a usage that may be more than the capacity.
func (sliding) counted(l *Limit, s *state, now int64) (u usage, repair bool) {
	elapsed := now / l.units.tick % l.units.window
	if s.empty() {
		return usage{third: elapsed}, false
	}
	current, previous, repair := rolled(s, now)
	if s.ruling.limit.units.window != l.units.window || s.ruling.limit.units.tick != l.units.tick {
		// Windows of another length: what is used moves into the current one. A
		// refusal leaves it so only if that ends sooner. Else two lengths that take
		// turns, as during a deployment, would put the end off for ever.
		former := s.ruling.limit.units.window
		current += divideUp(previous*(former-now/s.ruling.limit.units.tick%former), former)
		previous = 0
		repair = repair || l.rate.Period < time.Duration(former*s.ruling.limit.units.tick)*time.Microsecond
	}
	return usage{used: current, second: previous, third: elapsed}, repair
}

// rolled returns the counts of a state as they stand in the window of an instant,
// and whether the state is from a later one.
func rolled(s *state, now int64) (current, previous int64, future bool) {
	ticks := now / s.ruling.limit.units.tick
	age := ticks - ticks%s.ruling.limit.units.window - s.at/s.ruling.limit.units.tick
	switch {
	case age < 0:
		return s.level, s.previous, true
	case age < s.ruling.limit.units.window:
		return s.level, s.previous, false
	case age < 2*s.ruling.limit.units.window:
		return 0, s.level, false
	}
	return 0, 0, false
}

func (sliding) store(l *Limit, s *state, u usage, now int64, cost int) {
	s.level, s.previous = u.used+int64(cost), u.second
	s.at = now - now%l.units.tick - u.third*l.units.tick
}

func (a sliding) settle(l *Limit, s *state, now int64, c *correction) bool {
	own := s.limitOf(l)
	u, _ := a.counted(own, s, now)                       // others may have used more, under other numbers
	before, window, age := u, own.units.window, int64(0) // from the charge to the current window
	if c.at.At != 0 {
		age = now/own.units.tick - c.at.At/own.units.tick - u.third
	}
	switch {
	case age <= 0:
		weighted := divideUp(u.second*(window-u.third), window)
		change := int64(c.events)
		if c.raise {
			change = max(0, change-u.used-weighted)
		}
		if change > 0 {
			change = max(0, min(change, l.units.capacity-u.used-weighted))
		}
		rest := min(0, u.used+change)
		u.used += change - rest
		if c.at.At == 0 {
			u.second = max(0, u.second+rest)
		}
	case age <= window:
		u.second += countChange(l, u.second, c)
	}
	if u == before {
		return false
	}
	a.store(own, s, u, now, 0)
	return true
}

func (sliding) fits(l *Limit, u usage, cost int) bool {
	room := l.units.capacity - u.used - int64(cost)
	return room >= 0 && u.second*(l.units.window-u.third) <= room*l.units.window
}

// wait solves previous·(window−elapsed) ≤ room·window for the elapsed ticks: in
// this window if its own events leave room, and otherwise in the next one, where
// they are the previous ones. Nothing jumps at the turn of the window, so what
// does not fit now fits from that tick on.
func (sliding) wait(l *Limit, u usage, cost int) int64 {
	current, previous, left := u.used, u.second, l.units.window-u.third
	room := l.units.capacity - int64(cost)
	if room >= current {
		return (left - (room-current)*l.units.window/previous) * l.units.tick
	}
	return (left + l.units.window - room*l.units.window/current) * l.units.tick
}

func (sliding) charged(_ *Limit, u usage, cost int) usage {
	u.used += int64(cost)
	return u
}

func (sliding) remaining(l *Limit, u usage) int {
	weighted := divideUp(u.second*(l.units.window-u.third), l.units.window)
	return int(max(0, l.units.capacity-u.used-weighted))
}

func (a sliding) next(l *Limit, u usage, remaining int) int64 {
	if u.used == 0 && u.second == 0 {
		return 0
	}
	return a.wait(l, u, remaining+1)
}

func (sliding) reset(l *Limit, u usage) int64 {
	left := l.units.window - u.third
	switch {
	case u.used > 0:
		return (left + l.units.window) * l.units.tick
	case u.second > 0:
		return left * l.units.tick
	}
	return 0
}
