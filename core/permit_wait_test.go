package core_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"

	"github.com/weir-go/ratelimit/core"
)

// The context of a permit ends with the call's, with the place, and with Release, and says which.
func TestContextOfAPermit(t *testing.T) {
	reason := errors.New("the caller has left")
	for name, c := range map[string]struct {
		end  func(l *core.Limiter, p *core.Permit, leave context.CancelCauseFunc)
		want func(cause, err error) bool
	}{
		"the caller leaves": {
			func(_ *core.Limiter, _ *core.Permit, leave context.CancelCauseFunc) { leave(reason) },
			func(cause, err error) bool { return errors.Is(cause, reason) && err == nil },
		},
		"Release": {
			func(_ *core.Limiter, p *core.Permit, _ context.CancelCauseFunc) { p.Release() },
			func(cause, err error) bool {
				return errors.Is(cause, context.Canceled) && errors.Is(err, context.Canceled)
			},
		},
		"somebody takes the place": {
			func(l *core.Limiter, _ *core.Permit, _ context.CancelCauseFunc) {
				_ = l.Reset(context.Background(), "tenant", exports)
				time.Sleep(time.Minute)
			},
			func(cause, err error) bool {
				return err != nil && errors.Is(cause, err) && !errors.Is(err, context.Canceled)
			},
		},
		"Close": {
			func(l *core.Limiter, _ *core.Permit, _ context.CancelCauseFunc) { _ = l.Close() },
			func(cause, err error) bool {
				return err != nil && errors.Is(cause, err) && !errors.Is(err, context.Canceled)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, first := range []bool{true, false} { // whether it is asked for before that
				bubbletest.Run(t, func(t *testing.T) {
					memory := core.NewMemory()
					l := core.New(stays{memory})
					ctx, leave := context.WithCancelCause(t.Context())
					defer leave(nil)
					p, err := l.Acquire(ctx, "tenant", exports)
					if err != nil {
						t.Fatal(err)
					}
					if first && p.Context().Err() != nil {
						t.Error("it has ended")
					}
					c.end(l, p, leave)
					synctest.Wait()
					if cause, err := context.Cause(p.Context()), p.Err(); !c.want(cause, err) {
						t.Errorf("the context has ended by %v, and the permit by %v", cause, err)
					}
					p.Release()
					_ = l.Close()
				})
			}
		})
	}
}

// A reservation of two places holds both, and its permit ends with the one that is lost first.
func TestPermitOfTwoLeases(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		s := &failing{Store: core.NewMemory()}
		l := core.New(s)
		defer l.Close()
		short := core.Concurrent(2, time.Second).Named("short")
		r, err := l.WaitAll(t.Context(), []core.Check{{Key: "a", Limit: exports}, {Key: "a", Limit: short}, {Key: "a", Limit: exports}})
		if err != nil {
			t.Fatal(err)
		}
		p := r.Permit(t.Context())
		if p.Token() == 0 || p.Token() != r.Decisions()[0].Token {
			t.Errorf("token %d", p.Token())
		}
		time.Sleep(time.Hour)
		free(t, s.Store, "a", exports, 2)
		free(t, s.Store, "a", short, 1)
		if p.Err() != nil {
			t.Fatal(p.Err())
		}
		s.failNext(slices.Repeat([]error{errors.New("away")}, 1000))
		time.Sleep(time.Second)
		if p.Err() == nil || p.Context().Err() == nil {
			t.Error("the shorter lease has ended")
		}
		s.failNext(nil)
		free(t, s.Store, "a", exports, 2)
		p.Release()
		free(t, s.Store, "a", exports, 0)
	})
}

// Under Unlimited, a permit holds nothing and ends with its context. A denied reservation has none.
func TestPermitUnderUnlimited(t *testing.T) {
	l := core.New(core.NewMemory())
	defer l.Close()
	rate := core.Leaky(1, core.PerHour(1))
	ctx, cancel := context.WithCancel(t.Context())
	mixed, err := l.WaitAll(ctx, []core.Check{{Key: "tenant", Limit: rate}, {Key: "tenant", Limit: core.Unlimited}})
	if err != nil {
		t.Fatal(err)
	}
	p := mixed.Permit(ctx)
	if p == nil || p.Err() != nil || p.Token() != 0 || p.Context().Err() != nil {
		t.Errorf("%+v", p)
	}
	p.Release()
	denied, err := l.Reserve(ctx, core.Check{Key: "tenant", Limit: rate}, core.Check{Key: "tenant", Limit: core.Unlimited})
	if err != nil || denied.Allowed() || denied.Permit(ctx) != nil {
		t.Error("a denied reservation has a permit", err)
	}
	cancel()
	if mixed.Permit(ctx).Context().Err() == nil {
		t.Error("the context of a permit outlives the call's")
	}
	if _, err := l.Acquire(ctx, "tenant", exports); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller who has left: %v", err)
	}
}

// A call waits until all of its checks fit, for as long as each of them takes, and charges none before.
func TestWaitForPlacesAndRates(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		l := core.New(core.NewMemory())
		defer l.Close()
		rate, queue := core.Leaky(1, core.Per(1, 10*time.Second)), core.Shaping(3, core.PerSecond(1))
		one := core.Concurrent(1, 30*time.Second)
		checks := []core.Check{{Key: "a", Limit: rate}, {Key: "a", Limit: one}, {Key: "a", Limit: queue}, {Key: "a", Limit: core.Unlimited}}
		began := time.Now()
		for _, want := range []time.Duration{0, 25 * time.Second, 50 * time.Second} { // the place takes longer than the rate
			r, err := l.WaitAll(t.Context(), checks)
			if err != nil {
				t.Fatal(err)
			}
			if err := r.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			if at := time.Since(began); at != want {
				t.Errorf("granted after %v, want %v", at, want)
			}
			time.AfterFunc(25*time.Second, r.Permit(t.Context()).Release)
		}
		if _, err := l.WaitAll(t.Context(), checks, core.WithLongestWait(24*time.Second)); !limitedBy(t, err).Estimated {
			t.Errorf("%v, want a denial by the places", err)
		}
		time.Sleep(time.Minute)

		// A turn that comes too late is the denial of the limit that shapes, and nothing stays charged.
		for range 3 {
			if _, err := l.Reserve(t.Context(), core.Check{Key: "a", Limit: queue}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		_, err := l.WaitAll(t.Context(), checks, core.WithLongestWait(time.Second))
		if d := limitedBy(t, err); d.Limit != queue || d.Delay != 2*time.Second {
			t.Errorf("%v, want that the turn comes too late", err)
		}
		synctest.Wait()
		for _, check := range checks[:2] {
			if d, err := l.Peek(t.Context(), "a", check.Limit); err != nil || d.Remaining != 1 {
				t.Errorf("%s: %+v, %v", check.Limit, d, err)
			}
		}
	})
}

// A wait for a place heeds what holds its key back, and is woken like the others.
func TestWaitForAPlaceHeedsHoldBack(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		l := core.New(core.NewMemory())
		defer l.Close()
		one := core.Concurrent(1, 30*time.Second).Named("one")
		if err := l.HoldBack(t.Context(), "tenant", 10*time.Second); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		_, err := l.Acquire(t.Context(), "tenant", one, core.WithHoldBack(), core.WithLongestWait(9*time.Second))
		if d := limitedBy(t, err); d.Limit != one || d.RetryAfter != 10*time.Second || time.Since(began) != 0 {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		p, err := l.Acquire(t.Context(), "tenant", one, core.WithHoldBack())
		if err != nil || time.Since(began) != 10*time.Second {
			t.Fatalf("after %v: %v", time.Since(began), err)
		}
		var group sync.WaitGroup
		var at time.Time
		group.Go(func() {
			q, err := l.Acquire(t.Context(), "tenant", one, core.WithHoldBack())
			if err != nil {
				t.Error(err)
				return
			}
			at = time.Now()
			q.Release()
		})
		time.Sleep(time.Minute + time.Microsecond)
		released := time.Now()
		p.Release()
		group.Wait()
		if at != released {
			t.Errorf("the waiter was served %v after the release", at.Sub(released))
		}
	})
}

// Close ends the waits, and what was held is free after the lease.
func TestCloseWhilePlacesAreHeldAndWaitedFor(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		memory := core.NewMemory()
		l, other := core.New(stays{memory}), core.New(stays{memory})
		one := core.Concurrent(1, 30*time.Second)
		p := acquire(t, l, "tenant", one)
		var group sync.WaitGroup
		for range 5 {
			group.Go(func() {
				if _, err := l.Acquire(t.Context(), "tenant", one, core.WithLongestWait(time.Second)); err == nil {
					t.Error("a place that another holds")
				}
			})
		}
		time.Sleep(20 * time.Second)
		_ = l.Close()
		closed := time.Now()
		group.Wait()
		if p.Err() == nil || p.Context().Err() == nil {
			t.Error("a permit outlives its limiter")
		}
		q, err := other.Acquire(t.Context(), "tenant", one)
		if waited := time.Since(closed); err != nil || waited < 20*time.Second || waited > 30*time.Second+100*time.Millisecond {
			t.Errorf("the place was free %v after the last renewal was possible: %v", waited, err)
		}
		p.Release()
		if q.Err() != nil {
			t.Error(q.Err())
		}
		free(t, memory, "tenant", one, 1)
		q.Release()
		_ = other.Close()
	})
}

// A caller may change its checks when it has left, though its call may be in flight.
func TestCallerMayUseItsChecksAgain(t *testing.T) {
	s := &slow{Store: core.NewMemory()}
	l := core.New(s)
	defer l.Close()
	one := core.Concurrent(1, 30*time.Second)
	p := acquire(t, l, "tenant", one)
	for range 20 {
		checks := []core.Check{{Key: "tenant", Limit: one}}
		ctx, cancel := context.WithTimeout(t.Context(), 12*time.Millisecond)
		_, err := l.WaitAll(ctx, checks)
		checks[0] = core.Check{}
		if cancel(); err == nil {
			t.Error("two holders of one place")
		}
	}
	p.Release()
}

// A denial says how long places have lately been held, and never that it takes no time.
func TestDenialsEstimateWhenAPlaceIsFree(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		l := core.New(core.NewMemory())
		defer l.Close()
		one := core.Concurrent(1, 30*time.Second)
		retry := func() time.Duration {
			t.Helper()
			_, err := l.TryAcquire(t.Context(), "tenant", one)
			d := limitedBy(t, err)
			if !d.Estimated {
				t.Errorf("%+v", d)
			}
			return d.RetryAfter
		}
		hold := func(times ...time.Duration) {
			for _, d := range times {
				p := acquire(t, l, "tenant", one)
				time.Sleep(d)
				p.Release()
			}
		}
		p := acquire(t, l, "tenant", one)
		if got := retry(); got != 30*time.Second {
			t.Errorf("nobody knows, and it is %v", got)
		}
		p.Release()
		hold(0, 0)
		p = acquire(t, l, "tenant", one)
		if got := retry(); got != time.Microsecond {
			t.Errorf("places are held for no time, and it is %v", got)
		}
		p.Release()
		hold(time.Second, 2*time.Second, 2*time.Second, 2*time.Second, 2*time.Second, time.Hour)
		p = acquire(t, l, "tenant", one)
		if got := retry(); got != 2*time.Second {
			t.Errorf("most are held for 2s, and it is %v", got)
		}
		p.Release()
		for range 31 {
			hold(3 * time.Second)
		}
		p = acquire(t, l, "tenant", one)
		if got := retry(); got != 3*time.Second {
			t.Errorf("of late they are held for 3s, and it is %v", got)
		}
		p.Release()
		// More limits than are noted change nothing for those that are.
		for i := range 1100 {
			acquire(t, l, "tenant", core.Concurrent(1, time.Second).Named("limit-"+strconv.Itoa(i))).Release()
		}
		p = acquire(t, l, "tenant", one)
		if got := retry(); got != 3*time.Second {
			t.Errorf("after others: %v", got)
		}
		p.Release()
	})
}

// A denial after the death of a holder says when its lease ends.
func TestDenialsEstimateWhenTheLeaseOfADeadHolderEnds(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		memory := core.NewMemory()
		l, dead := core.New(memory), core.New(stays{memory})
		defer l.Close()
		one := core.Concurrent(1, 30*time.Second)
		for range 31 {
			p := acquire(t, l, "tenant", one)
			time.Sleep(20 * time.Millisecond)
			p.Release()
		}
		acquire(t, dead, "tenant", one)
		if err := dead.Close(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(15 * time.Second)
		_, err := l.TryAcquire(t.Context(), "tenant", one)
		if d := limitedBy(t, err); !d.Estimated || d.RetryAfter != 15*time.Second {
			t.Errorf("%v before the lease ends, the estimate is %v", 15*time.Second, d.RetryAfter)
		}
	})
}

// A grant that leaves no place tells so: the next waiter is asked for when the place is given back, and not before.
// So a crowd costs little more than a call for each grant.
func TestCrowdAsksOnceForEachPlace(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		const crowd = 100
		var calls atomic.Int64
		l := core.New(asked{core.NewMemory(), &calls})
		defer l.Close()
		imports := core.Concurrent(2, 30*time.Second).Named("imports")
		var all sync.WaitGroup
		for range crowd {
			all.Go(func() {
				permit, err := l.Acquire(t.Context(), "tenant", imports)
				if err != nil {
					t.Error(err)
					return
				}
				time.Sleep(time.Millisecond)
				permit.Release()
			})
		}
		all.Wait()
		if n := calls.Load(); n > crowd*5/4 {
			t.Errorf("%d calls for %d permits", n, crowd)
		}
	})
}

// asked counts the calls to a store.
type asked struct {
	core.Store

	calls *atomic.Int64
}

func (s asked) Decide(ctx context.Context, calls []core.Call) (int, error) {
	s.calls.Add(1)
	return s.Store.Decide(ctx, calls)
}
