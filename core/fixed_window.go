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

func (fixed) observe(l *Limit, s *state, now int64, _ int) (usage, bool) {
	if s.empty() {
		return usage{}, false
	}
	// An open window closes when it was said to, whatever the length of the next
	// one, but never later than a full window from now.
	told := s.at + s.ruling.limit.units.window - now
	left := min(told, l.units.window)
	if left <= 0 {
		return usage{}, false
	}
	used := min(s.level, l.units.capacity)
	return usage{used, left}, left != told || used != s.level
}

func (fixed) store(l *Limit, s *state, u usage, now int64, cost int) {
	left := u[1]
	if left == 0 {
		left = l.units.window
	}
	s.level, s.at = u[0]+int64(cost), now+left-l.units.window
}

func (f fixed) settle(l *Limit, s *state, now int64, c *correction) bool {
	// The limit's own capacity does not bound what others, under other numbers, have
	// used.
	roomy := *s.limitOf(l)
	roomy.units.capacity = most
	u, _ := f.observe(&roomy, s, now, 0)
	opened := now + u[1] - roomy.units.window
	if c.at.At != 0 && (u[1] == 0 || c.at.At < opened) {
		return false // that window has closed
	}
	change := countChange(l, u[0], c)
	if change == 0 {
		return false
	}
	f.store(&roomy, s, usage{u[0] + change, u[1]}, now, 0)
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
	return int64(cost) <= l.units.capacity-u[0]
}

func (fixed) wait(_ *Limit, u usage, _ int) int64 { return u[1] }

func (fixed) charged(l *Limit, u usage, cost int) usage {
	if u[1] == 0 {
		u[1] = l.units.window
	}
	u[0] += int64(cost)
	return u
}

func (fixed) remaining(l *Limit, u usage) int { return int(l.units.capacity - u[0]) }
func (fixed) next(_ *Limit, u usage) int64    { return u[1] }
func (fixed) reset(_ *Limit, u usage) int64   { return u[1] }
