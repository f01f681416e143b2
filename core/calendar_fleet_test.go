package core_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/redistest"
)

// Two versions of a zone's rules, an hour apart: whoever is first opens the window, and nobody gets n twice
// around its ends. The two are a named limit by the clocks of two zones here.
func TestAFleetThatDisagreesDoesNotDouble(t *testing.T) {
	berlin := core.Calendar(10, core.Daily("Europe/Berlin")).Named("plan")
	london := core.Calendar(10, core.Daily("Europe/London")).Named("plan")
	rapid.Check(t, func(t *rapid.T) {
		var clock at
		limiter := core.New(core.NewMemory(core.WithClock(clock.Now)))
		clock.set(t, "UTC", "2026-11-21 12:00:00")
		var admitted []int64
		for range rapid.IntRange(1, 60).Draw(t, "calls") {
			clock.microseconds.Add(rapid.Int64Range(0, (2*time.Hour).Microseconds()).Draw(t, "later"))
			l := rapid.SampledFrom([]core.Quota{berlin, london}).Draw(t, "whose")
			n := rapid.IntRange(1, 10).Draw(t, "units")
			d, err := limiter.AllowN(t.Context(), "key", l, n)
			if err != nil {
				t.Fatal(err)
			}
			if d.Allowed {
				for range n {
					admitted = append(admitted, clock.microseconds.Load())
				}
			}
		}
		// A day is 23 hours or more after the window before it was opened, by either version, so that no
		// more than two windows touch 22 hours and 59 minutes.
		for i := range admitted {
			count := 0
			for _, other := range admitted[i:] {
				if other < admitted[i]+(22*time.Hour+59*time.Minute).Microseconds() {
					count++
				}
			}
			if count > 20 {
				t.Fatalf("%d were admitted in less than 23 hours", count)
			}
		}
	})
	// Around the ends: what is used in the last hour by one version counts until the other's end.
	for name, pair := range map[string][2]core.Quota{"the earlier is first": {berlin, london}, "the later is first": {london, berlin}} {
		for _, evening := range []string{"2026-11-21 23:30:00", "2026-11-21 22:30:00"} {
			var clock at
			for store, limiter := range stores(t, clock.Now) {
				clock.set(t, "UTC", evening)
				total := 0
				for i := range 5 {
					for range 20 {
						if mustAllow(t, limiter, "key", pair[i%2], 1).Allowed {
							total++
						}
					}
					clock.microseconds.Add((20 * time.Minute).Microseconds())
				}
				if total > 20 {
					t.Errorf("%s, %s: %d were admitted around one midnight from %s on, want 20 at most", store, name, total, evening)
				}
			}
		}
	}
}

// A named limit that gets another period keeps what was used until the window ends in which it was used.
func TestCalendarWithAnotherPeriodKeepsWhatWasUsed(t *testing.T) {
	var clock at
	for name, limiter := range stores(t, clock.Now) {
		plan := func(n int, p core.Period) core.Quota { return core.Calendar(n, p).Named("plan") }
		first, moved := plan(10, core.Monthly("UTC")), plan(20, core.Monthly("UTC").From(15))
		clock.set(t, "UTC", "2026-11-10 12:00:00")
		mustAllow(t, limiter, "key", first, 7)
		if d := mustAllow(t, limiter, "key", moved, 0); d.Remaining != 13 {
			t.Errorf("%s: 7 of 20 are used, and %d remain", name, d.Remaining)
		}
		clock.set(t, "UTC", "2026-11-20 12:00:00") // a window of the new period has begun
		d := mustAllow(t, limiter, "key", moved, 14)
		if d.Allowed || d.Remaining != 13 {
			t.Errorf("%s: 7 of 20 are still used: %+v", name, d)
		}
		opens := clock.Now().Add(d.RetryAfter)
		if want := time.Date(2026, time.December, 1, 0, 0, 0, 0, time.UTC); !opens.Equal(want) {
			t.Errorf("%s: the next window opens at %s, want %s", name, opens.UTC(), want)
		}
		clock.microseconds.Store(opens.UnixMicro() - 1)
		if mustAllow(t, limiter, "key", moved, 14).Allowed {
			t.Errorf("%s: passes before its RetryAfter", name)
		}
		clock.microseconds.Store(opens.UnixMicro())
		if d := mustAllow(t, limiter, "key", moved, 20); !d.Allowed || !clock.Now().Add(d.ResetAfter).Equal(time.Date(2026, time.December, 15, 0, 0, 0, 0, time.UTC)) {
			t.Errorf("%s: the next window: %+v", name, d)
		}
		if err := limiter.Reset(t.Context(), "key", moved); err != nil {
			t.Fatal(err)
		}
		if d := mustAllow(t, limiter, "key", moved, 20); !d.Allowed {
			t.Errorf("%s: after a reset: %+v", name, d)
		}
	}
}

// A state whose window is longer than any calendar cuts is damaged, and denies nobody.
func TestCalendarStateWithoutEndHeals(t *testing.T) {
	client, prefix := redistest.Shared(t).Client(t), redistest.Prefix(t)
	limiter := core.New(core.NewRedis(client, core.WithPrefix(prefix), core.WithBudget(patient)))
	l := core.Calendar(10, core.Daily("UTC"))
	mustAllow(t, limiter, "key", l, 10)
	client.HSet(t.Context(), onlyKey(t, client, prefix), "end", time.Now().AddDate(100, 0, 0).UnixMicro())
	if d := mustAllow(t, limiter, "key", l, 10); !d.Allowed {
		t.Errorf("denied by a window of a hundred years: %+v", d)
	}
}
