package core_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
)

// Keys that deny are spared, but they do not hide those that can be given up.
func TestMemoryFindsWhatItCanGiveUp(t *testing.T) {
	limiter := core.New(core.NewMemory(core.WithMaxKeys(1000)))
	for i := range 1000 {
		limit := core.GCRA(10, core.PerHour(1))
		if i < 200 {
			limit = core.GCRA(1, core.PerMinute(1)) // denies, and recovers soonest
		}
		if _, err := limiter.Allow(t.Context(), fmt.Sprint("key-", i), limit); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 100 {
		if _, err := limiter.Allow(t.Context(), fmt.Sprint("new-", i), core.GCRA(10, core.PerHour(1))); err != nil {
			t.Fatal(err)
		}
	}
}

// A key that is used much is not pushed out by keys that are used little, however old it
// is.
func TestMemoryKeepsWhatIsUsedMost(t *testing.T) {
	now := time.Date(2026, time.November, 21, 12, 0, 0, 0, time.UTC)
	limiter := core.New(core.NewMemory(core.WithMaxKeys(100), core.WithClock(func() time.Time { return now })))
	l := core.Leaky(10, core.PerHour(1))
	allow := func(key string) bool {
		t.Helper()
		d, err := limiter.Allow(t.Context(), key, l)
		if err != nil {
			t.Fatal(err)
		}
		return d.Allowed
	}
	passed := 0
	for round := range 20 {
		for range 9 {
			if allow("spender") {
				passed++
			}
		}
		for i := range 100 {
			now = now.Add(time.Microsecond)
			allow(fmt.Sprint(round, "-", i))
		}
	}
	if passed != 9+1 {
		t.Errorf("a bucket of 10 let %d pass", passed)
	}
}

// A full store that has no room for a shadow check decides the others, and says that it has not
// decided the shadow.
func TestMemoryAnswersNoShadowThatItCannotStore(t *testing.T) {
	limiter := core.New(core.NewMemory(core.WithMaxKeys(1), core.WithClock(func() time.Time { return time.Unix(1, 0) })))
	l := core.Leaky(2, core.PerHour(1))
	for remaining := 1; remaining >= 0; remaining-- {
		r, err := limiter.Reserve(t.Context(),
			core.Check{Key: "key", Limit: l, Cost: 1}, core.Check{Key: "key", Limit: l, Cost: 1, Shadow: true})
		if err != nil {
			t.Fatal(err)
		}
		if d := r.Decisions()[0]; !d.Allowed || d.Degraded || d.Remaining != remaining {
			t.Errorf("the check: %+v, want it allowed, with %d remaining", d, remaining)
		}
		if d, want := r.Decisions()[1], (core.Decision{Limit: l, Degraded: true}); d != want {
			t.Errorf("its shadow: %+v, want %+v", d, want)
		}
	}
}

// A shadow check does not push out the key that its own call has charged.
func TestMemoryShadowSparesItsCall(t *testing.T) {
	limiter := core.New(core.NewMemory(core.WithMaxKeys(1)))
	l := core.Leaky(5, core.PerHour(1))
	passed := 0
	for range 20 {
		d, err := limiter.AllowAll(t.Context(), core.Check{Key: "key", Limit: l, Cost: 1}, core.Check{Key: "key", Limit: l, Cost: 1, Shadow: true})
		if err != nil {
			t.Fatal(err)
		}
		if d[0].Allowed {
			passed++
		}
	}
	if passed != 5 {
		t.Errorf("%d passed, want 5", passed)
	}
}
