package core_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
)

func TestResetForgetsDenials(t *testing.T) {
	limiter, store, _, _ := cached()
	l := core.Leaky(1, core.PerHour(1))
	for range 2 {
		mustAsk(t, limiter, store, l, 1)
	}
	if err := limiter.Reset(t.Context(), "key", l); err != nil {
		t.Fatal(err)
	}
	if d, asked := mustAsk(t, limiter, store, l, 1); !asked || !d.Allowed {
		t.Errorf("after a reset: %+v, asked %t", d, asked)
	}
}

// What passes at a lower cost changes the numbers of what has been denied.
func TestChargeForgetsTheNumbersOfDearerDenials(t *testing.T) {
	limiter, store, _, _ := cached()
	l := core.Leaky(5, core.PerHour(1))
	for _, cost := range []int{3, 3, 1} {
		mustAsk(t, limiter, store, l, cost)
	}
	if d, asked := mustAsk(t, limiter, store, l, 3); !asked || d.RetryAfter != 2*time.Hour || d.Remaining != 1 {
		t.Errorf("%+v, asked %t, want a wait of 2h and 1 remaining", d, asked)
	}
}

// A denial that is on its way while the key is reset is not remembered.
func TestDenialThatCrossesAReset(t *testing.T) {
	limiter, store, _, _ := cached()
	l := core.Leaky(1, core.PerHour(1))
	mustAsk(t, limiter, store, l, 1)
	store.before = func() {
		store.before = nil
		if err := limiter.Reset(t.Context(), "key", l); err != nil {
			t.Error(err)
		}
	}
	if d, _ := mustAsk(t, limiter, store, l, 1); d.Allowed {
		t.Fatal("want a denial, as before the reset")
	}
	if d, asked := mustAsk(t, limiter, store, l, 1); !asked || !d.Allowed {
		t.Errorf("after the reset: %+v, asked %t", d, asked)
	}
}

// The RetryAfter of a window that has become longer is an estimate, and not repeated.
func TestEstimatesAreNotRepeated(t *testing.T) {
	limiter, store, _, now := cached()
	short, long := core.SlidingWindow(5, time.Second).Named("plan"), core.SlidingWindow(5, time.Minute).Named("plan")
	mustAsk(t, limiter, store, short, 5)
	mustAsk(t, limiter, store, long, 1)
	for range 9 {
		*now = now.Add(time.Second)
		want, err := core.New(store).Peek(t.Context(), "key", long)
		if err != nil {
			t.Fatal(err)
		}
		if d, _ := mustAsk(t, limiter, store, long, 1); d.Allowed != want.Allowed {
			t.Fatalf("%+v, want %+v", d, want)
		}
	}
}

// A denial that crosses other numbers of its limit, or a charge, is not remembered.
func TestDenialThatCrossesOtherCalls(t *testing.T) {
	small, large := core.Leaky(1, core.PerHour(1)).Named("plan"), core.Leaky(5, core.PerSecond(1)).Named("plan")
	t.Run("other numbers", func(t *testing.T) {
		limiter, store, _, now := cached()
		mustAsk(t, limiter, store, small, 1)
		store.before = func() {
			store.before = nil
			mustAsk(t, limiter, store, large, 1)
		}
		mustAsk(t, limiter, store, small, 1) // denied, and then the plan changes
		*now = now.Add(5 * time.Second)
		if d, asked := mustAsk(t, limiter, store, small, 1); !asked || !d.Allowed {
			t.Errorf("%+v, asked %t", d, asked)
		}
	})
	t.Run("a charge", func(t *testing.T) {
		limiter, store, _, _ := cached()
		l := core.Leaky(5, core.PerHour(1))
		mustAsk(t, limiter, store, l, 2)
		store.before = func() {
			store.before = nil
			mustAsk(t, limiter, store, l, 3)
		}
		mustAsk(t, limiter, store, l, 4)
		if d, asked := mustAsk(t, limiter, store, l, 4); !asked || d.Remaining != 0 {
			t.Errorf("%+v, asked %t, want the numbers after the charge", d, asked)
		}
	})
}

func TestDenialCacheHeedsTheContext(t *testing.T) {
	limiter, store, _, _ := cached()
	l := core.Leaky(1, core.PerHour(1))
	for range 2 {
		mustAsk(t, limiter, store, l, 1)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := limiter.Allow(ctx, "key", l); core.FailureOf(err) != core.GivenUp {
		t.Errorf("error %v, want one that is %s", err, core.GivenUp)
	}
}

func TestNewNumbersForgetDenials(t *testing.T) {
	limiter, store, _, _ := cached()
	small, large := core.Leaky(1, core.PerHour(1)).Named("plan"), core.Leaky(3, core.PerHour(1)).Named("plan")
	for range 2 {
		mustAsk(t, limiter, store, small, 1)
	}
	if d, asked := mustAsk(t, limiter, store, large, 1); !asked || !d.Allowed || d.Remaining != 1 {
		t.Errorf("with a larger plan: %+v, asked %t", d, asked)
	}
}

// Numbers that come back find nothing that was denied under them before, also where other keys were
// the first to be asked under the numbers in between.
func TestNumbersThatComeBackForgetDenials(t *testing.T) {
	limiter, _, _, now := cached()
	slow, fast := core.Leaky(1, core.PerHour(1)).Named("plan"), core.Leaky(5, core.PerSecond(1)).Named("plan")
	for _, step := range []struct {
		limit   core.Quota
		allowed bool
		later   time.Duration
	}{{slow, true, 0}, {slow, false, 0}, {fast, true, 5 * time.Second}, {slow, true, 0}} {
		for i := range 1000 {
			key := fmt.Sprint("key-", i)
			if d, err := limiter.Allow(t.Context(), key, step.limit); err != nil || d.Allowed != step.allowed {
				t.Fatalf("%s under %s: %+v, %v, want allowed %t", key, step.limit, d, err, step.allowed)
			}
		}
		*now = now.Add(step.later)
	}
}
