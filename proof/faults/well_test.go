package faults_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/faultproxy"
	"github.com/weir-go/ratelimit/internal/redistest"
	"github.com/weir-go/ratelimit/internal/repeatable"
)

// The laws of this file are about a server that is well: it answers every call within the budget.
// Then every call is decided, and nothing passes that the limit denies.

const (
	// wide is a budget of which most machines take but a small part.
	wide = time.Second
	// widest is one of which every machine does.
	widest = 16 * wide
)

// atAnyPace wants a law about budgets to hold with some budget. On a machine that is too busy to
// read a reply in time, it is tried again with twice the budget: what breaks the law, and not the
// clock, breaks it with every budget, since all that the server takes is a part of the budget.
func atAnyPace(t *testing.T, law func(budget time.Duration) error) {
	t.Helper()
	for budget := wide; ; budget *= 2 {
		err := law(budget)
		if err == nil {
			return
		}
		if budget >= widest {
			t.Fatalf("with a budget of %v: %v", budget, err)
		}
		t.Logf("with a budget of %v: %v; it is tried with twice that", budget, err)
	}
}

// distant is a limiter on a server whose replies take a while.
type distant struct {
	limiter *core.Limiter
	server  *redistest.Server
	proxy   *faultproxy.Proxy
}

// far returns a limiter with a budget, on a server whose replies take so long.
func far(t *testing.T, budget, latency time.Duration) distant {
	t.Helper()
	server := redistest.Start(t)
	proxy := faultproxy.Start(t, server.Addr())
	limiter, err := core.Open("redis://"+proxy.Addr(), core.WithBudget(budget), core.WithPrefix(redistest.Prefix(t)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = limiter.Close() })
	if err := limiter.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	d := distant{limiter, server, proxy}
	d.move(latency)
	return d
}

// move changes how long replies take.
func (d distant) move(latency time.Duration) { d.proxy.Set(faultproxy.Fault{Latency: latency}) }

// verdicts counts what callers were told.
type verdicts struct {
	allowed, denied, failed atomic.Int64
	first                   sync.Once
	err                     error
}

func (v *verdicts) ask(ctx context.Context, l *core.Limiter, key string, limit core.Quota) error {
	d, err := l.Allow(ctx, key, limit)
	switch {
	case err != nil:
		v.failed.Add(1)
		v.first.Do(func() { v.err = err })
	case d.Allowed:
		v.allowed.Add(1)
	default:
		v.denied.Add(1)
	}
	return err
}

// A reply within the budget is a decision, whatever the call has waited for in this process.
func TestRepliesWithinTheBudgetAreDecisions(t *testing.T) {
	t.Parallel()
	atAnyPace(t, func(budget time.Duration) error {
		far := far(t, budget, budget*3/4)
		var v verdicts
		var group sync.WaitGroup
		for range 12 {
			group.Go(func() {
				for range 3 {
					_ = v.ask(t.Context(), far.limiter, "key", core.FixedWindow(10, time.Hour))
				}
			})
		}
		group.Wait()
		if v.failed.Load() > 0 || v.allowed.Load() != 10 || v.denied.Load() != 26 {
			return fmt.Errorf("%d allowed, %d denied and %d failed, want 10 and 26; %w", v.allowed.Load(), v.denied.Load(), v.failed.Load(), v.err)
		}
		return nil
	})
}

// What a call waits for its turn in this process is not the server's time: a crowd that takes several
// budgets is decided, in order.
func TestCrowdAtADistantServer(t *testing.T) {
	t.Parallel()
	const crowd = 4000
	atAnyPace(t, func(budget time.Duration) error {
		far := far(t, budget, budget/5)
		var v verdicts
		var group sync.WaitGroup
		for i := range crowd {
			group.Go(func() { _ = v.ask(t.Context(), far.limiter, strconv.Itoa(i%(crowd/2)), core.FixedWindow(1, time.Hour)) })
		}
		group.Wait()
		if v.failed.Load() > 0 || v.allowed.Load() != crowd/2 {
			return fmt.Errorf("%d allowed, want %d; %d failed: %w", v.allowed.Load(), crowd/2, v.failed.Load(), v.err)
		}
		return nil
	})
}

// When the connections to a distant server break, they are opened again, beside the calls: those
// wait for it. Only what was in flight is lost.
func TestDistantServerComesBack(t *testing.T) {
	t.Parallel()
	const callers = 12
	limit := core.FixedWindow(10, time.Hour)
	atAnyPace(t, func(budget time.Duration) error {
		far := far(t, budget, budget*4/10)
		admin := far.server.Client(t)
		var v verdicts
		for range 10 {
			if err := v.ask(t.Context(), far.limiter, "key", limit); err != nil {
				return err
			}
		}
		before := far.server.Calls(t, "hello")
		if err := admin.Do(t.Context(), "client", "kill", "type", "normal", "skipme", "yes").Err(); err != nil {
			t.Fatal(err)
		}
		var group sync.WaitGroup
		for range callers {
			group.Go(func() {
				for range 4 {
					_ = v.ask(t.Context(), far.limiter, "key", limit)
				}
			})
		}
		group.Wait()
		if v.allowed.Load() != 10 {
			t.Fatalf("%d allowed, want 10", v.allowed.Load())
		}
		if v.failed.Load() > callers {
			return fmt.Errorf("%d failed, want at most what was in flight: %w", v.failed.Load(), v.err)
		}
		if err := v.ask(t.Context(), far.limiter, "key", limit); err != nil {
			return fmt.Errorf("in the end: %w", err)
		}
		if opened := far.server.Calls(t, "hello") - before; opened > 8 {
			return fmt.Errorf("%d connections were opened, want about as many as are used", opened)
		}
		return nil
	})
}

// However many come at once, each is decided or told that it was too many; and none passes that the
// limit denies.
func TestCrowds(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	limiter, err := core.Open(server.URL(), core.WithBudget(widest))
	if err != nil {
		t.Fatal(err)
	}
	defer limiter.Close()
	if err := limiter.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	const capacity = 2
	for crowd, keys := range map[int]int{8000: 1, 8001: 1000, 20_000: 1, 8003: 1 << 40} {
		t.Run(fmt.Sprintf("%d about %d keys", crowd, keys), func(t *testing.T) {
			limit := core.Leaky(capacity, core.PerDay(1)).Named(fmt.Sprintf("crowd-%d", crowd))
			counts := make([]verdicts, min(keys, crowd))
			random := repeatable.Random(t)
			var group sync.WaitGroup
			ready := make(chan struct{})
			for i := range crowd {
				place := i % len(counts)
				key := strconv.Itoa(place)
				if keys > crowd {
					key = strconv.FormatUint(random.Uint64(), 36)
				}
				group.Go(func() {
					<-ready
					_ = counts[place].ask(t.Context(), limiter, key, limit)
				})
			}
			close(ready)
			group.Wait()
			answered := 0
			for i := range counts {
				v := &counts[i]
				answered += int(v.allowed.Load() + v.denied.Load() + v.failed.Load())
				asked := crowd / len(counts)
				if i < crowd%len(counts) {
					asked++
				}
				if v.failed.Load() > 0 || v.allowed.Load() != int64(min(capacity, asked)) {
					t.Fatalf("of %d calls %d were allowed and %d failed: %v", asked, v.allowed.Load(), v.failed.Load(), v.err)
				}
			}
			if answered != crowd {
				t.Errorf("%d were answered", answered)
			}
		})
	}
}

// However many settle at once, they share round trips: none is lost, and no check beside them waits
// for them.
func TestBurstOfSettlements(t *testing.T) {
	t.Parallel()
	atAnyPace(t, func(budget time.Duration) error {
		far := far(t, budget, 0)
		const burst, keys = 4000, 40
		limit := core.Leaky(burst, core.PerDay(1))
		reservations := make([]*core.Reservation, burst)
		for i := range reservations {
			r, err := far.limiter.Reserve(t.Context(), core.Check{Key: fmt.Sprint("key:", i%keys), Limit: limit, Cost: 2})
			if err != nil {
				return fmt.Errorf("reservation %d: %w", i, err)
			}
			if !r.Allowed() {
				return fmt.Errorf("reservation %d is denied", i)
			}
			reservations[i] = r
		}
		far.move(budget / 5)
		var settled, neighbours verdicts
		var beside sync.WaitGroup
		done := make(chan struct{})
		beside.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					_ = neighbours.ask(t.Context(), far.limiter, "neighbour", core.Leaky(1, core.PerSecond(1)))
				}
			}
		})
		everybody(burst, func(i int) {
			if err := reservations[i].Settle(t.Context(), i%2); err != nil { // gives back 1 or 2
				settled.failed.Add(1)
				settled.first.Do(func() { settled.err = err })
			}
		})
		close(done)
		beside.Wait()
		if settled.failed.Load() > 0 || neighbours.failed.Load() > 0 {
			return fmt.Errorf("%d of %d settlements were lost (%w), and %d checks beside them failed (%w)",
				settled.failed.Load(), burst, settled.err, neighbours.failed.Load(), neighbours.err)
		}
		far.move(0)
		for key := range keys {
			d, err := far.limiter.Peek(t.Context(), fmt.Sprint("key:", key), limit)
			if want := burst - key%2*burst/keys; err != nil || d.Remaining != want {
				return fmt.Errorf("key %d: %d remain, %w, want %d", key, d.Remaining, err, want)
			}
		}
		return nil
	})
}

// Callers who charge as fast as they can do not suspend a server that is well.
func TestManyWhoChargeSuspendNobody(t *testing.T) {
	t.Parallel()
	atAnyPace(t, func(budget time.Duration) error {
		far := far(t, budget, budget/20)
		const callers, calls = 1024, 4
		limit := core.FixedWindow(callers*calls, time.Hour)
		var v verdicts
		everybody(callers, func(int) {
			for range calls {
				if _, err := far.limiter.Charge(t.Context(), "key", limit, 1); err != nil {
					v.failed.Add(1)
					v.first.Do(func() { v.err = err })
				}
				_ = v.ask(t.Context(), far.limiter, "neighbour", core.Leaky(1, core.PerSecond(1)))
			}
		})
		d, err := far.limiter.Peek(t.Context(), "key", limit)
		if err != nil || v.failed.Load() > 0 || d.Remaining != 0 {
			return fmt.Errorf("%d failed (%w), and %d are not charged; %w", v.failed.Load(), v.err, d.Remaining, err)
		}
		return nil
	})
}
