package core

import (
	"fmt"
	"time"
)

// FixedWindow returns a limit of n events per window. A window opens with the
// first event that a key is admitted, not on the round minute, and closes after
// its length; then the count starts anew.
//
// It is the cheapest limit and the easiest to explain, and it lets twice n pass
// within one window's length: n at the end of one window and n at the start of
// the next. A window is a whole number of microseconds.
//
//	FixedWindow(100, time.Minute)
func FixedWindow(n int, window time.Duration) Limit {
	return newLimit(fixedWindow, n, Rate{Events: n, Period: window})
}

// fixed is the arithmetic of a fixed window.
//
// Its usage is the events counted and the microseconds until the window closes,
// both 0 while none is open.
type fixed struct{}

func (fixed) units(capacity int, rate Rate) (units, error) {
	return windowUnits(capacity, rate.Period, time.Microsecond)
}

// windowUnits returns the units of a limit that counts events per window.
func windowUnits(capacity int, window, tick time.Duration) (units, error) {
	if window%tick != 0 {
		return units{}, fmt.Errorf("window is not a whole number of %ss", map[time.Duration]string{
			time.Microsecond: "microsecond", time.Millisecond: "millisecond",
		}[tick])
	}
	if window > longest {
		return units{}, fmt.Errorf("window is longer than %d years", longest/(365*day))
	}
	if capacity > most {
		return units{}, fmt.Errorf("capacity %d does not stay below 2^53", capacity)
	}
	return units{
		tick:     tick.Microseconds(),
		weight:   1,
		capacity: int64(capacity),
		window:   int64(window / tick),
	}, nil
}

func (f fixed) observe(l *Limit, s *state, now int64, _ int) (usage, bool) {
	u, told := f.opened(l, s, now)
	used := min(u.used, l.units.capacity)
	return usage{used: used, second: u.second}, u.second != told || used != u.used
}

// opened returns the usage of a window that is open, be it more than the capacity, and
// when it was to close.
func (fixed) opened(l *Limit, s *state, now int64) (u usage, told int64) {
	if s.empty() {
		return usage{}, 0
	}
	// An open window closes when it was said to, whatever the length of the next
	// one, but never later than a full window from now.
	told = s.at + s.ruling.limit.units.window - now
	if told <= 0 {
		return usage{}, 0
	}
	return usage{used: s.level, second: min(told, l.units.window)}, told
}

func (fixed) store(l *Limit, s *state, u usage, now int64, cost int) {
	left := u.second
	if left == 0 {
		left = l.units.window
	}
	s.level, s.at = u.used+int64(cost), now+left-l.units.window
}

func (f fixed) settle(l *Limit, s *state, now int64, c *correction) bool {
	own := s.limitOf(l)
	u, _ := f.opened(own, s, now) // others may have used more, under other numbers
	opened := now + u.second - own.units.window
	if c.at.At != 0 && (u.second == 0 || c.at.At < opened) {
		return false // that window has closed
	}
	change := countChange(l, u.used, c)
	if change == 0 {
		return false
	}
	f.store(own, s, usage{used: u.used + change, second: u.second}, now, 0)
	return true
}

// countChange returns by how much a correction changes a count.
func countChange(l *Limit, count int64, c *correction) int64 {
	events := int64(c.events)
	if c.raise {
		events = max(0, events-count)
	}
	return max(-count, min(events, max(0, l.units.capacity-count)))
}

func (fixed) fits(l *Limit, u usage, cost int) bool {
	return int64(cost) <= l.units.capacity-u.used
}

func (fixed) wait(_ *Limit, u usage, _ int) int64 { return u.second }

func (fixed) charged(l *Limit, u usage, cost int) usage {
	if u.second == 0 {
		u.second = l.units.window
	}
	u.used += int64(cost)
	return u
}

func (fixed) remaining(l *Limit, u usage) int     { return int(l.units.capacity - u.used) }
func (fixed) next(_ *Limit, u usage, _ int) int64 { return u.second }
func (fixed) reset(_ *Limit, u usage) int64       { return u.second }
