package core_test

import (
	"fmt"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"golang.org/x/time/rate"
	"pgregory.net/rapid"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/redistest"
)

func TestDebtAsText(t *testing.T) {
	for text, want := range map[string]core.Quota{
		"leaky 10, 1/s, debt 50":                       core.Leaky(10, core.PerSecond(1)).WithDebt(50),
		"month: calendar 5, month@1 UTC, debt 5":       core.Calendar(5, core.Monthly("UTC")).WithDebt(5).Named("month"),
		"plan: token-bucket 100, 5/2s, debt unlimited": core.TokenBucket(100, core.Per(5, 2*time.Second)).WithDebt(math.MaxInt).Named("plan"),
		"fixed-window 5, 15m, debt unlimited":          core.FixedWindow(5, 15*time.Minute).WithDebt(math.MaxInt),
		"gcra 10, 1/s, debt 50, exact":                 core.GCRA(10, core.PerSecond(1)).WithDebt(50).Exact(),
	} {
		if l, err := core.ParseLimit(text); err != nil || l != want || l.String() != text {
			t.Errorf("%q is read as %v, %v", text, l, err)
		}
	}
	for text, want := range map[string]string{
		"leaky 10, 1/s, debt":             "debt",
		"leaky 10, 1/s, debt 0":           "a debt of 0 is none: leave it out",
		"leaky 10, 1/s, debt -5":          "debt",
		"leaky 10, 1/s, debt many":        `debt "many"`,
		"leaky 10, debt 5":                "",
		"leaky 10, 1/s, exact, debt 50":   "",
		"sliding-window 5, 15m, debt 5":   "has no debt",
		"calendar 5, day UTC, debt 6":     "debt is more than the capacity of 5",
		"fixed-window 5, 365d, debt 5000": "100 years",
		"ban 5, 10m, debt 5":              "",
	} {
		if l, err := core.ParseLimit(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is read as %v, %v, want an error with %q", text, l, err, want)
		}
	}
	if name := core.Leaky(10, core.PerSecond(1)).WithDebt(50).Name(); name != "leaky:10:1/s:debt:50" {
		t.Errorf("the name is %s", name)
	}
	if core.Unlimited.WithDebt(50) != core.Unlimited {
		t.Error("Unlimited has a debt")
	}
}

// A limit that could have debt, and forgives, is told once in the log. One with debt, and a settlement that fits, are not.
func TestTheLogTellsOfForgivenUnits(t *testing.T) {
	for want, l := range map[int]core.Quota{1: core.Leaky(10, core.PerHour(1)), 0: core.Leaky(10, core.PerHour(1)).WithDebt(100)} {
		var log strings.Builder
		limiter := core.New(core.NewMemory(), core.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		for _, cost := range []int{4, 30, 30} {
			r, err := limiter.Reserve(t.Context(), core.Check{Key: fmt.Sprint("key-", cost), Limit: l, Cost: 2})
			if err != nil {
				t.Fatal(err)
			}
			if r.Allowed() {
				if err := r.Settle(t.Context(), cost); err != nil {
					t.Fatal(err)
				}
			}
		}
		limiter.Close()
		if got := strings.Count(log.String(), "a limit without debt may forgive the excess"); got != want || want == 1 && !strings.Contains(log.String(), "reserved=2 cost=30") {
			t.Errorf("%s: the log says it %d times, want %d: %s", l, got, want, log.String())
		}
	}
}

// Servers that go on without Redis divide the debt, as they divide the capacity and the rate.
func TestAShareOfALimitHasAShareOfItsDebt(t *testing.T) {
	for most, want := range map[int]int{0: 0, 1: 1, 50: 17, 51: 17, math.MaxInt: math.MaxInt} {
		if got := core.Leaky(30, core.PerSecond(3)).WithDebt(most).Share(3); got.Debt() != want || got.Capacity() != 10 {
			t.Errorf("a third of a limit with a debt of %d is %s, want a debt of %d", most, got, want)
		}
	}
}

// A key in debt lives until the debt is paid.
func TestAKeyLivesAsLongAsItsDebt(t *testing.T) {
	client := redistest.Shared(t).Client(t)
	for _, l := range []core.Quota{
		core.Leaky(600, core.PerMinute(1)), core.TokenBucket(600, core.PerMinute(1)), core.GCRA(600, core.PerMinute(1)),
		core.FixedWindow(600, 5*time.Hour), core.Calendar(600, core.Every(5*time.Hour)),
	} {
		t.Run(l.Algorithm(), func(t *testing.T) {
			prefix := redistest.Prefix(t)
			limiter := core.New(core.NewRedis(client, core.WithPrefix(prefix), core.WithBudget(patient)))
			r, err := limiter.Reserve(t.Context(), core.Check{Key: "key", Limit: l.WithDebt(600), Cost: 2})
			if err != nil {
				t.Fatal(err)
			}
			if err := r.Settle(t.Context(), 1200); err != nil {
				t.Fatal(err)
			}
			ttlCovers(t, client, onlyKey(t, client, prefix), r.Decisions()[0].ResetAfter)
		})
	}
}

// The reservations of golang.org/x/time/rate go below zero tokens. A limit with debt that charges as much tells the same wait.
func TestXTimeRateTellsTheSameWait(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		burst, perSecond := rapid.IntRange(1, 20).Draw(t, "burst"), rapid.IntRange(1, 50).Draw(t, "rate")
		now := time.Date(2026, time.November, 21, 12, 0, 0, 0, time.UTC)
		limiter := core.New(core.NewMemory(core.WithClock(func() time.Time { return now })))
		defer limiter.Close()
		theirs := rate.NewLimiter(rate.Limit(perSecond), burst)
		ours := core.TokenBucket(burst, core.PerSecond(perSecond)).WithDebt(math.MaxInt)
		for range rapid.IntRange(1, 20).Draw(t, "reservations") {
			now = now.Add(time.Duration(rapid.IntRange(0, 1_000_000).Draw(t, "microseconds")) * time.Microsecond)
			n := rapid.IntRange(1, burst).Draw(t, "tokens")
			theirs.ReserveN(now, n)
			if _, err := limiter.Charge(t.Context(), "key", ours, n); err != nil {
				t.Fatal(err)
			}
			cost := rapid.IntRange(1, burst).Draw(t, "cost")
			d, err := limiter.AllowAll(t.Context(), core.Check{Key: "key", Limit: ours, Cost: cost, Mode: core.Condition})
			if err != nil {
				t.Fatal(err)
			}
			next := theirs.ReserveN(now, cost)
			wait := next.DelayFrom(now)
			next.CancelAt(now)
			if off := d[0].RetryAfter - wait; off < -time.Microsecond || off > 2*time.Microsecond { // they count in floats, and we in microseconds
				t.Fatalf("%d wait for %v, and x/time/rate says %v", cost, d[0].RetryAfter, wait)
			}
		}
	})
}
