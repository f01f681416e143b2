package core_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/redistest"
)

// inBubble runs a test where time is what it is said to be, on an empty Memory that
// counts what it is asked.
func inBubble(t *testing.T, test func(t *testing.T, l *core.Limiter, asked *atomic.Int64)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &reserving{Store: core.NewMemory()}
		test(t, core.New(s), &s.asked)
	})
}

// reserving counts reservations, and answers one call at a time, as a store may.
type reserving struct {
	core.Store

	asked atomic.Int64
}

func (c *reserving) Decide(ctx context.Context, calls []core.Call) (answered int, err error) {
	if calls[0].Receipts != nil {
		c.asked.Add(1)
	}
	return c.Store.Decide(ctx, calls[:1])
}

func limitedBy(t *testing.T, err error) core.Decision {
	t.Helper()
	limited, ok := errors.AsType[*core.LimitedError](err)
	if !ok {
		t.Fatalf("%v, want a LimitedError", err)
	}
	return limited.Decision
}

func used(t *testing.T, l *core.Limiter, limit core.Limit) int {
	t.Helper()
	d, err := l.Peek(t.Context(), "key", limit)
	if err != nil {
		t.Fatal(err)
	}
	return limit.Capacity() - d.Remaining
}

func TestWaitersAreServedInOrderAndDoNotPoll(t *testing.T) {
	for name, limit := range map[string]core.Limit{
		"leaky": core.Leaky(2, core.PerSecond(1)), "fixed window": core.FixedWindow(2, 2*time.Second),
		"shaping": core.Shaping(2, core.PerSecond(1)), "sliding log": core.SlidingLog(2, 2*time.Second),
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, l *core.Limiter, asked *atomic.Int64) {
				const waiters = 8
				start := time.Now()
				var mu sync.Mutex
				var order []int
				var group sync.WaitGroup
				for i := range waiters {
					group.Go(func() {
						if err := l.Wait(t.Context(), "key", limit); err != nil {
							t.Error(err)
						}
						mu.Lock()
						defer mu.Unlock()
						order = append(order, i/2) // those of a window come at once
					})
					synctest.Wait()
				}
				group.Wait()
				if !nearlySorted(order) || len(order) != waiters {
					t.Errorf("served in the order %v", order)
				}
				if took := time.Since(start); took < 5*time.Second || took > 8*time.Second {
					t.Errorf("%d passed %s in %v", waiters, limit, took)
				}
				if asked.Load() > waiters+1 { // one more by the first who is refused
					t.Errorf("asked %d times for %d", asked.Load(), waiters)
				}
			})
		})
	}
}

func TestWaitThatCannotEndInTimeFailsAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, l *core.Limiter, _ *atomic.Int64) {
		limit := core.Leaky(1, core.PerSecond(1))
		start := time.Now()
		if err := l.Wait(t.Context(), "key", limit); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 999*time.Millisecond)
		defer cancel()
		err := l.Wait(ctx, "key", limit)
		if d := limitedBy(t, err); d.RetryAfter != time.Second || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v with %+v, want a RetryAfter of 1s and DeadlineExceeded", err, d)
		}
		if err := l.Wait(t.Context(), "key", limit, core.WithLongestWait(0)); limitedBy(t, err).RetryAfter != time.Second {
			t.Error(err)
		}
		if err := l.WaitN(t.Context(), "key", limit, 2); limitedBy(t, err).RetryAfter != core.Never {
			t.Error(err)
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("it took %v to fail at once", took)
		}
		if got := used(t, l, limit); got != 1 {
			t.Errorf("%d are used, want 1", got)
		}
	})
}

func TestWaitBehindOthersFailsAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, l *core.Limiter, _ *atomic.Int64) {
		limit := core.GCRA(1, core.PerSecond(1))
		var group sync.WaitGroup
		for range 4 { // at 0, 1, 2 and 3 seconds
			group.Go(func() {
				if err := l.Wait(t.Context(), "key", limit); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		start := time.Now()
		err := l.Wait(t.Context(), "key", limit, core.WithLongestWait(3999*time.Millisecond))
		if d := limitedBy(t, err); d.RetryAfter != 4*time.Second || time.Since(start) != 0 {
			t.Errorf("after %v: %v, want at once that it takes 4s", time.Since(start), err)
		}
		if err := l.Wait(t.Context(), "key", limit, core.WithLongestWait(4*time.Second)); err != nil {
			t.Error(err)
		}
		group.Wait()
	})
}

// Whoever is refused takes nothing, so that those behind are not refused for it.
func TestThoseWhoAreRefusedAreNotCountedIn(t *testing.T) {
	for name, c := range map[string]struct {
		cost    int
		options []core.WaitOption
		retry   time.Duration
	}{
		"too late":                  {10, []core.WaitOption{core.WithLongestWait(300 * time.Millisecond)}, 1100 * time.Millisecond},
		"more than there ever is":   {11, nil, core.Never},
		"far more than there is":    {math.MaxInt, nil, core.Never},
		"and heeds what holds back": {11, []core.WaitOption{core.WithHoldBack()}, core.Never},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, l *core.Limiter, _ *atomic.Int64) {
				limit := core.Leaky(10, core.PerSecond(10))
				if d, err := l.AllowN(t.Context(), "key", limit, 10); err != nil || !d.Allowed {
					t.Fatal(d, err)
				}
				start := time.Now()
				var group sync.WaitGroup
				group.Go(func() { // in 100 ms
					if err := l.Wait(t.Context(), "key", limit); err != nil {
						t.Error(err)
					}
				})
				synctest.Wait()
				err := l.WaitN(t.Context(), "key", limit, c.cost, c.options...)
				if d := limitedBy(t, err); d.RetryAfter != c.retry || time.Since(start) != 0 {
					t.Errorf("after %v: %v, want at once that it takes %v", time.Since(start), err, c.retry)
				}
				if err := l.Wait(t.Context(), "key", limit, core.WithLongestWait(200*time.Millisecond)); err != nil {
					t.Error(err)
				}
				if got := time.Since(start); got != 200*time.Millisecond {
					t.Errorf("admitted after %v, want 200ms", got)
				}
				group.Wait()
			})
		})
	}
}

// Nor are those who were in the line when it was seen that they are too late.
func TestThoseWhoAreTooLateAreNotCountedIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, limit := core.New(&slow{Store: core.NewMemory()}), core.Leaky(10, core.PerSecond(10))
		if d, err := l.AllowN(t.Context(), "key", limit, 10); err != nil || !d.Allowed {
			t.Fatal(d, err)
		}
		var errs [3]error
		var group sync.WaitGroup
		for i, w := range []struct {
			cost    int
			longest time.Duration
		}{{1, time.Second}, {10, 300 * time.Millisecond}, {1, 500 * time.Millisecond}} {
			group.Go(func() { errs[i] = l.WaitN(t.Context(), "key", limit, w.cost, core.WithLongestWait(w.longest)) })
			synctest.Wait() // while the first is being answered
		}
		group.Wait()
		limitedBy(t, errs[1])
		if errs[0] != nil || errs[2] != nil {
			t.Errorf("around one who was refused: %v and %v", errs[0], errs[2])
		}
	})
}

func TestCancelledWaitLeavesNothingCharged(t *testing.T) {
	for _, limit := range []core.Limit{core.Leaky(1, core.PerMinute(1)), core.Shaping(3, core.PerMinute(1))} {
		t.Run(limit.Algorithm(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, l *core.Limiter, _ *atomic.Int64) {
				if err := l.Wait(t.Context(), "key", limit); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				errs := make(chan error, 2)
				for range cap(errs) {
					go func() { errs <- l.Wait(ctx, "key", limit) }()
					synctest.Wait()
				}
				time.Sleep(time.Second)
				cancel()
				for range cap(errs) {
					if err := <-errs; !errors.Is(err, context.Canceled) {
						t.Errorf("%v, want context.Canceled", err)
					}
				}
				time.Sleep(59 * time.Second)
				if got := used(t, l, limit); got != 0 {
					t.Errorf("%d are used when the first has drained, want none", got)
				}
			})
		})
	}
}

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

// Those behind somebody who has left move up, one turn each.
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

// Who waits for what he has settled already makes a mistake, for which nobody else pays.
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
			t.Errorf("%d are used, want the 2 who have not left", got)
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
		t.Errorf("undelayed units of a limit that delays nobody: %v", err)
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
			t.Errorf("%v after %v, want nobody held who does not heed it", err, time.Since(start))
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
			t.Errorf("%d are used, want the 3 of those who were held and none of before", got)
		}
	})
}

func TestDoRunsWhatWasAdmitted(t *testing.T) {
	inBubble(t, func(t *testing.T, l *core.Limiter, _ *atomic.Int64) {
		limit, failure := core.Leaky(1, core.PerSecond(1)), errors.New("it failed")
		if err := l.Do(t.Context(), "key", limit, func(context.Context) error { return failure }); !errors.Is(err, failure) {
			t.Errorf("%v, want the function's own error", err)
		}
		err := l.Do(t.Context(), "key", limit, func(context.Context) error {
			t.Error("ran what was not admitted")
			return nil
		}, core.WithLongestWait(time.Millisecond))
		limitedBy(t, err)
	})
}

// A worker pool respects a partner's rate, on every kind of server.
func TestWaitOnRedis(t *testing.T) {
	for name, store := range map[string]core.Store{
		"redis":   core.NewRedis(redistest.Shared(t).Client(t), core.WithPrefix(redistest.Prefix(t)), core.WithBudget(patient)),
		"cluster": core.NewRedis(redistest.SharedCluster(t).Client(t), core.WithPrefix(redistest.Prefix(t)), core.WithBudget(patient)),
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			limit := core.Leaky(2, core.Per(1, 20*time.Millisecond))
			var group sync.WaitGroup
			for _, l := range []*core.Limiter{core.New(store), core.New(store)} { // as if in two processes
				for range 5 {
					group.Go(func() {
						if err := l.Wait(t.Context(), "partner", limit, core.WithHoldBack()); err != nil {
							t.Error(err)
						}
					})
				}
			}
			group.Wait()
			if took := time.Since(start); took < 8*20*time.Millisecond {
				t.Errorf("10 passed in %v, faster than 2 at once and then one each 20ms", took)
			}
		})
	}
}

// Who cannot wait at all is not refused for those who are being answered before it.
func TestNoLongestWaitIsNoReasonToRefuseWhatIsLeft(t *testing.T) {
	client := redistest.Shared(t).Client(t)
	limiter := core.New(core.NewRedis(client, core.WithPrefix(redistest.Prefix(t)), core.WithBudget(patient)))
	limit := core.Leaky(40, core.PerHour(1))
	var group sync.WaitGroup
	var passed atomic.Int64
	for range 50 {
		group.Go(func() {
			err := limiter.Wait(t.Context(), "key", limit, core.WithLongestWait(0))
			if _, limited := errors.AsType[*core.LimitedError](err); err == nil {
				passed.Add(1)
			} else if !limited {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if passed.Load() != 40 {
		t.Errorf("%d passed, want 40", passed.Load())
	}
}

// slow is a store that takes its time to answer reservations, as one on a server does.
type slow struct {
	core.Store

	asked atomic.Int64
	most  atomic.Int64 // the largest cost that was asked
}

const roundTrip = time.Millisecond

func (c *slow) Decide(ctx context.Context, calls []core.Call) (answered int, err error) {
	if calls[0].Receipts == nil {
		return c.Store.Decide(ctx, calls)
	}
	c.asked.Add(1)
	c.most.Store(max(c.most.Load(), int64(calls[0].Checks[0].Cost)))
	time.Sleep(roundTrip / 2)
	defer time.Sleep(roundTrip / 2)
	return c.Store.Decide(ctx, calls[:1])
}

func nearlySorted(places []int) bool {
	for i := 1; i < len(places); i++ {
		if places[i] < places[i-1]-1 {
			return false
		}
	}
	return true
}

// Processes that wait while a key is held back charge nothing meanwhile, not even turns
// of a queue that others could be behind.
func TestHeldBackTurnsAreNotCharged(t *testing.T) {
	server, limit := redistest.Start(t), core.Shaping(50, core.PerSecond(10))
	var processes []*core.Limiter
	for range 8 {
		processes = append(processes, core.New(core.NewRedis(server.Client(t), core.WithBudget(patient))))
	}
	if err := processes[0].HoldBack(t.Context(), "key", time.Hour); err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for _, l := range processes {
		group.Go(func() {
			err := l.Wait(t.Context(), "key", limit, core.WithHoldBack(), core.WithLongestWait(time.Minute))
			if limited, ok := errors.AsType[*core.LimitedError](err); !ok || limited.Decision.RetryAfter < 59*time.Minute {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if n := used(t, processes[0], limit); n != 0 {
		t.Errorf("%d turns are charged, and nobody was admitted", n)
	}
}
