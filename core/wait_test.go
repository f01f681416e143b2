package core_test

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/redistest"
)

// inBubble runs a test where time is what it is said to be, on an empty Memory that
// counts what it is asked.
func inBubble(t *testing.T, test func(t *testing.T, l *core.Limiter, asked *atomic.Int64)) {
	t.Helper()
	bubbletest.Run(t, func(t *testing.T) {
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

func used(t *testing.T, l *core.Limiter, limit core.Quota) int {
	t.Helper()
	d, err := l.Peek(t.Context(), "key", limit)
	if err != nil {
		t.Fatal(err)
	}
	return limit.Capacity() - d.Remaining
}

func TestWaitersAreServedInOrderAndDoNotPoll(t *testing.T) {
	for name, limit := range map[string]core.Quota{
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
				if asked.Load() > waiters+1 { // one more by the first waiter that is denied
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

// A denied waiter takes nothing, so that those behind it are not denied for it.
func TestDeniedWaitersAreNotCountedIn(t *testing.T) {
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

// Nor are waiters that were in the queue when it was seen that they would be too late.
func TestThoseWhoAreTooLateAreNotCountedIn(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
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
			t.Errorf("around a denied waiter: %v and %v", errs[0], errs[2])
		}
	})
}

func TestCancelledWaitLeavesNothingCharged(t *testing.T) {
	for _, limit := range []core.Quota{core.Leaky(1, core.PerMinute(1)), core.Shaping(3, core.PerMinute(1))} {
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

// A caller that does not wait is not denied because of calls before it that are still in flight.
func TestNoLongestWaitIsNoReasonToDenyWhatIsLeft(t *testing.T) {
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
		t.Errorf("%d turns are charged, and none was admitted", n)
	}
}
