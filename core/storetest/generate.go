package storetest

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-go/ratelimit/core"
)

// The drawn numbers have broken limiters: fractions of a microsecond, rates that no float divides, levels that a float
// cannot hold, and limits that can only be counted in milliseconds.
var (
	rates = []core.Rate{
		core.PerSecond(1), core.PerSecond(10), core.PerSecond(1_000_000), core.PerSecond(700_000),
		core.PerMinute(20), core.PerHour(100), core.PerDay(1), core.PerDay(150_000),
		core.Per(3, 2*time.Millisecond), core.Per(7, 3*time.Second), core.Per(2, 2*time.Second),
		core.Per(1, time.Nanosecond), core.Per(1_000_000_000, time.Second), core.Per(3, 7*time.Nanosecond),
		core.Per(5, 1900*time.Millisecond), core.Per(1, 365*24*time.Hour), core.Per(999_999, 365*24*time.Hour),
		core.Per(999_983, 30*24*time.Hour),
	}
	capacities = []int{1, 2, 3, 7, 10, 100, 12_345, 1_000_000, 1_000_000_000}
	windows    = []time.Duration{
		time.Microsecond, 3 * time.Microsecond, time.Millisecond, 250 * time.Millisecond, time.Second,
		1900 * time.Millisecond, time.Minute, time.Hour, 24 * time.Hour, 365 * 24 * time.Hour,
	}
)

// coarse are limits that can only be counted in milliseconds.
var coarse = []struct {
	capacity int
	rate     core.Rate
}{
	{1_000_000, core.Per(999_999, 365*24*time.Hour)},
	{12_345, core.Per(999_999, 365*24*time.Hour)},
	{1_000_000, core.Per(999_983, 30*24*time.Hour)},
	{1_000_000, core.Per(1_000_000, 24*time.Hour)}, // as a sliding window
}

// mostLogged keeps the logs that are drawn short.
const mostLogged = 40

// of returns n events at once and, in the long run, in each period.
func of(algorithm string, n int, period time.Duration) core.Quota {
	return newLimit(algorithm, n, core.Per(n, period))
}

func drawLimit(t *rapid.T, algorithm string) core.Quota {
	return rapid.Custom(func(t *rapid.T) core.Quota {
		capacity := rapid.OneOf(rapid.SampledFrom(capacities), rapid.IntRange(1, 20)).Draw(t, "capacity")
		if algorithm == "sliding-log" {
			capacity = min(capacity, mostLogged)
		}
		if algorithm == "calendar" {
			return drawCalendar(t, capacity).WithDebt(max(0, rapid.IntRange(-capacity, capacity).Draw(t, "debt")))
		}
		rate := rapid.SampledFrom(rates).Draw(t, "rate")
		if algorithmOf(algorithm).window {
			rate.Period = rapid.SampledFrom(windows).Draw(t, "window")
		}
		if algorithm != "sliding-log" && rapid.IntRange(0, 5).Draw(t, "coarse") == 0 {
			c := rapid.SampledFrom(coarse).Draw(t, "in milliseconds")
			capacity, rate = c.capacity, c.rate
		}
		return drawDebt(t, newLimit(algorithm, capacity, rate))
	}).Filter(func(l core.Quota) bool { return l.Validate() == nil }).Draw(t, "limit")
}

// drawDebt gives a third of the limits debt that can have it: up to as much again as the capacity.
func drawDebt(t *rapid.T, l core.Quota) core.Quota {
	if !algorithmOf(l.Algorithm()).owes || rapid.IntRange(0, 2).Draw(t, "with debt") > 0 {
		return l
	}
	return l.WithDebt(rapid.IntRange(0, l.Capacity()).Draw(t, "debt"))
}

// drawCost draws a cost of at least one: small, about all there is, or too much.
func drawCost(t *rapid.T, l core.Limit, label string) int {
	c := l.Capacity()
	return rapid.OneOf(
		rapid.Just(1),
		rapid.IntRange(1, min(c, 4)),
		rapid.IntRange(1, c),
		rapid.SampledFrom([]int{c, max(1, c-1), max(1, c/2), max(1, c/3)}),
	).Draw(t, label)
}

// drawAnyCost draws also no cost, and one above the capacity.
func drawAnyCost(t *rapid.T, l core.Limit) int {
	switch rapid.IntRange(0, 15).Draw(t, "kind of cost") {
	case 0:
		return 0
	case 1:
		return rapid.SampledFrom([]int{l.Capacity() + 1, 2 * l.Capacity(), math.MaxInt}).Draw(t, "too much")
	}
	return drawCost(t, l, "cost")
}

// drawHeadroom draws how much a check leaves for others: little, about all that its cost leaves, or more.
func drawHeadroom(t *rapid.T, c core.Check) int {
	capacity := c.Limit.Capacity()
	left := max(0, capacity-min(c.Units(), capacity))
	return rapid.OneOf(
		rapid.IntRange(0, min(capacity, 4)),
		rapid.IntRange(0, left),
		rapid.SampledFrom([]int{left, max(0, left-1), left / 2, left / 3, left + 1, capacity, math.MaxInt}),
	).Draw(t, "headroom")
}

// drawWait draws how long to wait after an answer: not at all, any time up to a
// full recovery, just until something should change or just before, or years.
func drawWait(t *rapid.T, d core.Decision) time.Duration {
	const tick = time.Microsecond
	waits := []time.Duration{
		0, tick, 999 * tick, time.Millisecond, 900 * time.Millisecond,
		d.NextAfter, d.NextAfter - tick, d.NextAfter - time.Millisecond, d.NextAfter + tick,
		d.ResetAfter, d.ResetAfter - tick, d.ResetAfter - time.Millisecond, d.ResetAfter / 2, d.ResetAfter / 3,
	}
	if d.RetryAfter != core.Never {
		waits = append(waits, d.RetryAfter, d.RetryAfter-tick, d.RetryAfter-time.Millisecond, d.RetryAfter+tick)
	}
	wait := rapid.OneOf(
		rapid.SampledFrom(waits),
		rapid.SampledFrom(waits),
		rapid.Custom(func(t *rapid.T) time.Duration {
			return time.Duration(rapid.Int64Range(0, max(1, d.ResetAfter.Microseconds())).Draw(t, "microseconds")) * tick
		}),
		rapid.Custom(func(t *rapid.T) time.Duration {
			period := d.Limit.Rate().Period
			return period * time.Duration(rapid.IntRange(0, 20).Draw(t, "tenths")) / 10
		}),
		rapid.SampledFrom([]time.Duration{time.Hour, 370 * 24 * time.Hour}),
	).Draw(t, "wait")
	return max(0, wait).Truncate(tick)
}

// use asks a limit at random for a while, as a background for the claim of a law. The clock ends at a random part of a
// millisecond.
func (s *stand) use(t *rapid.T, key string, l core.Quota) {
	s.clock.now.Store(start.UnixMicro() + rapid.Int64Range(0, 2_000_000).Draw(t, "start"))
	for range rapid.IntRange(0, 6).Draw(t, "requests before") {
		d := s.allow(t, key, l, drawCost(t, l, "cost before"))
		if wait := drawWait(t, d); s.clock.now.Load()+wait.Microseconds() < early {
			s.wait(wait)
		}
	}
}

// latest bounds how far a history goes, so that every instant is a number that
// scripts count exactly: those end with the year 2255.
var latest = time.Date(2140, time.January, 1, 0, 0, 0, 0, time.UTC).UnixMicro()

// early bounds how far the use of a key goes, so that a law may wait until it has
// recovered, and then until it has once more: a century each at most.
var early = time.Date(2050, time.January, 1, 0, 0, 0, 0, time.UTC).UnixMicro()

// tick returns the unit of a limit's clock.
func tick(l core.Limit) time.Duration {
	return time.Duration(numbersOf(l).tick) * time.Microsecond
}

func callString(checks []core.Check) string {
	var b strings.Builder
	for i, c := range checks {
		switch {
		case c.Or:
			b.WriteString(" or ")
		case i > 0:
			b.WriteString(" and ")
		}
		fmt.Fprintf(&b, "%d of %q under %s", c.Units(), c.Key, c.Limit)
		if c.Headroom > 0 {
			fmt.Fprintf(&b, " with a headroom of %d", c.Headroom)
		}
		if c.Shadow {
			b.WriteString(" as a shadow")
		}
		if c.Mode != core.Charge {
			fmt.Fprintf(&b, " (%s)", c.Mode)
		}
	}
	return b.String()
}

// tContext returns the context of a test or of one random example.
func tContext(t rapid.TB) context.Context {
	switch t := t.(type) {
	case *testing.T:
		return t.Context()
	case *rapid.T:
		return t.Context()
	}
	return context.Background()
}
