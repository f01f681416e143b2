package core_test

import (
	"context"
	"fmt"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/core/denialcache"
	"github.com/weir-go/ratelimit/core/storetest"
)

// asks counts the calls that a store gets.
type asks struct {
	core.Store

	mu      sync.Mutex
	decided int
	settled int
}

func (a *asks) Decide(ctx context.Context, calls []core.Call) (int, error) {
	a.mu.Lock()
	a.decided++
	a.mu.Unlock()
	return a.Store.Decide(ctx, calls)
}

func (a *asks) Settle(ctx context.Context, settlements []core.Settlement) error {
	a.mu.Lock()
	a.settled++
	a.mu.Unlock()
	return a.Store.Settle(ctx, settlements)
}

func (a *asks) counts() (decided, settled int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.decided, a.settled
}

// book adds up what has become of leases.
type book struct {
	mu  sync.Mutex
	all core.Leased
	n   int
}

func (b *book) trace() core.Option {
	return core.WithTrace(core.Trace{Leased: func(one core.Leased) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.n++
		b.all.Granted += one.Granted
		b.all.Spent += one.Spent
		b.all.Returned += one.Returned
		b.all.Lapsed += one.Lapsed
		b.all.Late = max(b.all.Late, one.Late)
	}})
}

func (b *book) sum(t *testing.T) core.Leased {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.all.Granted != b.all.Spent+b.all.Returned+b.all.Lapsed {
		t.Errorf("%+v does not add up", b.all)
	}
	return b.all
}

// ε = 0 is decision for decision the store below, whatever that is, and so is a key that is not hot.
func TestLeaseWithoutToleranceKeepsTheLaws(t *testing.T) { fewer(t, 30, unleased(newMemory)) }

// unleased returns a factory of stores that lease without tolerance.
func unleased(newStore storetest.Factory) storetest.Factory {
	return func(t *testing.T, now func() time.Time) core.Store {
		return core.Lease(newStore(t, now), core.Tolerance{})
	}
}

// A hot key is leased, with at most two calls of the store in the time of a lease.
func TestLeaseOfAHotKey(t *testing.T) {
	for _, limit := range []core.Quota{
		core.Leaky(10_000, core.PerSecond(10_000)), core.TokenBucket(10_000, core.PerSecond(10_000)), core.GCRA(10_000, core.PerSecond(10_000)),
		core.FixedWindow(10_000, time.Second), core.SlidingWindow(10_000, time.Second), core.SlidingLog(10_000, time.Second),
		core.Calendar(10_000, core.Every(time.Second)),
	} {
		t.Run(limit.Algorithm(), func(t *testing.T) {
			bubbletest.Run(t, func(t *testing.T) {
				store, b := &asks{Store: core.NewMemory()}, new(book)
				l := core.New(core.Lease(store, core.Tolerance{Over: 0.2}, b.trace()))
				leased := 0
				const seconds = 4
				for range seconds * 4000 { // 4,000 a second
					d := mustAllow(t, l, "key", limit, 1)
					if !d.Allowed {
						t.Fatalf("denied: %+v", d)
					}
					if d.Leased {
						leased++
					}
					time.Sleep(250 * time.Microsecond)
					synctest.Wait()
				}
				decided, settled := store.counts()
				lasts := 200 * time.Millisecond
				if limit.Algorithm() == "sliding-window" || limit.Algorithm() == "sliding-log" {
					lasts /= 2
				}
				exact := seconds*4000 - leased
				most := int(2*seconds*time.Second/lasts) + 8
				if limit.Algorithm() == "fixed-window" || limit.Algorithm() == "calendar" {
					most += 2 * seconds // what a window's end cuts off is given back, and asked for anew
				}
				if calls := decided - exact + settled; calls > most {
					t.Errorf("%d calls of the store for leases, want at most %d", calls, most)
				}
				if exact > 160 {
					t.Errorf("%d of %d checks were exact", exact, seconds*4000)
				}
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
				sum := b.sum(t)
				if sum.Spent != leased || sum.Lapsed != 0 {
					t.Errorf("%d checks were leased: %+v", leased, sum)
				}
				if over := float64(sum.Late) / float64(limit.Capacity()); over > 0.2 {
					t.Errorf("measured over-admission %.3f", over)
				}
				t.Logf("%d leases, %d exact, %d + %d calls, %+v", b.n, exact, decided, settled, sum)
			})
		})
	}
}

// What is not spent comes back.
func TestLeaseReturnsWhatIsNotSpent(t *testing.T) {
	for _, limit := range []core.Quota{
		core.Leaky(100_000, core.PerHour(100_000)), core.FixedWindow(100_000, time.Hour), core.SlidingWindow(100_000, time.Hour), core.SlidingLog(100_000, time.Hour),
	} {
		t.Run(limit.Algorithm(), func(t *testing.T) {
			bubbletest.Run(t, func(t *testing.T) {
				store, b := core.NewMemory(), new(book)
				l := core.New(core.Lease(store, core.Tolerance{Over: 0.1}, b.trace()))
				spent := 0
				for range 30 {
					if mustAllow(t, l, "key", limit, 1).Allowed {
						spent++
					}
					synctest.Wait()
				}
				time.Sleep(3 * time.Second)
				synctest.Wait()
				d, err := core.New(store).Peek(t.Context(), "key", limit)
				if err != nil {
					t.Fatal(err)
				}
				sum := b.sum(t)
				if sum.Returned == 0 || sum.Lapsed != 0 || sum.Spent == 0 {
					t.Errorf("%+v: want some spent, some returned and none lapsed", sum)
				}
				if limit.Algorithm() != "leaky" && d.Remaining != 100_000-spent {
					t.Errorf("%d are left after %d: %+v", d.Remaining, spent, sum)
				}
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

// These ask the store, however hot the key is.
func TestLeaseAsksTheStore(t *testing.T) {
	limit := core.Leaky(1000, core.PerSecond(1000))
	check := core.Check{Key: "key", Limit: limit}
	with := func(change func(*core.Check)) []core.Check {
		c := check
		change(&c)
		return []core.Check{c}
	}
	for name, checks := range map[string][]core.Check{
		"exact":        with(func(c *core.Check) { c.Limit = limit.Exact() }),
		"a condition":  with(func(c *core.Check) { c.Mode = core.Condition }),
		"a look":       with(func(c *core.Check) { c.Mode = core.Look }),
		"a shadow":     with(func(c *core.Check) { c.Shadow = true }),
		"headroom":     with(func(c *core.Check) { c.Headroom = 1 }),
		"shaping":      with(func(c *core.Check) { c.Limit = core.Shaping(1000, core.PerSecond(1000)) }),
		"a short one":  with(func(c *core.Check) { c.Limit = core.Leaky(5, core.PerSecond(5)) }),
		"one is exact": {check, {Key: "key", Limit: core.GCRA(1000, core.PerSecond(1000)).Exact()}},
		"one is cold":  {check, {Key: "cold", Limit: limit}},
	} {
		t.Run(name, func(t *testing.T) {
			bubbletest.Run(t, func(t *testing.T) {
				l := core.New(core.Lease(core.NewMemory(), core.Tolerance{Over: 0.2}))
				defer l.Close()
				for range 20 {
					mustAllow(t, l, "key", limit, 1)
					synctest.Wait()
				}
				if !mustAllow(t, l, "key", limit, 1).Leased {
					t.Fatal("the key is not leased")
				}
				for i := range 20 {
					if name == "one is cold" {
						checks[1].Key = fmt.Sprint("cold", i)
					}
					decisions, err := l.AllowAll(t.Context(), checks...)
					if err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
					for _, d := range decisions {
						if d.Leased {
							t.Errorf("leased: %+v", d)
						}
					}
				}
				r, err := l.Reserve(t.Context(), check)
				if err != nil || r.Decisions()[0].Leased {
					t.Errorf("reserved from a lease: %v", err)
				}
				if _, d, err := l.AllowAtMost(t.Context(), "key", limit, 3); err != nil || d.Leased {
					t.Errorf("at most 3 from a lease: %v", err)
				}
			})
		})
	}
}

// Several checks are all answered from leases, or none is.
func TestLeaseOfSeveralChecks(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		store, b := &asks{Store: core.NewMemory()}, new(book)
		l := core.New(core.Lease(store, core.Tolerance{Over: 0.2}, b.trace()))
		checks := []core.Check{
			{Key: "user", Limit: core.Leaky(1000, core.PerSecond(1000)), Cost: 2},
			{Key: "everybody", Limit: core.FixedWindow(100_000, time.Minute)},
			{Key: "user", Limit: core.SlidingLog(5000, time.Second)},
		}
		leased := 0
		for range 400 {
			decisions, err := l.AllowAll(t.Context(), checks...)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range decisions {
				if d.Leased != decisions[0].Leased || !d.Allowed {
					t.Fatalf("%+v", decisions)
				}
			}
			if decisions[0].Leased {
				leased++
			}
			time.Sleep(5 * time.Millisecond)
			synctest.Wait()
		}
		if leased < 300 {
			t.Errorf("%d of 400 calls were leased", leased)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if sum := b.sum(t); sum.Spent != 4*leased {
			t.Errorf("%d calls were leased, and %d units spent", leased, sum.Spent)
		}
	})
}

// A Reset here ends the leases of the key, and so do other numbers of a named limit.
func TestLeaseEndsWithResetAndPlan(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		limit := core.FixedWindow(100_000, time.Hour).Named("plan")
		store := core.NewMemory()
		l := core.New(core.Lease(store, core.Tolerance{Over: 0.1}))
		heat := func() {
			t.Helper()
			for range 40 {
				mustAllow(t, l, "key", limit, 1)
				synctest.Wait()
			}
			if !mustAllow(t, l, "key", limit, 1).Leased {
				t.Fatal("the key is not leased")
			}
		}
		heat()
		if err := l.Reset(t.Context(), "key", limit); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if d := mustAllow(t, l, "key", limit, 1); d.Leased || d.Remaining != 99_999 {
			t.Errorf("after Reset: %+v", d)
		}
		heat()
		other := core.FixedWindow(50_000, time.Hour).Named("plan")
		mustAllow(t, l, "key", other, 1)
		synctest.Wait()
		if d := mustAllow(t, l, "key", limit, 1); d.Leased {
			t.Errorf("after a change of plan: %+v", d)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Allow(t.Context(), "key", limit); core.FailureOf(err) != core.Closed {
			t.Errorf("after Close: %v", err)
		}
	})
}

// Whether a limit is exact makes no difference to its state, its name and its answers.
func TestExactSharesTheState(t *testing.T) {
	for _, limit := range []core.Quota{core.Leaky(10, core.PerSecond(1)), core.FixedWindow(10, time.Hour), core.GCRA(10, core.PerHour(1)).Named("calls")} {
		exact := limit.Exact()
		if exact == limit || exact.Identity() != limit.Identity() || exact.Name() != limit.Name() || exact.Exact() != exact {
			t.Errorf("%s and %s: want one identity and name, and two limits", limit, exact)
		}
		if parsed, err := core.ParseLimit(exact.String()); err != nil || parsed != exact {
			t.Errorf("%q is read as %s: %v", exact, parsed, err)
		}
		if exact.Share(2) != limit.Share(2).Exact() {
			t.Errorf("a share of %s is %s", exact, exact.Share(2))
		}
		if name := exact.Named("other"); name != limit.Named("other").Exact() {
			t.Errorf("%s, named: %s", exact, name)
		}
		for _, store := range []core.Store{core.NewMemory(), core.NewTableStore(newTable(time.Now)), denialcache.New(core.NewMemory(), 10)} {
			l := core.New(store)
			mustAllow(t, l, "key", limit, 1)
			if d := mustAllow(t, l, "key", exact, 1); !d.Allowed || d.Remaining != 8 || d.Limit != exact {
				t.Errorf("%s after %s: %+v", exact, limit, d)
			}
			if d := mustAllow(t, l, "key", limit, 1); d.Remaining != 7 {
				t.Errorf("%s after %s: %+v", limit, exact, d)
			}
		}
	}
	if core.Unlimited.Exact() != core.Unlimited {
		t.Error("Unlimited has changed")
	}
	if parsed, err := core.ParseLimit("leaky 10, 1/s,exact"); err != nil || parsed != core.Leaky(10, core.PerSecond(1)).Exact() {
		t.Errorf("%s: %v", parsed, err)
	}
	for _, text := range []string{"leaky 10, 1/s, exactly", "leaky 10, exact", "leaky 10, 1/s, exact, exact"} {
		if l, err := core.ParseLimit(text); err == nil {
			t.Errorf("%q is read as %s", text, l)
		}
	}
}

func TestLeaseMisuse(t *testing.T) {
	for name, misuse := range map[string]func(){
		"no store": func() { core.Lease(nil, core.Tolerance{}) },
		"below 0":  func() { core.Lease(core.NewMemory(), core.Tolerance{Over: -0.1}) },
		"above 1":  func() { core.Lease(core.NewMemory(), core.Tolerance{Over: 1.1}) },
		"NaN":      func() { core.Lease(core.NewMemory(), core.Tolerance{Over: math.NaN()}) },
		"option":   func() { core.Lease(core.NewMemory(), core.Tolerance{}, core.WithMaxKeys(1)) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			misuse()
		})
	}
}

func BenchmarkLeased(b *testing.B) {
	l := core.New(core.Lease(core.NewMemory(), core.Tolerance{Over: 0.1}))
	defer l.Close()
	limit := core.Leaky(1_000_000_000, core.PerSecond(1_000_000_000))
	ctx := b.Context()
	for range 100 {
		_, _ = l.Allow(ctx, "user:12345", limit)
		time.Sleep(10 * time.Microsecond)
	}
	b.ReportAllocs()
	for b.Loop() {
		_, _ = l.Allow(ctx, "user:12345", limit)
	}
}
