package core

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"
)

// Whatever the plans of the waiters for one key, every wait ends with its context, and later waiters are
// served.
func TestEveryWaitEndsWhereThePlanShrinks(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		s := &slow{Store: NewMemory()}
		l := New(s)
		defer l.Close()
		plan := func(n int) Quota { return Leaky(n, PerSecond(1)).Named("plan") }
		if _, err := l.AllowN(t.Context(), "key", plan(100), 100); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 40)
		wait := func(limit Quota, n int) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			t.Cleanup(cancel)
			go func() { ended <- l.WaitN(ctx, "key", limit, n) }()
			synctest.Wait()
		}
		wait(plan(100), 1)
		for range 19 {
			wait(plan(10), 1)
		}
		for range 20 { // each of them, and two of them together, fit the plan of the first
			wait(plan(10), 6)
		}
		time.Sleep(time.Hour + time.Second)
		synctest.Wait()
		if len(ended) != cap(ended) || l.waiters.Len() != 0 {
			t.Fatalf("%d of %d have ended a moment after their contexts, and %d queues are left", len(ended), cap(ended), l.waiters.Len())
		}
		if err := l.Wait(t.Context(), "key", plan(10)); err != nil {
			t.Errorf("a later waiter: %v", err)
		}
		if s.mixed.Load() {
			t.Error("different plans were asked for together")
		}
	})
}

// A waiter that does not heed hold backs is neither denied nor held by those that do.
func TestHoldBackHoldsNobodyElse(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		l := New(&slow{Store: NewMemory()})
		defer l.Close()
		limit := Leaky(10, PerSecond(1))
		if err := l.HoldBack(t.Context(), "key", time.Hour); err != nil {
			t.Fatal(err)
		}
		held := make(chan error, 1)
		go func() { held <- l.Wait(t.Context(), "key", limit, WithHoldBack()) }()
		time.Sleep(time.Minute)
		start := time.Now()
		for _, options := range [][]WaitOption{nil, {WithLongestWait(0)}, {WithLongestWait(time.Second)}} {
			if err := l.Wait(t.Context(), "key", limit, options...); err != nil {
				t.Errorf("with %d options: %v", len(options), err)
			}
		}
		if took := time.Since(start); took != 3*roundTrip {
			t.Errorf("three who do not heed it took %v, want a round trip each", took)
		}
		if err := <-held; err != nil || time.Since(start) < 59*time.Minute || time.Since(start) > 59*time.Minute+2*roundTrip {
			t.Errorf("the one that heeds it went after %v: %v, want 59 minutes", time.Since(start), err)
		}
	})
}

// No wait is longer than its longest wait and the call that is in flight then.
func TestLongestWaitIsABound(t *testing.T) {
	const bound = 50 * roundTrip
	for name, limit := range map[string]Quota{"shaping": Shaping(1000, Per(1, 20*roundTrip)), "leaky": Leaky(2, Per(1, 20*roundTrip))} {
		t.Run(name, func(t *testing.T) {
			bubbletest.Run(t, func(t *testing.T) {
				l := New(&slow{Store: NewMemory()})
				defer l.Close()
				start := time.Now()
				var mu sync.Mutex
				admitted := 0
				var group sync.WaitGroup
				for range 200 {
					group.Go(func() {
						err := l.Wait(t.Context(), "key", limit, WithLongestWait(bound))
						if took := time.Since(start); took > bound+2*roundTrip {
							t.Errorf("ended after %v, want %v and a round trip or two: %v", took, bound, err)
						}
						mu.Lock()
						defer mu.Unlock()
						if err == nil {
							admitted++
						}
					})
				}
				group.Wait()
				if admitted < 3 {
					t.Errorf("%d were admitted, want 3 or more", admitted)
				}
				time.Sleep(time.Second) // the turns that came too late are free again
				if d, err := l.Allow(t.Context(), "key", limit); err != nil || !d.Allowed || d.Delay != 0 {
					t.Errorf("afterwards: %+v, %v", d, err)
				}
			})
		})
	}
}

// A turn's delay counts from the decision: a longest wait that ends on the turn is long enough,
// however long the answer travels.
func TestTurnOnTheEndOfTheLongestWait(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		l, limit := New(&slow{Store: NewMemory()}), Shaping(2, PerSecond(1))
		defer l.Close()
		if err := l.Wait(t.Context(), "key", limit); err != nil { // decided half a round trip before it ends
			t.Fatal(err)
		}
		start := time.Now()
		bound := time.Second - roundTrip/2
		if err := l.Wait(t.Context(), "key", limit, WithLongestWait(bound)); err != nil || time.Since(start) != bound {
			t.Errorf("%v after %v, want the turn after %v", err, time.Since(start), bound)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second-2*roundTrip)
		defer cancel()
		var limited *LimitedError
		if err := l.Wait(ctx, "key", limit); !errors.As(err, &limited) {
			t.Errorf("a turn after the deadline: %v", err)
		}
	})
}

// panics is a store that panics in some calls.
type panics struct {
	Store

	often int
}

func (s *panics) Decide(ctx context.Context, calls []Call) (answered int, err error) {
	if s.often > 0 {
		s.often--
		panic("a store of one's own")
	}
	return s.Store.Decide(ctx, calls)
}

// A store that panics fails the waiters of that call, and no later ones.
func TestWaitOutlivesAStoreThatPanics(t *testing.T) {
	l, limit := New(&panics{NewMemory(), 2}), Leaky(10, PerSecond(1))
	defer l.Close()
	for i, fails := range []bool{true, true, false} {
		if err := l.Wait(t.Context(), "key", limit); (err != nil) != fails {
			t.Errorf("wait %d: %v, want an error: %t", i, err, fails)
		}
	}
}

// deaf is a store that cannot settle for a while.
type deaf struct {
	*slow

	mu      sync.Mutex
	refuses int // so many settlements
}

func (s *deaf) Settle(ctx context.Context, settlements []Settlement) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refuses > 0 {
		s.refuses--
		return fmt.Errorf("not now: %w", ErrNotDone)
	}
	return s.Store.Settle(ctx, settlements)
}

// hear has it send them again.
func (s *deaf) hear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuses = 0
}

// The grants of waiters that leave are given back as soon as the store can settle, and before the limiter
// is closed.
func TestTurnsThatAreLeftAreGivenBackLater(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		s := &deaf{slow: &slow{Store: NewMemory()}, refuses: 5}
		l := New(s, WithLogger(slog.New(slog.DiscardHandler)))
		limit := Shaping(10, PerMinute(1))
		for range 4 { // all but the first leave their turns
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			go func() { _ = l.Wait(ctx, "key", limit) }()
			synctest.Wait()
		}
		time.Sleep(2 * time.Second)
		d, err := l.Peek(t.Context(), "key", limit)
		if err != nil || limit.Capacity()-d.Remaining > 1 {
			t.Errorf("%+v, %v: want 1 used", d, err)
		}
		if err := l.Close(); err != nil || s.refuses != 0 {
			t.Errorf("closed: %v, %d refusals left", err, s.refuses)
		}
	})
}

// A turn goes to the next waiter for as many units, and not to one for more.
func TestTurnGoesToNobodyWhoNeedsMore(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		l, limit := New(NewMemory()), Shaping(10, PerSecond(1))
		defer l.Close()
		leaves, leave := context.WithCancel(t.Context())
		start := time.Now()
		var group sync.WaitGroup
		for _, w := range []struct {
			ctx  context.Context //nolint:containedctx // of one waiter
			n    int
			want time.Duration
		}{{t.Context(), 1, 0}, {leaves, 1, time.Second / 2}, {t.Context(), 3, 2 * time.Second}, {t.Context(), 1, time.Second}} {
			group.Go(func() {
				err := l.WaitN(w.ctx, "key", limit, w.n)
				if took := time.Since(start); took != w.want && w.ctx != leaves {
					t.Errorf("%d went after %v, want %v: %v", w.n, took, w.want, err)
				}
			})
			synctest.Wait()
		}
		time.Sleep(time.Second / 2)
		leave()
		group.Wait()
	})
}

// A reservation whose wait has failed is given back once, even if its owner settles it, too.
func TestReservationWhoseWaitHasFailedIsGivenBackOnce(t *testing.T) {
	for range 50 {
		l, limit, other := New(NewMemory()), Shaping(10, PerHour(1)), Leaky(1000, PerHour(1))
		if _, err := l.AllowAll(t.Context(), Check{Key: "key", Limit: limit}, Check{Key: "key", Limit: other, Cost: 500}); err != nil {
			t.Fatal(err)
		}
		r, err := l.Reserve(t.Context(), Check{Key: "key", Limit: limit}, Check{Key: "key", Limit: other, Cost: 100})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := r.Wait(ctx); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if err := r.Cancel(t.Context()); !errors.Is(err, ErrSettled) {
			t.Errorf("cancelled again: %v", err)
		}
		l.background.drain()
		if n := used(t, l, other); n != 500 {
			t.Fatalf("%d are used, want 500", n)
		}
	}
}

// A waiter under another plan of the same name is not held back by the plan of the waiters before it.
func TestWaiterIsNotHeldByThePlanOfAnother(t *testing.T) {
	for name, options := range map[string][]WaitOption{"with all the time": nil, "for a minute": {WithLongestWait(time.Minute)}} {
		t.Run(name, func(t *testing.T) {
			bubbletest.Run(t, func(t *testing.T) {
				l := New(&slow{Store: NewMemory()})
				defer l.Close()
				var group sync.WaitGroup
				group.Go(func() {
					if err := l.Wait(t.Context(), "key", Leaky(1, PerHour(1)).Named("plan")); err != nil {
						t.Error(err)
					}
				})
				time.Sleep(roundTrip / 4) // that is being asked
				start := time.Now()
				err := l.Wait(t.Context(), "key", Leaky(100, PerSecond(100)).Named("plan"), options...)
				if took := time.Since(start); err != nil || took > 3*roundTrip {
					t.Errorf("%v after %v, want to be admitted at once", err, took)
				}
				group.Wait()
			})
		})
	}
}

// Callers that do not wait do not overtake a waiter for many units.
func TestNobodyOvertakesWithoutWaiting(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		l, limit := New(&slow{Store: NewMemory()}), Leaky(5, Per(1, 100*roundTrip))
		defer l.Close()
		if _, err := l.AllowN(t.Context(), "key", limit, 5); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		admitted := make(chan error, 1)
		go func() { admitted <- l.WaitN(t.Context(), "key", limit, 5) }()
		time.Sleep(10 * roundTrip)
		for {
			select {
			case err := <-admitted:
				// A call in flight and the pause of this loop come on top.
				if took := time.Since(start); err != nil || took > 505*roundTrip {
					t.Errorf("%v after %v, want %v", err, took, 500*roundTrip)
				}
				return
			default:
			}
			if err := l.Wait(t.Context(), "key", limit, WithLongestWait(0)); err == nil && len(admitted) == 0 && time.Since(start) < 500*roundTrip {
				t.Fatalf("overtaken after %v", time.Since(start))
			}
			time.Sleep(roundTrip / 2)
		}
	})
}
