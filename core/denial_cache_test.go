package core_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/core/denialcache"
)

// counting is a store that counts the calls it is asked.
type counting struct {
	core.Store

	asked  int
	before func() // the answer
}

func (c *counting) Decide(ctx context.Context, calls []core.Call) (answered int, err error) {
	c.asked++
	answered, err = c.Store.Decide(ctx, calls)
	if c.before != nil {
		c.before()
	}
	return answered, err
}

// cached returns a limiter with a denial cache on a clock that can be turned, and how many calls the
// cache has answered.
func cached() (limiter *core.Limiter, store *counting, repeated *atomic.Int64, now *time.Time) {
	now = new(time.Time)
	*now = time.Date(2026, time.November, 21, 12, 0, 0, 0, time.UTC)
	clock := core.WithClock(func() time.Time { return *now })
	store = &counting{Store: core.NewMemory(clock)}
	repeated = new(atomic.Int64)
	cache := denialcache.New(store, 1000, clock, core.WithTrace(core.Trace{Repeated: func() { repeated.Add(1) }}))
	return core.New(cache), store, repeated, now
}

// mustAsk asks, and returns whether the store has been asked, too.
func mustAsk(t *testing.T, limiter *core.Limiter, store *counting, l core.Quota, cost int) (d core.Decision, asked bool) {
	t.Helper()
	before := store.asked
	d, err := limiter.AllowN(t.Context(), "key", l, cost)
	if err != nil {
		t.Fatal(err)
	}
	return d, store.asked > before
}

func TestADenialIsRepeatedUntilItsRetryAfter(t *testing.T) {
	limiter, store, repeated, now := cached()
	l := core.Leaky(2, core.Per(1, 3*time.Second))
	for range 3 {
		mustAsk(t, limiter, store, l, 1)
	}
	for _, left := range []time.Duration{3 * time.Second, time.Second, time.Microsecond} {
		*now = time.Date(2026, time.November, 21, 12, 0, 3, 0, time.UTC).Add(-left)
		d, asked := mustAsk(t, limiter, store, l, 1)
		if asked || d.Allowed || d.RetryAfter != left || d.NextAfter != left || d.ResetAfter != 3*time.Second+left || d.Limit != l {
			t.Errorf("%v before the retry: %+v, asked %t", left, d, asked)
		}
	}
	*now = now.Add(time.Microsecond)
	if d, asked := mustAsk(t, limiter, store, l, 1); !asked || !d.Allowed {
		t.Errorf("at the retry: %+v, asked %t", d, asked)
	}
	if repeated.Load() != 3 {
		t.Errorf("%d answers repeated, want 3", repeated.Load())
	}
}

// The cache repeats a denial until RetryAfter after sending, since the store may have decided
// at once. The RetryAfter that it tells counts from the answer, since it may have decided late.
func TestDenialThatTookItsTime(t *testing.T) {
	limiter, store, _, now := cached()
	l := core.Leaky(1, core.PerSecond(1))
	mustAsk(t, limiter, store, l, 1)
	sent := *now
	store.before = func() { *now = sent.Add(300 * time.Millisecond) }
	mustAsk(t, limiter, store, l, 1)
	store.before = nil
	*now = sent.Add(900 * time.Millisecond)
	if d, asked := mustAsk(t, limiter, store, l, 1); asked || d.RetryAfter != 400*time.Millisecond {
		t.Errorf("%+v, asked %t, want a wait of 400ms without asking", d, asked)
	}
	*now = sent.Add(time.Second)
	if d, asked := mustAsk(t, limiter, store, l, 1); !asked || !d.Allowed {
		t.Errorf("a second after the call: %+v, asked %t", d, asked)
	}
}

func TestDearerCallsAreDeniedToo(t *testing.T) {
	for _, test := range []struct {
		limit    core.Quota
		repeated bool // for a cost of 4 when 3 has been denied
	}{
		{core.Leaky(5, core.PerSecond(1)), true},
		{core.TokenBucket(5, core.Per(3, 2*time.Second)), false}, // the wait does not follow to the microsecond
		{core.Shaping(5, core.PerMinute(1)), true},
		{core.GCRA(5, core.PerMinute(1)), true},
		{core.FixedWindow(5, time.Second), true},
		{core.SlidingWindow(5, time.Second), false},
		{core.SlidingLog(5, time.Second), false},
	} {
		t.Run(test.limit.String(), func(t *testing.T) {
			limiter, store, _, _ := cached()
			direct := core.New(store)
			mustAsk(t, limiter, store, test.limit, 3)
			if d, _ := mustAsk(t, limiter, store, test.limit, 3); d.Allowed {
				t.Fatalf("%+v, want a denial", d)
			}
			for _, cost := range []int{4, 6} {
				d, asked := mustAsk(t, limiter, store, test.limit, cost)
				want, _ := direct.AllowN(t.Context(), "key", test.limit, cost)
				if want.Repeated = !asked; d != want {
					t.Errorf("cost %d: %+v, want %+v", cost, d, want)
				}
				if want := !test.repeated && cost < 6; asked != want {
					t.Errorf("cost %d: asked %t, want %t", cost, asked, want)
				}
			}
			if d, asked := mustAsk(t, limiter, store, test.limit, 2); !asked || !d.Allowed {
				t.Errorf("what costs less: %+v, asked %t", d, asked)
			}
		})
	}
}

// A denial of a dearer call does not push out what denies cheaper ones.
func TestCheapestDenialIsKept(t *testing.T) {
	limiter, store, _, _ := cached()
	l := core.SlidingWindow(5, time.Hour)
	for _, cost := range []int{5, 1, 3} {
		mustAsk(t, limiter, store, l, cost)
	}
	if d, asked := mustAsk(t, limiter, store, l, 1); asked || d.Allowed {
		t.Errorf("%+v, asked %t", d, asked)
	}
}

// A call of which one check is known to be denied charges nothing but its shadow checks, and tells
// true numbers of the others.
func TestKnownDenialSparesTheOtherChecks(t *testing.T) {
	for name, limit := range hourly {
		t.Run(name, func(t *testing.T) {
			limiter, store, repeated, _ := cached()
			full, other := core.GCRA(1, core.PerHour(1)).Named("full"), limit(7)
			for range 2 {
				mustAsk(t, limiter, store, full, 1)
			}
			shadow := core.Check{Key: "key", Limit: other, Cost: 3, Shadow: true}
			mustAsk(t, limiter, store, other, 2)
			for i := range 2 {
				r, err := limiter.Reserve(t.Context(), core.Check{Key: "key", Limit: other, Cost: 1}, core.Check{Key: "key", Limit: full, Cost: 1}, shadow)
				if err != nil {
					t.Fatal(err)
				}
				d := r.Decisions()
				if !d[0].Allowed || d[0].Remaining != 5 || d[0].Delay != 0 {
					t.Errorf("the check that passes: %+v, want 5 of 7 remaining and no delay", d[0])
				}
				if d[1].Allowed || d[1].RetryAfter != time.Hour {
					t.Errorf("the check that is known to be denied: %+v", d[1])
				}
				if !d[2].Allowed || d[2].Remaining != 4-3*i {
					t.Errorf("its shadow check: %+v, want %d of 7 remaining", d[2], 4-3*i)
				}
				if i == 1 {
					if err := r.Cancel(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
			}
			shadow.Cost = 4
			if d, err := limiter.AllowAll(t.Context(), shadow); err != nil || !d[0].Allowed || d[0].Remaining != 0 {
				t.Errorf("after 3 of 6 were given back to the shadow: %+v, %v", d, err)
			}
			if repeated.Load() != 0 {
				t.Errorf("%d calls were repeated that the store was asked about", repeated.Load())
			}
		})
	}
}

// What others do to a key is noticed in time.
func TestDenialsDoNotLiveLong(t *testing.T) {
	limiter, store, _, now := cached()
	l := core.Leaky(1, core.PerDay(1))
	for range 2 {
		mustAsk(t, limiter, store, l, 1)
	}
	if err := store.Reset(t.Context(), "key", []core.Limit{l}); err != nil { // from another process
		t.Fatal(err)
	}
	*now = now.Add(10*time.Second - time.Microsecond)
	if d, asked := mustAsk(t, limiter, store, l, 1); asked || d.Allowed {
		t.Errorf("before: %+v, asked %t", d, asked)
	}
	*now = now.Add(time.Microsecond)
	if d, asked := mustAsk(t, limiter, store, l, 1); !asked || !d.Allowed {
		t.Errorf("after: %+v, asked %t", d, asked)
	}
}

// Several checks are repeated only if each of them has been denied; shadow checks and
// those that add up always go to the store.
func TestWhatCannotBeRepeated(t *testing.T) {
	limiter, store, _, _ := cached()
	a, b, free := core.Leaky(1, core.PerHour(1)), core.GCRA(1, core.PerHour(1)), core.Leaky(100, core.PerHour(1))
	check := func(l core.Quota) core.Check { return core.Check{Key: "key", Limit: l, Cost: 1} }
	shadow := check(a)
	shadow.Shadow = true
	ask := func(checks ...core.Check) bool {
		t.Helper()
		before := store.asked
		if _, err := limiter.AllowAll(t.Context(), checks...); err != nil {
			t.Fatal(err)
		}
		return store.asked > before
	}
	ask(check(a), check(b))
	ask(check(a), check(b)) // both are denied
	for name, test := range map[string]struct {
		checks []core.Check
		asked  bool
	}{
		"both denied":         {[]core.Check{check(a), check(b)}, false},
		"one of them":         {[]core.Check{check(b)}, false},
		"one that passes":     {[]core.Check{check(a), check(free)}, true},
		"with a shadow check": {[]core.Check{check(a), shadow}, true},
		"the same twice":      {[]core.Check{check(a), check(a)}, true},
		"at no cost":          {[]core.Check{{Key: "key", Limit: a, Mode: core.Look}}, true},
	} {
		if asked := ask(test.checks...); asked != test.asked {
			t.Errorf("%s: asked %t, want %t", name, asked, test.asked)
		}
	}
}

func TestDenialCacheIsBounded(t *testing.T) {
	limiter, store, _, _ := cached()
	l := core.Leaky(1, core.PerHour(1))
	for i := range 5000 {
		for range 2 {
			if _, err := limiter.Allow(t.Context(), fmt.Sprint("key-", i), l); err != nil {
				t.Fatal(err)
			}
		}
	}
	before := store.asked
	for i := range 5000 {
		if d, err := limiter.Allow(t.Context(), fmt.Sprint("key-", i), l); err != nil || d.Allowed {
			t.Fatalf("%+v, %v", d, err)
		}
	}
	if asked := store.asked - before; asked < 3000 {
		t.Errorf("%d of 5000 had to be asked, want most of those beyond the 1000 that are kept", asked)
	}
	if err := limiter.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := limiter.Allow(t.Context(), "key-1", l); err == nil {
		t.Error("a closed store has answered")
	}
}

// An error is nothing to remember.
func TestErrorsAreNotRepeated(t *testing.T) {
	failing := errors.New("failing")
	store := &sometimes{Store: core.NewMemory(), err: failing}
	limiter := core.New(denialcache.New(store, 10))
	if _, err := limiter.Allow(t.Context(), "key", core.Leaky(1, core.PerSecond(1))); !errors.Is(err, failing) {
		t.Errorf("error %v", err)
	}
	store.err = nil
	if d, err := limiter.Allow(t.Context(), "key", core.Leaky(1, core.PerSecond(1))); err != nil || !d.Allowed {
		t.Errorf("%+v, %v", d, err)
	}
}

// sometimes is a store that fails while it has an error.
type sometimes struct {
	core.Store

	err error
}

func (s *sometimes) Decide(ctx context.Context, calls []core.Call) (answered int, err error) {
	if s.err != nil {
		return 0, s.err
	}
	return s.Store.Decide(ctx, calls)
}

func TestDenialCacheMisuse(t *testing.T) {
	for want, misuse := range map[string]func(){
		"denialcache: New needs a Store":                     func() { denialcache.New(nil, 1) },
		"denialcache: a cache of 0 denials is less than 1":   func() { denialcache.New(core.NewMemory(), 0) },
		"denialcache: a cache of -10 denials is less than 1": func() { denialcache.New(core.NewMemory(), -10) },
	} {
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); !strings.Contains(got, want) {
					t.Errorf("panic %q, want %q", got, want)
				}
			}()
			misuse()
		}()
	}
}

// A condition mends no state: after the clock has stepped back, its wait stands still until the clock
// has caught up, so its denial is not repeated as if it counted down.
func TestTheDenialOfAConditionIsNotRepeated(t *testing.T) {
	limiter, store, _, now := cached()
	plain, limit := core.New(store.Store), core.Shaping(2, core.Per(999_999, 365*24*time.Hour))
	if d, err := limiter.AllowN(t.Context(), "key", limit, 2); err != nil || !d.Allowed {
		t.Fatal(d, err)
	}
	*now = now.Add(-31 * time.Second)
	condition := core.Check{Key: "key", Limit: limit, Mode: core.Condition}
	other := core.Check{Key: "other", Limit: limit}
	if d, err := limiter.AllowAll(t.Context(), condition, other); err != nil || d[0].Allowed {
		t.Fatal(d, err)
	}
	*now = now.Add(999 * time.Microsecond)
	got, err := limiter.AllowAll(t.Context(), condition, other)
	if err != nil {
		t.Fatal(err)
	}
	if want, err := plain.Peek(t.Context(), "key", limit); err != nil || got[0].RetryAfter != want.RetryAfter {
		t.Errorf("%+v from the cache, and %+v from the store, %v", got[0], want, err)
	}
}

// A denial says nothing of checks that leave less to others. It says all of those that leave as much, whether
// they ask for it as cost or as headroom.
func TestADenialIsRepeatedToWhoNeedsAsMuch(t *testing.T) {
	for name, c := range map[string]struct {
		denied, next core.Check
		asked        bool
	}{
		"the same":                           {core.Check{Headroom: 5}, core.Check{Headroom: 5}, false},
		"more headroom":                      {core.Check{Headroom: 5}, core.Check{Headroom: 6}, false},
		"more headroom than the capacity":    {core.Check{Headroom: 5}, core.Check{Headroom: math.MaxInt}, false},
		"as much as a cost":                  {core.Check{Headroom: 5}, core.Check{Cost: 6}, false},
		"a cost, and the same with headroom": {core.Check{Cost: 7}, core.Check{Cost: 7, Headroom: 1}, false},
		"a cost, and as much with headroom":  {core.Check{Cost: 7}, core.Check{Headroom: 6}, false},
		"no headroom":                        {core.Check{Headroom: 5}, core.Check{}, true},
		"less headroom":                      {core.Check{Headroom: 6}, core.Check{Headroom: 5}, true},
		"a cost, and less with headroom":     {core.Check{Cost: 7}, core.Check{Headroom: 5}, true},
	} {
		t.Run(name, func(t *testing.T) {
			limiter, store, _, now := cached()
			l := core.Leaky(10, core.PerSecond(1))
			mustAsk(t, limiter, store, l, 5)
			ask := func(check core.Check) (core.Decision, bool) {
				check.Key, check.Limit = "key", l
				before := store.asked
				d, err := limiter.AllowAll(t.Context(), check)
				if err != nil {
					t.Fatal(err)
				}
				return d[0], store.asked > before
			}
			if d, _ := ask(c.denied); d.Allowed {
				t.Fatalf("%+v, want a denial", d)
			}
			*now = now.Add(time.Millisecond)
			got, asked := ask(c.next)
			if asked != c.asked {
				t.Errorf("the store was asked: %t, want %t", asked, c.asked)
			}
			plain := core.New(store.Store)
			c.next.Key, c.next.Limit = "key", l
			want, err := plain.PeekAll(t.Context(), c.next)
			if err != nil {
				t.Fatal(err)
			}
			want[0].Repeated = true
			if !asked && got != want[0] {
				t.Errorf("%+v, want %+v", got, want)
			}
		})
	}
}
