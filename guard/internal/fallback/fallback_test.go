package fallback

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
			clock := func() time.Time { return now }
			store, fallback := core.NewMemory(core.WithClock(clock)), fallbackAt(2, clock)
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
func passes(t *testing.T, fallback *Fallback, key string, limit core.Limit) int {
	t.Helper()
	for n := 0; ; n++ {
		d := decideBy(t, fallback, core.Check{Key: key, Limit: limit, Cost: 1})[0]
		if !d.Degraded || d.Limit != limit {
			t.Fatalf("%+v, want it marked as degraded, and of the limit that was asked", d)
		}
		if !d.Allowed {
			if d.RetryAfter <= 0 || d.RetryAfter == core.Never {
				t.Errorf("a denial with a wait of %v", d.RetryAfter)
			}
			return n
		}
	}
}

// decideBy returns what a fallback decides about checks.
func decideBy(t *testing.T, fallback *Fallback, checks ...core.Check) []core.Decision {
	t.Helper()
	r, err := fallback.Reserve(t.Context(), checks...)
	if err != nil {
		t.Fatal(err)
	}
	return r.Decisions()
}

// fallbackAt returns a fallback for 100 keys with a clock.
func fallbackAt(replicas int, clock func() time.Time) *Fallback {
	f := New(replicas, 100, core.WithClock(clock))
	f.clock = func() time.Duration { return clock().Sub(time.Unix(0, 0)) }
	return f
}

var hourly = map[string]func(capacity int) core.Limit{
	"leaky":          func(n int) core.Limit { return core.Leaky(n, core.PerHour(1)) },
	"shaping":        func(n int) core.Limit { return core.Shaping(n, core.PerHour(1)) },
	"token bucket":   func(n int) core.Limit { return core.TokenBucket(n, core.PerHour(1)) },
	"gcra":           func(n int) core.Limit { return core.GCRA(n, core.PerHour(1)) },
	"fixed window":   func(n int) core.Limit { return core.FixedWindow(n, time.Hour) },
	"sliding window": func(n int) core.Limit { return core.SlidingWindow(n, 24*time.Hour) },
	"sliding log":    func(n int) core.Limit { return core.SlidingLog(n, time.Hour) },
}

// What was seen of a key and what is decided from it is one step: whoever comes in between waits.
func TestFallbackStartsAKeyInOneStep(t *testing.T) {
	for name, limit := range hourly {
		t.Run(name, func(t *testing.T) {
			var reads atomic.Int64
			var starting func()
			fallback := fallbackAt(1, func() time.Time {
				if reads.Add(1) == 3 && starting != nil {
					starting()
				}
				return time.Unix(1_000_000, 0)
			})
			check := core.Check{Key: "key", Limit: limit(10), Cost: 10}
			fallback.Observe([]core.Check{check}, []core.Decision{{Limit: check.Limit, Remaining: 4, ResetAfter: time.Hour}})
			var others sync.WaitGroup
			var other *core.Reservation
			reads.Store(1)      // the next one is of a memory that has emptied the key, and keeps it locked
			starting = func() { // while the first caller starts the key
				var answered atomic.Bool
				others.Go(func() {
					var err error
					if other, err = fallback.Reserve(t.Context(), check); err != nil {
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
			first := decideBy(t, fallback, check)[0]
			others.Wait()
			if other == nil {
				t.Fatal("nobody has come in between")
			}
			if second := other.Decisions()[0]; first.Allowed || first.Remaining != 4 || second.Allowed || second.Remaining != 4 {
				t.Errorf("10 where 4 of 10 remain: %+v and %+v, want both denied with 4 remaining", first, second)
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
				limiter, fallback := core.New(core.NewMemory()), New(1, 100)
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
							own, err := fallback.Reserve(t.Context(), core.Check{Key: "key", Limit: limit, Cost: 1})
							if err != nil {
								t.Error(err)
								return
							}
							if own.Allowed() {
								passed.Add(1)
							}
						}
					})
				}
				callers.Go(func() { fallback.ObserveSettled(t.Context(), r, []core.Check{check}, 0, []int{8}) }) // 2 more
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
	fallback := New(1, 100)
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
	fallback := New(2, 100)
	check := core.Check{Key: "key", Limit: core.Leaky(10, core.PerHour(1)), Cost: 5}
	for range 2 {
		d, err := fallback.Peek(t.Context(), check)
		if want := (core.Decision{Allowed: true, Limit: check.Limit, Remaining: 5, Degraded: true}); err != nil || d[0] != want {
			t.Errorf("%+v, %v, want %+v", d, err, want)
		}
	}
}

// A cost that exceeds the share is no reason to deny for ever.
func TestFallbackAdmitsALargeCostWhenItIsFull(t *testing.T) {
	fallback := New(5, 100)
	limit := core.Leaky(10, core.PerHour(1))
	ask := func(key string, cost int) core.Decision {
		t.Helper()
		return decideBy(t, fallback, core.Check{Key: key, Limit: limit, Cost: cost})[0]
	}
	if d := ask("key", 10); !d.Allowed || d.Remaining != 0 {
		t.Errorf("%+v, want it to pass and to use all", d)
	}
	if d := ask("key", 10); d.Allowed || d.RetryAfter == core.Never {
		t.Errorf("%+v, want a denial that ends", d)
	}
	if d := ask("other", 11); d.Allowed || d.RetryAfter != core.Never {
		t.Errorf("%+v, want a denial that does not end", d)
	}
}

// A headroom is shared as the limit is. It never denies for ever what the limit itself would admit.
func TestFallbackSharesTheHeadroom(t *testing.T) {
	limit := core.Leaky(10, core.PerHour(1))
	for _, c := range []struct {
		replicas, cost, headroom int
		passes                   int
		never                    bool // what is denied then
	}{
		{1, 1, 4, 6, false},
		{2, 1, 4, 3, false},
		{2, 1, 5, 2, false},
		{2, 1, 0, 5, false},
		{2, 4, 6, 1, false}, // of 5, with the one that is left
		{2, 4, 7, 0, true},
		{2, 1, 10, 0, true},
		{5, 1, 9, 1, false},
		{10, 1, 9, 1, false},
		{10, 5, 5, 1, false},
		{10, 5, 6, 0, true},
		{3, 10, 0, 1, false},
		{3, 11, 1, 0, true},
		{3, 1, math.MaxInt, 0, true},
	} {
		fallback, n := New(c.replicas, 100), 0
		check := core.Check{Key: "key", Limit: limit, Cost: c.cost, Headroom: c.headroom}
		d := decideBy(t, fallback, check)[0]
		for ; d.Allowed && n < 20; n++ {
			d = decideBy(t, fallback, check)[0]
		}
		if n != c.passes || (d.RetryAfter == core.Never) != c.never {
			t.Errorf("%d processes, a cost of %d and a headroom of %d: %d pass, then %v, want %d, and never: %t", c.replicas, c.cost, c.headroom, n, d.RetryAfter, c.passes, c.never)
		}
	}
}

func TestFallbackLeavesShadowChecksAlone(t *testing.T) {
	fallback := New(1, 100)
	limit := core.Leaky(1, core.PerHour(1))
	d := decideBy(t, fallback, core.Check{Key: "key", Limit: limit, Cost: 1, Shadow: true})
	if want := (core.Decision{Limit: limit, Degraded: true}); d[0] != want {
		t.Errorf("%+v, want %+v", d[0], want)
	}
}

func TestFallbackAllowsTheUnlimited(t *testing.T) {
	fallback, limiter := New(2, 10), core.New(core.NewMemory())
	limit := core.Leaky(10, core.PerHour(1))
	checks := []core.Check{{Key: "key", Limit: core.Unlimited}, {Key: "key", Limit: limit}}
	r, err := limiter.Reserve(t.Context(), checks...)
	if err != nil {
		t.Fatal(err)
	}
	fallback.Observe(checks, r.Decisions())
	fallback.ObserveSettled(t.Context(), r, checks, 0, []int{5, 3})
	fallback.ObserveCharged(t.Context(), "key", core.Unlimited, 5)
	for name, verb := range map[string]func(context.Context, ...core.Check) ([]core.Decision, error){
		"peek": fallback.Peek, "reserve": func(_ context.Context, checks ...core.Check) ([]core.Decision, error) {
			return decideBy(t, fallback, checks...), nil
		},
	} {
		decisions, err := verb(t.Context(), checks...)
		if err != nil {
			t.Fatal(name, err)
		}
		if d := decisions[0]; !d.Allowed || d.Limit != core.Unlimited || d.Remaining != math.MaxInt {
			t.Errorf("%s: %+v, want all that there is", name, d)
		}
		if d := decisions[1]; !d.Allowed || d.Limit != limit || !d.Degraded {
			t.Errorf("%s: %+v, want that the other check passes here", name, d)
		}
		if alone, err := verb(t.Context(), checks[0]); err != nil || !alone[0].Allowed {
			t.Errorf("%s alone: %+v, %v", name, alone, err)
		}
	}
}

// A condition is not settled, neither by the store nor here.
func TestFallbackSettlesNoConditions(t *testing.T) {
	limiter, fallback := core.New(core.NewMemory()), New(1, 10)
	limit := core.Leaky(10, core.PerHour(1))
	if _, err := limiter.AllowN(t.Context(), "key", limit, 8); err != nil {
		t.Fatal(err)
	}
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
		fallback.ObserveSettled(t.Context(), r, checks, 0, []int{cost})
		store, err := limiter.Peek(t.Context(), "key", limit)
		if err != nil {
			t.Fatal(err)
		}
		if own, err := fallback.Peek(t.Context(), core.Check{Key: "key", Limit: limit}); err != nil || own[0].Remaining != store.Remaining {
			t.Errorf("settled at %d: %+v, %v, want %d left as in the store", cost, own, err, store.Remaining)
		}
	}
}

// Snapshots are kept apart as states are, and a long key takes no more room than a short one may.
func TestFallbackTellsStatesApart(t *testing.T) {
	long := strings.Repeat("x", 10_000)
	stands := stateKeyOf(long, core.Quota{}).subject // must not be the key of anybody else
	keys := []string{"a", "b", long, long + "x", "y" + long, long[:longestSubject], long[:longestSubject+1], stands, stands[1:]}
	limits := []core.Limit{
		core.Leaky(10, core.PerHour(1)), core.Leaky(10, core.PerHour(2)), core.GCRA(10, core.PerHour(1)),
		core.Leaky(10, core.PerHour(1)).Named("a"), core.Leaky(20, core.PerHour(2)).Named("a"), core.Leaky(10, core.PerHour(1)).Named("b"),
		core.GCRA(10, core.PerHour(1)).Named("a"), core.Leaky(10, core.PerHour(1)).Named("leaky:10:1/h"),
	}
	for _, k := range keys {
		if got := len(stateKeyOf(k, limits[0]).subject); got > longestSubject+1 {
			t.Errorf("%d bytes are kept of a key of %d", got, len(k))
		}
		for _, other := range keys {
			for _, l := range limits {
				for _, m := range limits {
					same := k == other && l.Identity() == m.Identity()
					if got := stateKeyOf(k, l) == stateKeyOf(other, m); got != same {
						t.Errorf("%.10q… under %s and %.10q… under %s have one state: %t, want %t", k, l, other, m, got, same)
					}
				}
			}
		}
	}
}
