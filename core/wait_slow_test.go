package core

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"
)

// slow is a store that takes its time to answer reservations, as one on a server does.
type slow struct {
	Store

	asked atomic.Int64
	most  atomic.Int64 // calls that were asked together
	mixed atomic.Bool  // some of which were under different limits
}

const roundTrip = time.Millisecond

func (s *slow) Decide(ctx context.Context, calls []Call) (answered int, err error) {
	if calls[0].Receipts == nil { // it is no reservation
		return s.Store.Decide(ctx, calls)
	}
	s.asked.Add(1)
	s.most.Store(max(s.most.Load(), int64(len(calls))))
	for _, call := range calls {
		if call.Checks[0].Limit != calls[0].Checks[0].Limit {
			s.mixed.Store(true)
		}
	}
	time.Sleep(roundTrip / 2)
	defer time.Sleep(roundTrip / 2)
	return s.Store.Decide(ctx, calls)
}

func used(t *testing.T, l *Limiter, limit Limit) int {
	t.Helper()
	d, err := l.Peek(t.Context(), "key", limit)
	if err != nil {
		t.Fatal(err)
	}
	return limit.Capacity() - d.Remaining
}

// The waiters for which there is room share one call, in their order: a round
// trip does not bound how many are admitted.
func TestWaitersShareCalls(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		s := &slow{Store: NewMemory()}
		l, limit := New(s), Leaky(1000, PerSecond(1))
		start := time.Now()
		var mu sync.Mutex
		var order []int
		var group sync.WaitGroup
		for i := range 300 {
			group.Go(func() {
				if err := l.WaitN(t.Context(), "key", limit, 1+i%2); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				order = append(order, i)
			})
			synctest.Wait()
		}
		group.Wait()
		if took, asked := time.Since(start), s.asked.Load(); took > 10*roundTrip || asked > 10 {
			t.Errorf("300 were admitted by %d calls in %v", asked, took)
		}
		if order[0] != 0 {
			t.Errorf("number %d was admitted first", order[0])
		}
		if n := used(t, l, limit); n != 450 {
			t.Errorf("%d are used, want 450", n)
		}
	})
}

// A waiter that gives up while it shares a call with others leaves nothing charged, and does
// not hinder them.
func TestWaitGivenUpWhileOthersAskForIt(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		s := &slow{Store: NewMemory()}
		l, limit := New(s), Leaky(100, PerHour(1))
		ctx, cancel := context.WithCancel(t.Context())
		errs := make([]error, 10)
		var group sync.WaitGroup
		for i := range errs {
			group.Go(func() {
				waiting := ctx
				if i%3 != 2 {
					waiting = t.Context()
				}
				errs[i] = l.Wait(waiting, "key", limit)
			})
			synctest.Wait()
		}
		time.Sleep(roundTrip + roundTrip/4) // the first is admitted, and the others are asked for
		cancel()
		group.Wait()
		for i, err := range errs {
			if given := i%3 == 2; given != errors.Is(err, context.Canceled) || !given && err != nil {
				t.Errorf("waiter %d: %v", i, err)
			}
		}
		if s.most.Load() != 9 {
			t.Errorf("at most %d were asked for together, want 9", s.most.Load())
		}
		synctest.Wait() // what they were granted is given back
		if n := used(t, l, limit); n != 7 {
			t.Errorf("%d are used by 7 admitted waiters", n)
		}
	})
}

// Where others have taken the room meanwhile, the first is admitted first.
func TestWaitersForLessRoomThanItSeemed(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		s := &slow{Store: NewMemory()}
		l, limit := New(s), Leaky(10, PerSecond(1))
		var mu sync.Mutex
		var order []int
		var group sync.WaitGroup
		for i := range 8 {
			group.Go(func() {
				if err := l.Wait(t.Context(), "key", limit); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				order = append(order, i)
			})
			synctest.Wait()
		}
		time.Sleep(roundTrip + roundTrip/4) // the other 7 are being asked for
		if d, err := l.AllowN(t.Context(), "key", limit, 5); err != nil || !d.Allowed {
			t.Fatal(d, err)
		}
		group.Wait()
		if len(order) != 8 || order[0] != 0 || max(order[1], order[2], order[3], order[4]) != 4 || !slices.IsSorted(order[5:]) {
			t.Errorf("admitted in the order %v", order)
		}
	})
}
