package core_test

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
)

func TestShareOfALimit(t *testing.T) {
	for _, c := range []struct {
		limit core.Limit
		n     int
		want  string
	}{
		{core.Leaky(10, core.PerSecond(1)), 1, "leaky 10, 1/s"},
		{core.Leaky(10, core.PerSecond(1)), 0, "leaky 10, 1/s"},
		{core.Leaky(10, core.PerSecond(1)), 4, "leaky 3, 1/4s"},
		{core.GCRA(1, core.PerSecond(1)), 1000, "gcra 1, 1/1000s"},
		{core.TokenBucket(100, core.PerSecond(50)).Named("api"), 4, "api: token-bucket 25, 50/4s"},
		{core.FixedWindow(10, time.Minute), 3, "fixed-window 4, 1m"},
		{core.SlidingWindow(10, time.Minute).Named("login"), 20, "login: sliding-window 1, 1m"},
		{core.SlidingLog(7, time.Hour), 2, "sliding-log 4, 1h"},
	} {
		share := c.limit.Share(c.n)
		want, err := core.ParseLimit(c.want)
		if err != nil {
			t.Fatal(err)
		}
		if share != want || share.Validate() != nil {
			t.Errorf("%s of %d is %s (%v), want %s", c.limit, c.n, share, share.Validate(), want)
		}
	}
	if err := (core.Limit{}).Share(2).Validate(); err == nil {
		t.Error("the share of no limit is one")
	}
}

// A fallback goes on from what the store has said last, drained since then.
func TestFallbackStartsFromWhatWasSeen(t *testing.T) {
	for _, c := range []struct {
		limit core.Limit
		later time.Duration
		want  int // passes of this process, one of two
	}{
		{core.Leaky(10, core.PerHour(10)), 0, 2}, // 5 less half of 6
		{core.GCRA(10, core.PerHour(10)), 36 * time.Minute, 5},
		{core.TokenBucket(10, core.PerHour(10)), 18 * time.Minute, 3}, // half of 3 left, rounded up
		{core.FixedWindow(10, time.Hour), 30 * time.Minute, 2},
		{core.FixedWindow(10, time.Hour), time.Hour, 5},
		{core.SlidingLog(10, time.Hour), 59 * time.Minute, 2},
		{core.SlidingWindow(10, time.Hour), 2 * time.Hour, 5},
	} {
		t.Run(fmt.Sprint(c.limit, " ", c.later), func(t *testing.T) {
			now := time.Date(2026, time.November, 21, 12, 0, 0, 0, time.UTC)
			clock := core.WithClock(func() time.Time { return now })
			store, fallback := core.NewMemory(clock), core.NewFallback(2, 100, clock)
			check := []core.Check{{Key: "key", Limit: c.limit, Cost: 6}}
			decision, err := core.New(store).AllowAll(t.Context(), check...)
			if err != nil {
				t.Fatal(err)
			}
			fallback.Observe(check, decision)
			now = now.Add(c.later)
			if got := passes(t, fallback, "key", c.limit); got != c.want {
				t.Errorf("%d pass, want %d", got, c.want)
			}
			if got := passes(t, fallback, "other", c.limit); got != 5 {
				t.Errorf("%d pass of a key that was never seen, want the whole share of 5", got)
			}
		})
	}
}

// passes returns how many questions in a row a fallback admits.
func passes(t *testing.T, fallback *core.Fallback, key string, limit core.Limit) int {
	t.Helper()
	for n := 0; ; n++ {
		var d [1]core.Decision
		if err := fallback.Decide(t.Context(), []core.Check{{Key: key, Limit: limit, Cost: 1}}, d[:]); err != nil {
			t.Fatal(err)
		}
		if !d[0].Degraded || d[0].Limit != limit {
			t.Fatalf("%+v, want it marked as degraded, and of the limit that was asked", d[0])
		}
		if !d[0].Allowed {
			if d[0].RetryAfter <= 0 || d[0].RetryAfter == core.Never {
				t.Errorf("a refusal with a wait of %v", d[0].RetryAfter)
			}
			return n
		}
	}
}

// What was seen of a key and what is decided from it is one step: whoever comes in between waits.
func TestFallbackStartsAKeyInOneStep(t *testing.T) {
	for name, limit := range hourly {
		t.Run(name, func(t *testing.T) {
			var reads atomic.Int64
			var starting func()
			clock := core.WithClock(func() time.Time {
				if reads.Add(1) == 3 && starting != nil {
					starting()
				}
				return time.Unix(1_000_000, 0)
			})
			fallback := core.NewFallback(1, 100, clock)
			check := []core.Check{{Key: "key", Limit: limit(10), Cost: 10}}
			fallback.Observe(check, []core.Decision{{Limit: check[0].Limit, Remaining: 4, ResetAfter: time.Hour}})
			var others sync.WaitGroup
			var other [1]core.Decision
			reads.Store(1)      // the next one is of a memory that has emptied the key, and keeps it locked
			starting = func() { // while the first caller takes over what was seen
				var answered atomic.Bool
				others.Go(func() {
					if err := fallback.Decide(t.Context(), check, other[:]); err != nil {
						t.Error(err)
					}
					answered.Store(true)
				})
				for range 1000 {
					if answered.Load() {
						break
					}
					runtime.Gosched()
				}
			}
			var d [1]core.Decision
			if err := fallback.Decide(t.Context(), check, d[:]); err != nil {
				t.Fatal(err)
			}
			others.Wait()
			if d[0].Allowed || d[0].Remaining != 4 || other[0].Allowed || other[0].Remaining != 4 {
				t.Errorf("10 where 4 of 10 remain: %+v and %+v, want both denied with 4 remaining", d[0], other[0])
			}
		})
	}
}

// However many ask at once when the store has gone, and whatever is settled meanwhile, as many pass
// as are left.
func TestFallbackAdmitsWhatIsLeftToThoseWhoAskAtOnce(t *testing.T) {
	for name, limit := range hourly {
		t.Run(name, func(t *testing.T) {
			limit := limit(10)
			for range 200 {
				limiter, fallback := core.New(core.NewMemory()), core.NewFallback(1, 100)
				check := core.Check{Key: "key", Limit: limit, Cost: 6}
				r, err := limiter.Reserve(t.Context(), check)
				if err != nil {
					t.Fatal(err)
				}
				fallback.Observe([]core.Check{check}, r.Decisions())
				var passed atomic.Int64
				var callers sync.WaitGroup
				for range 8 {
					callers.Go(func() {
						for range 3 {
							var d [1]core.Decision
							if err := fallback.Decide(t.Context(), []core.Check{{Key: "key", Limit: limit, Cost: 1}}, d[:]); err != nil {
								t.Error(err)
							}
							if d[0].Allowed {
								passed.Add(1)
							}
						}
					})
				}
				callers.Go(func() { fallback.ObserveSettled(r, 0, 8) }) // 2 more
				callers.Wait()
				fewest, most := int64(2), int64(4) // the 2 more may come when all that was left has passed
				if n := passed.Load(); n < fewest || n > most {
					t.Fatalf("%d pass where 4 of 10 are left, and 2 of these are charged besides: want %d to %d", n, fewest, most)
				}
			}
		})
	}
}

// What is better known by now is not forgotten for what was seen earlier.
func TestFallbackRemembersItsOwnDecisions(t *testing.T) {
	fallback := core.NewFallback(1, 100)
	limit := core.Leaky(4, core.PerHour(1))
	fallback.Observe([]core.Check{{Key: "key", Limit: limit, Cost: 1}}, []core.Decision{{Limit: limit, Remaining: 3, ResetAfter: time.Hour}})
	if got := passes(t, fallback, "key", limit); got != 3 {
		t.Errorf("%d pass, want 3", got)
	}
	if got := passes(t, fallback, "key", limit); got != 0 {
		t.Errorf("%d pass of what is used up, want none", got)
	}
	// The store is back for a while, and says that there is room.
	fallback.Observe([]core.Check{{Key: "key", Limit: limit, Cost: 1}}, []core.Decision{{Limit: limit, Remaining: 2, ResetAfter: 2 * time.Hour}})
	if got := passes(t, fallback, "key", limit); got != 2 {
		t.Errorf("%d pass, want 2", got)
	}
}

// To look charges nothing.
func TestFallbackPeeks(t *testing.T) {
	fallback := core.NewFallback(2, 100)
	checks := []core.Check{{Key: "key", Limit: core.Leaky(10, core.PerHour(1)), Cost: 5}}
	for range 2 {
		var d [1]core.Decision
		err := fallback.Peek(t.Context(), checks, d[:])
		if want := (core.Decision{Allowed: true, Limit: checks[0].Limit, Remaining: 5, Degraded: true}); err != nil || d[0] != want {
			t.Errorf("%+v, %v, want %+v", d[0], err, want)
		}
	}
}

// A cost that is more than the share is no reason to refuse for ever.
func TestFallbackAdmitsALargeCostWhenItIsFull(t *testing.T) {
	fallback := core.NewFallback(5, 100)
	limit := core.Leaky(10, core.PerHour(1))
	ask := func(key string, cost int) core.Decision {
		t.Helper()
		var d [1]core.Decision
		if err := fallback.Decide(t.Context(), []core.Check{{Key: key, Limit: limit, Cost: cost}}, d[:]); err != nil {
			t.Fatal(err)
		}
		return d[0]
	}
	if d := ask("key", 10); !d.Allowed || d.Remaining != 0 {
		t.Errorf("%+v, want it to pass and to use all", d)
	}
	if d := ask("key", 10); d.Allowed || d.RetryAfter == core.Never {
		t.Errorf("%+v, want a refusal that ends", d)
	}
	if d := ask("other", 11); d.Allowed || d.RetryAfter != core.Never {
		t.Errorf("%+v, want a refusal that does not end", d)
	}
}

func TestFallbackLeavesShadowChecksAlone(t *testing.T) {
	fallback := core.NewFallback(1, 100)
	limit := core.Leaky(1, core.PerHour(1))
	checks := []core.Check{{Key: "key", Limit: limit, Cost: 1, Shadow: true}}
	decisions := []core.Decision{{Allowed: true}}
	if err := fallback.Decide(t.Context(), checks, decisions); err != nil || decisions[0] != (core.Decision{Limit: limit, Degraded: true}) {
		t.Errorf("%+v, %v", decisions, err)
	}
}

func TestFallbackAllowsTheUnlimited(t *testing.T) {
	fallback, limiter := core.NewFallback(2, 10), core.New(core.NewMemory())
	limit := core.Leaky(10, core.PerHour(1))
	checks := []core.Check{{Key: "key", Limit: core.Unlimited}, {Key: "key", Limit: limit}}
	r, err := limiter.Reserve(t.Context(), checks...)
	if err != nil {
		t.Fatal(err)
	}
	fallback.Observe(checks, r.Decisions())
	fallback.ObserveSettled(r, 0, 5, 3)
	fallback.ObserveCharged("key", core.Unlimited, 5)
	for name, verb := range map[string]func(context.Context, []core.Check, []core.Decision) error{"Peek": fallback.Peek, "Decide": fallback.Decide} {
		decisions := make([]core.Decision, 2)
		if err := verb(t.Context(), checks, decisions); err != nil {
			t.Fatal(name, err)
		}
		if d := decisions[0]; !d.Allowed || d.Limit != core.Unlimited || d.Remaining != math.MaxInt {
			t.Errorf("%s: %+v, want all that there is", name, d)
		}
		if d := decisions[1]; !d.Allowed || d.Limit != limit || !d.Degraded {
			t.Errorf("%s: %+v, want that the other check passes here", name, d)
		}
		alone := make([]core.Decision, 1)
		if err := verb(t.Context(), checks[:1], alone); err != nil || !alone[0].Allowed {
			t.Errorf("%s alone: %+v, %v", name, alone, err)
		}
	}
}

// A condition is not settled, neither by the store nor here.
func TestFallbackSettlesNoConditions(t *testing.T) {
	limiter, fallback := core.New(core.NewMemory()), core.NewFallback(1, 10)
	limit := core.Leaky(10, core.PerHour(1))
	allow := ask(t, limiter)
	allow("key", limit, 8)
	checks := []core.Check{{Key: "key", Limit: limit, Cost: 2, Mode: core.Condition}}
	for _, cost := range []int{0, 1, 4} {
		r, err := limiter.Reserve(t.Context(), checks...)
		if err != nil {
			t.Fatal(err)
		}
		fallback.Observe(checks, r.Decisions())
		if err := r.Settle(t.Context(), cost); err != nil {
			t.Fatal(err)
		}
		fallback.ObserveSettled(r, 0, cost)
		store, decisions := allow("key", limit, 0), make([]core.Decision, 1)
		if err := fallback.Peek(t.Context(), []core.Check{{Key: "key", Limit: limit}}, decisions); err != nil || decisions[0].Remaining != store.Remaining {
			t.Errorf("settled at %d: %d left, %v, want %d as in the store", cost, decisions[0].Remaining, err, store.Remaining)
		}
	}
}

func TestFallbackMisuse(t *testing.T) {
	defer func() {
		if got := fmt.Sprint(recover()); !strings.Contains(got, "core: a fallback for one of 0 processes") {
			t.Errorf("panic %q", got)
		}
	}()
	core.NewFallback(0, 100)
}

func ExampleFallback() {
	fallback := core.NewFallback(2, 10_000) // one of two processes
	checks := []core.Check{{Key: "user:42", Limit: core.FixedWindow(10, time.Hour), Cost: 1}}
	decisions := make([]core.Decision, len(checks))
	// While the store answers: fallback.Observe(checks, decisions). When it does not:
	if err := fallback.Decide(context.Background(), checks, decisions); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(decisions[0].Allowed, decisions[0].Remaining, decisions[0].Degraded)
	// Output: true 4 true
}
