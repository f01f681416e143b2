package core

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"
)

// While nobody waits for the same, everybody asks at once: a crowd gets the places that are free in one round trip.
func TestPlacesThatAreFreeAreTakenAtOnce(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		l := New(&slow{Store: NewMemory()})
		defer l.Close()
		began := time.Now()
		var group sync.WaitGroup
		for range 100 {
			group.Go(func() {
				p, err := l.Acquire(t.Context(), "key", Concurrent(100, time.Minute))
				if err != nil {
					t.Error(err)
					return
				}
				if took := time.Since(began); took > 2*roundTrip {
					t.Errorf("a place that was free took %v, want a round trip", took)
				}
				p.Release()
			})
		}
		group.Wait()
	})
}

// A waiter whom headroom or a smaller plan denies keeps nobody from a place that is free for them, however long it waits.
func TestNobodyWaitsBesidePlacesThatAreFree(t *testing.T) {
	const lease = time.Minute
	ten := Concurrent(10, lease).Named("plan")
	for name, c := range map[string]struct{ waits, free Check }{
		"headroom":     {Check{Key: "key", Limit: ten, Headroom: 9}, Check{Key: "key", Limit: ten}},
		"a small plan": {Check{Key: "key", Limit: Concurrent(1, lease).Named("plan")}, Check{Key: "key", Limit: ten}},
	} {
		t.Run(name, func(t *testing.T) {
			bubbletest.Run(t, func(t *testing.T) {
				l := New(&slow{Store: NewMemory()})
				defer l.Close()
				first, err := l.Acquire(t.Context(), "key", ten)
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() {
					_, err := l.WaitAll(ctx, []Check{c.waits})
					ended <- err
				}()
				for range 9 {
					time.Sleep(time.Second)
					for _, options := range [][]WaitOption{nil, {WithLongestWait(0)}} {
						began := time.Now()
						r, err := l.WaitAll(t.Context(), []Check{c.free}, options...)
						if took := time.Since(began); err != nil || took > 2*roundTrip {
							t.Fatalf("beside free places: %v after %v", err, took)
						}
						r.Permit(t.Context()).Release()
					}
				}
				if len(ended) > 0 {
					t.Fatalf("the other one has not waited: %v", <-ended)
				}
				first.Release()
				if err := <-ended; err != nil {
					t.Error(err)
				}
				cancel()
			})
		})
	}
}

// A waiter under a small plan does not answer for one under a large plan of the same name.
func TestWaitUnderAPlanIsNotAnsweredFromAnother(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		l := New(&slow{Store: NewMemory()})
		defer l.Close()
		small, large := Leaky(1, PerHour(1)).Named("plan"), Leaky(100, PerHour(100)).Named("plan")
		if err := l.Wait(t.Context(), "key", small); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = l.Wait(ctx, "key", small) }()
		time.Sleep(time.Second / 2)
		began := time.Now()
		if err := l.Wait(t.Context(), "key", large, WithLongestWait(time.Second)); err != nil || time.Since(began) > 2*roundTrip {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		cancel()
	})
}

// A call waits for the limit that has denied it, and for no other, in whatever order its checks are: where one tenant is at
// its own limit, the others do not notice.
func TestATenantAtItsLimitHoldsUpNobodyElse(t *testing.T) {
	for _, order := range []string{"all first", "tenant first"} {
		t.Run(order, func(t *testing.T) {
			bubbletest.Run(t, func(t *testing.T) {
				l := New(&slow{Store: NewMemory()})
				defer l.Close()
				all, own := Concurrent(100, time.Minute), Concurrent(2, time.Minute)
				call := func(tenant string) []Check {
					checks := []Check{{Key: "all", Limit: all}, {Key: tenant, Limit: own}}
					if order == "tenant first" {
						checks[0], checks[1] = checks[1], checks[0]
					}
					return checks
				}
				var group sync.WaitGroup
				for range 12 {
					group.Go(func() {
						r, err := l.WaitAll(t.Context(), call("busy"), waitOption(func(w *waiting) { w.placesOnly = true }))
						if err != nil {
							t.Error(err)
							return
						}
						time.Sleep(10 * time.Second)
						r.Permit(t.Context()).Release()
					})
				}
				time.Sleep(time.Second)
				for i := range 60 {
					group.Go(func() {
						began := time.Now()
						r, err := l.WaitAll(t.Context(), call(strconv.Itoa(i)), waitOption(func(w *waiting) { w.placesOnly = true }), WithLongestWait(3*time.Second))
						if took := time.Since(began); err != nil || took > 2*roundTrip {
							t.Errorf("tenant %d: %v after %v", i, err, took)
							return
						}
						r.Permit(t.Context()).Release()
					})
				}
				group.Wait()
				if n := l.lines.Waiting(); n != 0 {
					t.Errorf("somebody waits for %d keys", n)
				}
			})
		})
	}
}

// A call for several places is overtaken by calls for one for its patience at most, and then served when as many are free.
func TestManyPlacesAreGotAmongCallsForOne(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		const hold = 100 * time.Millisecond
		l := New(&slow{Store: NewMemory()})
		defer l.Close()
		limit := Concurrent(5, time.Minute)
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		var served atomic.Int64
		for i := range 8 { // whose holds overlap
			group.Go(func() {
				time.Sleep(time.Duration(i) * hold / 8)
				for ctx.Err() == nil {
					p, err := l.Acquire(ctx, "key", limit)
					if err != nil {
						return
					}
					time.Sleep(hold)
					p.Release()
					served.Add(1)
				}
			})
		}
		time.Sleep(time.Second)
		before := served.Load()
		for range 3 {
			began := time.Now()
			r, err := l.WaitAll(t.Context(), []Check{{Key: "key", Limit: limit, Cost: 5}})
			if took := time.Since(began); err != nil || took > 500*time.Millisecond+2*hold {
				t.Errorf("%v after %v, want its patience and a hold", err, took)
			}
			r.Permit(t.Context()).Release()
		}
		if n := served.Load() - before; n < 30 {
			t.Errorf("%d calls for one were served meanwhile", n)
		}
		cancel()
		group.Wait()
	})
}

// Close ends every wait, however far away its end is.
func TestCloseEndsEveryWait(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		l := New(NewMemory())
		rate, place, shaped := Leaky(1, PerHour(1)), Concurrent(1, time.Minute), Shaping(10, PerHour(1))
		for _, limit := range []Quota{rate, shaped} {
			if _, err := l.Allow(t.Context(), "key", limit); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := l.Acquire(t.Context(), "key", place); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 4)
		go func() { ended <- l.Wait(t.Context(), "key", rate) }()
		go func() { ended <- l.Wait(t.Context(), "key", shaped) }()
		go func() { _, err := l.Acquire(t.Context(), "key", place); ended <- err }()
		go func() { _, err := l.WaitAll(t.Context(), []Check{{Key: "key", Limit: rate}}); ended <- err }()
		time.Sleep(time.Second)
		if len(ended) > 0 {
			t.Fatal(<-ended)
		}
		began := time.Now()
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		for range 4 {
			if err := <-ended; FailureOf(err) != Closed {
				t.Errorf("%v, want that the limiter is closed", err)
			}
		}
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("the waits have ended %v after Close", took)
		}
	})
}

// When the last waiter has left, nobody is denied by what it was told.
func TestNothingIsKeptOfAWaitThatWasGivenUp(t *testing.T) {
	limit := Leaky(3, PerHour(1))
	for range 200 {
		l := New(NewMemory())
		if _, err := l.AllowN(t.Context(), "key", limit, 3); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- l.Wait(ctx, "key", limit) }()
		for l.waiters.Len() == 0 {
			time.Sleep(time.Microsecond)
		}
		time.Sleep(50 * time.Microsecond)
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if err := l.Reset(t.Context(), "key", limit); err != nil {
			t.Fatal(err)
		}
		if err := l.Wait(t.Context(), "key", limit, WithLongestWait(time.Second)); err != nil {
			t.Fatalf("with 3 of 3 free: %v", err)
		}
		l.Close()
	}
}

// What a Reset frees is granted at once to those who wait in this process.
func TestResetServesThoseWhoWait(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		l := New(NewMemory())
		defer l.Close()
		rate, place := Leaky(1, PerHour(1)), Concurrent(1, time.Minute)
		for _, key := range []string{"key", "other"} {
			if _, err := l.Allow(t.Context(), key, rate); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := l.Acquire(t.Context(), "key", place); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 3)
		go func() { ended <- l.Wait(t.Context(), "key", rate) }()
		go func() { _, err := l.Acquire(t.Context(), "key", place); ended <- err }()
		go func() { _, err := l.WaitAll(t.Context(), []Check{{Key: "other", Limit: rate}}); ended <- err }()
		time.Sleep(time.Second)
		began := time.Now()
		if err := errors.Join(l.Reset(t.Context(), "key", rate, place), l.Reset(t.Context(), "other", rate)); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if err := <-ended; err != nil || time.Since(began) != 0 {
				t.Errorf("%v after %v", err, time.Since(began))
			}
		}
	})
}

// Calls that wait for a rate use all of it, however little of it recovers in a round trip or how much.
func TestCallsThatWaitForARateUseIt(t *testing.T) {
	for _, perRoundTrip := range []int{1, 20} {
		bubbletest.Run(t, func(t *testing.T) {
			l := New(&slow{Store: NewMemory()})
			defer l.Close()
			limit := TokenBucket(100, Per(perRoundTrip, roundTrip))
			ctx, cancel := context.WithTimeout(t.Context(), 200*roundTrip)
			defer cancel()
			var served atomic.Int64
			var group sync.WaitGroup
			for range 300 {
				group.Go(func() {
					for ctx.Err() == nil {
						if _, err := l.WaitAll(ctx, []Check{{Key: "key", Limit: limit}, {Key: "key", Limit: Leaky(1000, Per(100, roundTrip))}}); err == nil {
							served.Add(1)
						}
					}
				})
			}
			group.Wait()
			if want := int64(100 + 200*perRoundTrip); served.Load() < want*9/10 {
				t.Errorf("%d were served, want nearly %d", served.Load(), want)
			}
		})
	}
}

// A call that stands behind another one until its wait is over was never answered: what it is told of the limit is a guess, and says so.
func TestCallsThatWereNeverAskedAreToldAGuess(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		l := New(NewMemory())
		limit := Leaky(1, PerHour(1))
		if _, err := l.Allow(t.Context(), "a", limit); err != nil {
			t.Fatal(err)
		}
		ctx, leave := context.WithCancel(t.Context())
		var first sync.WaitGroup
		first.Go(func() { _, _ = l.WaitAll(ctx, []Check{{Key: "a", Limit: limit}}) })
		synctest.Wait()
		_, err := l.WaitAll(t.Context(), []Check{{Key: "a", Limit: limit}}, WithLongestWait(time.Second))
		if late, is := errors.AsType[*LimitedError](err); !is || !late.Decision.Estimated {
			t.Errorf("%v", err)
		}
		leave()
		first.Wait()
		_ = l.Close()
	})
}
