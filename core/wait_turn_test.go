package core_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/ratelimit/core"
)

func TestWaitForATurnIsBoundedAndGivesItBack(t *testing.T) {
	inBubble(t, func(t *testing.T, l *core.Limiter, _ *atomic.Int64) {
		limit := core.Shaping(5, core.PerSecond(1))
		for range 2 {
			if _, err := l.Allow(t.Context(), "key", limit); err != nil {
				t.Fatal(err)
			}
		}
		start := time.Now()
		err := l.Wait(t.Context(), "key", limit, core.WithLongestWait(time.Second))
		if d := limitedBy(t, err); d.Delay != 2*time.Second || time.Since(start) != 0 {
			t.Errorf("%v after %v, want at once that the turn comes in 2s", err, time.Since(start))
		}
		synctest.Wait() // it is given back in the background
		if got := used(t, l, limit); got != 2 {
			t.Errorf("%d are used, want 2", got)
		}
	})
}

// The waiters behind one that has left move up, one turn each.
func TestTurnsAreHandedOn(t *testing.T) {
	inBubble(t, func(t *testing.T, l *core.Limiter, _ *atomic.Int64) {
		limit := core.Shaping(4, core.PerSecond(1))
		start := time.Now()
		served := make(chan string, 5)
		wait := func(ctx context.Context, name string) {
			go func() {
				if l.Wait(ctx, "key", limit) == nil {
					served <- fmt.Sprint(name, " ", time.Since(start))
				}
			}()
			synctest.Wait()
		}
		ctx, cancel := context.WithCancel(t.Context())
		wait(t.Context(), "a")
		wait(ctx, "b")
		wait(t.Context(), "c")
		wait(t.Context(), "d")
		time.Sleep(500 * time.Millisecond)
		cancel()
		synctest.Wait()
		wait(t.Context(), "e") // in the place that has been freed
		for _, want := range []string{"a 0s", "c 1s", "d 2s", "e 3s"} {
			if got := <-served; got != want {
				t.Errorf("served %s, want %s", got, want)
			}
		}
	})
}

// To wait for a reservation that has been settled is an error, which does not affect other waiters.
func TestSettledReservationHasNoTurn(t *testing.T) {
	inBubble(t, func(t *testing.T, l *core.Limiter, _ *atomic.Int64) {
		limit := core.Shaping(50, core.PerSecond(1))
		ctx, cancel := context.WithCancel(t.Context())
		errs := make(chan error, 4)
		for i := range cap(errs) {
			r, err := l.Reserve(t.Context(), core.Check{Key: "key", Limit: limit, Cost: 1})
			if err != nil {
				t.Fatal(err)
			}
			if i == 1 {
				if err := r.Settle(t.Context(), 1); err != nil {
					t.Fatal(err)
				}
				if err := r.Wait(ctx); err == nil {
					t.Error("what is settled is waited for")
				}
			}
			if i > 1 {
				go func() { errs <- r.Wait(ctx) }()
				synctest.Wait()
			}
		}
		cancel()
		for range 2 {
			if err := <-errs; !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "stays charged") {
				t.Errorf("%v, want to have given the turn back", err)
			}
		}
		synctest.Wait()
		if got := used(t, l, limit); got != 2 {
			t.Errorf("%d are used, want the 2 that have not left", got)
		}
	})
}

func TestFirstOfABurstAreNotDelayed(t *testing.T) {
	limiter := core.New(core.NewMemory(core.WithClock(func() time.Time { return time.Unix(1_800_000_000, 0) })))
	limit := core.Shaping(6, core.PerSecond(2))
	for i, want := range []time.Duration{0, 0, 0, 500 * time.Millisecond, time.Second, 1500 * time.Millisecond} {
		d, err := limiter.AllowAll(t.Context(), core.Check{Key: "key", Limit: limit, Cost: 1, Undelayed: 2})
		if err != nil || d[0].Delay != want {
			t.Errorf("request %d: %+v and %v, want a Delay of %v", i+1, d, err, want)
		}
	}
	if _, err := limiter.AllowAll(t.Context(), core.Check{Key: "key", Limit: limit, Cost: 1, Undelayed: -1}); err == nil {
		t.Error("-1 undelayed units are no error")
	}
	leaky := core.Check{Key: "key", Limit: core.Leaky(6, core.PerSecond(2)), Cost: 1, Undelayed: 2}
	if _, err := limiter.AllowAll(t.Context(), leaky); err == nil || !strings.Contains(err.Error(), "2 undelayed units of leaky 6, 2/s: only a Shaping limit delays") {
		t.Errorf("undelayed units of a limit that never delays: %v", err)
	}
}

func TestHoldBackHoldsAllWhoHeedIt(t *testing.T) {
	inBubble(t, func(t *testing.T, l *core.Limiter, _ *atomic.Int64) {
		limit := core.Leaky(10, core.PerSecond(1))
		start := time.Now()
		for _, d := range []time.Duration{3 * time.Second, 5 * time.Second, time.Second, -1} {
			if err := l.HoldBack(t.Context(), "key", d); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Wait(t.Context(), "key", limit); err != nil || time.Since(start) != 0 {
			t.Errorf("%v after %v, want a waiter that does not heed it not to be held", err, time.Since(start))
		}
		err := l.Wait(t.Context(), "key", limit, core.WithHoldBack(), core.WithLongestWait(4*time.Second))
		if d := limitedBy(t, err); d.RetryAfter != 5*time.Second {
			t.Errorf("RetryAfter %v, want the longest of the times, 5s", d.RetryAfter)
		}
		var group sync.WaitGroup
		for range 3 {
			group.Go(func() {
				if err := l.Wait(t.Context(), "key", limit, core.WithHoldBack()); err != nil || time.Since(start) != 5*time.Second {
					t.Errorf("%v after %v, want 5s", err, time.Since(start))
				}
			})
		}
		group.Wait()
		if got := used(t, l, limit); got != 3 {
			t.Errorf("%d are used, want the 3 of the held waiters and none from before", got)
		}
	})
}
