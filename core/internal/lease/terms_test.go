package lease_test

import (
	"math"
	"math/big"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-go/ratelimit/core/internal/calendar"
	"github.com/weir-go/ratelimit/core/internal/exact"
	"github.com/weir-go/ratelimit/core/internal/lease"
)

func specOf(a exact.Algorithm, capacity, events int, period time.Duration) *exact.Spec {
	return exact.NewSpec(exact.Params{Algorithm: a, Capacity: capacity, Events: events, Period: period}, nil)
}

func calendarOf(capacity int, period calendar.Period) *exact.Spec {
	return exact.NewSpec(exact.CalendarParams(capacity, period), nil)
}

func TestTermsOf(t *testing.T) {
	for _, c := range []struct {
		name  string
		spec  *exact.Spec
		over  float64
		lasts time.Duration
		most  int
	}{
		{"a hundredth of a bucket", specOf(exact.Leaky, 10_000, 1000, time.Second), 0.01, 100 * time.Millisecond, 100},
		{"a hundredth of a second", specOf(exact.TokenBucket, 10_000, 10_000, time.Second), 0.01, 10 * time.Millisecond, 100},
		{"at most a second", specOf(exact.GCRA, 100_000, 100, time.Second), 0.1, time.Second, 100},
		{"a window", specOf(exact.FixedWindow, 6000, 6000, time.Minute), 0.01, 600 * time.Millisecond, 60},
		{"half for a log", specOf(exact.SlidingLog, 6000, 6000, time.Minute), 0.01, 300 * time.Millisecond, 30},
		{"half for a counter", specOf(exact.SlidingWindow, 6000, 6000, time.Minute), 0.01, 300 * time.Millisecond, 30},
		{"a long window lasts a second, too", specOf(exact.SlidingLog, 86_400, 86_400, 24*time.Hour), 0.01, time.Second, 0},
		{"an hour of a calendar", calendarOf(36_000, calendar.Period{Unit: calendar.Step, Step: time.Hour}), 0.01, time.Second, 10},
		{"months, of which the longest counts", calendarOf(33*86_400*5, calendar.Period{Unit: calendar.Month, Zone: "UTC", Day: 1}), 0.01, time.Second, 5},
		{"a month of too few", calendarOf(10_000, calendar.Period{Unit: calendar.Month, Zone: "UTC", Day: 1}), 0.01, time.Second, 0},
		{"a ban", exact.NewSpec(exact.Params{Algorithm: exact.Ban, Capacity: 10_000, Events: 10_000, Period: time.Second}, nil), 0.01, 0, 0},
		{"too short", specOf(exact.Leaky, 1000, 10_000, time.Second), 0.01, 0, 0},
		{"too few", specOf(exact.Leaky, 100, 1, time.Second), 0.01, 0, 0},
		{"no tolerance", specOf(exact.Leaky, 10_000, 1000, time.Second), 0, 0, 0},
		{"a negative one", specOf(exact.Leaky, 10_000, 1000, time.Second), -1, 0, 0},
		{"no number", specOf(exact.Leaky, 10_000, 1000, time.Second), math.NaN(), 0, 0},
		{"shaping", specOf(exact.Shaping, 10_000, 1000, time.Second), 0.01, 0, 0},
		{"places", specOf(exact.Concurrent, 10_000, 10_000, time.Second), 0.01, 0, 0},
		{"a shadow", specOf(exact.Leaky, 10_000, 1000, time.Second).Shadow(), 0.01, 0, 0},
		{"an exact one", exact.NewSpec(exact.Params{Algorithm: exact.Leaky, Capacity: 10_000, Events: 1000, Period: time.Second, Exact: true}, nil), 0.01, 0, 0},
		{"no limit", exact.Unlimited, 0.01, 0, 0},
		{"no algorithm", exact.Zero, 0.01, 0, 0},
	} {
		got := lease.TermsOf(c.spec, c.over)
		if c.most == 0 {
			c.lasts = 0
		}
		if got.Lasts != c.lasts || got.Most != c.most {
			t.Errorf("%s: %v and %d units, want %v and %d", c.name, got.Lasts, got.Most, c.lasts, c.most)
		}
	}
}

// The terms keep the bound that is declared, in exact rational numbers, whatever the limit.
func TestTermsKeepTheBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		algorithm := rapid.SampledFrom([]exact.Algorithm{
			exact.Leaky, exact.TokenBucket, exact.GCRA, exact.FixedWindow, exact.SlidingWindow, exact.SlidingLog,
		}).Draw(t, "algorithm")
		capacity := rapid.IntRange(1, 1_000_000).Draw(t, "capacity")
		events := capacity
		if algorithm.Grants() == exact.Steady {
			events = rapid.IntRange(1, 1_000_000).Draw(t, "events")
		}
		period := time.Duration(rapid.Int64Range(1000, int64(48*time.Hour)).Draw(t, "period")).Truncate(time.Microsecond)
		s := specOf(algorithm, capacity, events, period)
		if s.Problem() != nil {
			t.Skip()
		}
		over := rapid.Float64Range(0, 1).Draw(t, "over")
		terms := lease.TermsOf(s, over)
		if terms.Lasts == 0 {
			return
		}
		// What flows while a grant lasts is the excess of a meter; of a sliding limit it is twice what its meter holds.
		flows := new(big.Rat).Mul(big.NewRat(int64(events), int64(period)), big.NewRat(int64(terms.Lasts), 1))
		tolerated := new(big.Rat).Mul(new(big.Rat).SetFloat64(over), big.NewRat(int64(capacity), 1))
		if algorithm.Grants() == exact.Metered {
			m := terms.Meter
			if m.Capacity != terms.Most || m.Events != terms.Most || m.Period != terms.Lasts || exact.NewSpec(m, exact.NewSpec(m.Identity(), nil)).Problem() != nil {
				t.Fatalf("%+v", m)
			}
			flows = big.NewRat(2*int64(m.Capacity), 1)
		} else if terms.Meter.Algorithm != exact.None {
			t.Fatalf("a meter: %+v", terms.Meter)
		}
		slack := new(big.Rat).Mul(tolerated, big.NewRat(1, 1_000_000_000)) // of floating point
		if flows.Cmp(slack.Add(slack, tolerated)) > 0 || terms.Lasts > time.Second {
			t.Fatalf("%s with %v over: %v, in which %s flow", s, over, terms.Lasts, flows.FloatString(6))
		}
	})
}

func TestMeterNames(t *testing.T) {
	names := make(map[string]string)
	for _, p := range []exact.Params{
		{Algorithm: exact.SlidingLog, Capacity: 6000, Events: 6000, Period: time.Minute},
		{Algorithm: exact.SlidingLog, Capacity: 6000, Events: 6000, Period: 2 * time.Minute},
		{Algorithm: exact.SlidingWindow, Capacity: 6000, Events: 6000, Period: time.Minute},
		{Algorithm: exact.SlidingLog, Name: "login", Capacity: 6000, Events: 6000, Period: time.Minute},
		{Algorithm: exact.SlidingWindow, Name: "login", Capacity: 6000, Events: 6000, Period: time.Minute},
		{Algorithm: exact.SlidingLog, Name: strings.Repeat("x", 64), Capacity: 6000, Events: 6000, Period: time.Minute},
		{Algorithm: exact.SlidingLog, Name: strings.Repeat("x", 63) + "y", Capacity: 6000, Events: 6000, Period: time.Minute},
	} {
		meter := lease.TermsOf(exact.NewSpec(p, exact.NewSpec(p.Identity(), nil)), 0.1).Meter
		if earlier, found := names[meter.Name]; found || len(meter.Name) > exact.LongestName || !strings.HasPrefix(meter.Name, "weir-") {
			t.Errorf("the meter of %s is called %q, as that of %s", p.String(), meter.Name, earlier)
		}
		names[meter.Name] = p.String()
	}
	p := exact.Params{Algorithm: exact.SlidingLog, Name: "login", Capacity: 9000, Events: 9000, Period: time.Minute}
	if _, found := names[lease.TermsOf(exact.NewSpec(p, exact.NewSpec(p.Identity(), nil)), 0.1).Meter.Name]; !found {
		t.Error("a named limit with other numbers has another meter")
	}
}
