package core

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"
)

// few and many are limits of places.
var (
	few  = Concurrent(1, time.Minute).Named("few")
	many = Concurrent(3, time.Minute).Named("many")
)

// both returns a call for a place of few and one of many, the larger limit first or last.
func both(largerFirst bool) []Check {
	checks := []Check{{Key: "key", Limit: few}, {Key: "key", Limit: many}}
	if largerFirst {
		slices.Reverse(checks)
	}
	return checks
}

// waits is a call that waits.
type waits struct {
	cancel context.CancelFunc
	ended  chan error
	r      *Reservation
}

// waitAll has a call wait.
func waitAll(t *testing.T, l *Limiter, checks []Check, options ...WaitOption) *waits {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w := &waits{cancel: cancel, ended: make(chan error, 1)}
	go func() {
		var err error
		w.r, err = l.WaitAll(ctx, checks, options...)
		w.ended <- err
	}()
	return w
}

// expectWaiting waits for a second, and wants the call to wait still.
func (w *waits) expectWaiting(t *testing.T) {
	t.Helper()
	time.Sleep(time.Second)
	if len(w.ended) > 0 {
		t.Fatalf("the wait has ended: %v", <-w.ended)
	}
}

// take takes a place at once.
func take(t *testing.T, l *Limiter, limit Places) *Permit {
	t.Helper()
	p, err := l.TryAcquire(t.Context(), "key", limit)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { runtime.KeepAlive(p) }) // else it counts as forgotten
	return p
}

// takeAll takes all places of a limit.
func takeAll(t *testing.T, l *Limiter, limit Places) (all []*Permit) {
	t.Helper()
	for range limit.Capacity() {
		all = append(all, take(t, l, limit))
	}
	return all
}

// Callers of each of two limits never leave both free at once for long. A call for places of both is served all the same.
func TestCallForTwoBusyLimitsIsServed(t *testing.T) {
	for _, largerFirst := range []bool{false, true} {
		t.Run(fmt.Sprint("larger first: ", largerFirst), func(t *testing.T) {
			bubbletest.Run(t, func(t *testing.T) {
				l := New(&slow{Store: NewMemory()})
				defer l.Close()
				ctx, cancel := context.WithCancel(t.Context())
				const longest = 300 * time.Millisecond
				var group sync.WaitGroup
				for i := range 12 {
					random := rand.New(rand.NewPCG(1, uint64(i)))
					limit := []Places{few, many}[i%2]
					group.Go(func() {
						for {
							p, err := l.Acquire(ctx, "key", limit)
							if err != nil {
								return
							}
							time.Sleep(longest/3 + time.Duration(random.Int64N(int64(longest*2/3))))
							p.Release()
						}
					})
				}
				for range 50 {
					time.Sleep(longest)
					began := time.Now()
					r, err := l.WaitAll(ctx, both(largerFirst))
					// Five older calls for the smaller limit at most, its own patience, and one turn of the larger one.
					if took := time.Since(began); err != nil || took > 8*longest {
						t.Fatalf("%v after %v, want it to be served", err, took)
					}
					r.Permit(ctx).Release()
				}
				cancel()
				group.Wait()
			})
		})
	}
}

// A call keeps the place of the smaller limit while it waits for the larger one, and leaves the larger one to others while it waits
// for the smaller one.
func TestSmallerLimitIsKeptForTheLargerOne(t *testing.T) {
	for _, largerFirst := range []bool{false, true} {
		bubbletest.Run(t, func(t *testing.T) {
			l := New(&slow{Store: NewMemory()})
			defer l.Close()
			one, all := take(t, l, few), takeAll(t, l, many)
			w := waitAll(t, l, both(largerFirst))
			w.expectWaiting(t)

			all[0].Release()
			w.expectWaiting(t)
			all[0] = take(t, l, many) // it is free for others

			one.Release()
			w.expectWaiting(t)
			if _, err := l.TryAcquire(t.Context(), "key", few); err == nil {
				t.Error("the place of the smaller limit was not kept")
			}
			all[1].Release()
			if err := <-w.ended; err != nil {
				t.Fatal(err)
			}
			expectUsed(t, l, few, 1)
			expectUsed(t, l, many, 3)

			// The reservation has both places, in the order of its checks.
			p := w.r.Permit(t.Context())
			if want := w.r.Decisions()[0].Token; p.Token() != want || want == 0 || !w.r.Allowed() {
				t.Errorf("the token is %d, want %d: %+v", p.Token(), want, w.r.Decisions())
			}
			time.Sleep(10 * time.Minute) // the leases are renewed
			expectUsed(t, l, few, 1)
			if err := p.Err(); err != nil {
				t.Error(err)
			}
			p.Release()
			expectUsed(t, l, few, 0)
			expectUsed(t, l, many, 2)
		})
	}
}

// expectUsed wants so many places of a limit to be in use.
func expectUsed(t *testing.T, l *Limiter, limit Places, want int) {
	t.Helper()
	if got := used(t, l, limit); got != want {
		t.Errorf("%d places of %s are in use, want %d", got, limit, want)
	}
}

// A call gives back the place that it keeps when it gives up, when a rate denies it, and when an older call of its process waits for
// the same.
func TestPlacesThatACallKeepsAreGivenBack(t *testing.T) {
	tests := map[string]func(t *testing.T, w *waits){
		"it gives up": func(t *testing.T, w *waits) {
			t.Helper()
			w.cancel()
			if err := <-w.ended; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		},
		"its time is over": func(t *testing.T, w *waits) {
			t.Helper()
			time.Sleep(time.Minute)
			if limited, ok := errors.AsType[*LimitedError](<-w.ended); !ok || limited.Decision.Limit != Limit(many) || w.r.Allowed() {
				t.Errorf("%v: %+v", limited, w.r)
			}
		},
	}
	for name, ends := range tests {
		t.Run(name, func(t *testing.T) {
			bubbletest.Run(t, func(t *testing.T) {
				store := NewMemory()
				l, other := New(&slow{Store: store}), New(store)
				defer l.Close()
				for range many.Capacity() {
					take(t, other, many)
				}
				one := take(t, other, few)
				w := waitAll(t, l, both(false), WithLongestWait(30*time.Second))
				w.expectWaiting(t)
				one.Release()
				w.expectWaiting(t)
				expectUsed(t, other, few, 1)
				ends(t, w)
				time.Sleep(time.Second)
				expectUsed(t, other, few, 0)
			})
		})
	}
}

// A call keeps no place of the smaller limit while an older call of its process waits for the larger one.
func TestNoPlaceIsKeptBehindAnOlderCall(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		l := New(&slow{Store: NewMemory()})
		defer l.Close()
		one, all := take(t, l, few), takeAll(t, l, many)
		older := waitAll(t, l, []Check{{Key: "key", Limit: many}})
		time.Sleep(roundTrip / 10) // both are asked at the same time
		w := waitAll(t, l, both(false))
		w.expectWaiting(t)
		one.Release()
		w.expectWaiting(t)
		expectUsed(t, l, few, 0)
		all[0].Release()
		if err := <-older.ended; err != nil {
			t.Fatal(err)
		}
		w.expectWaiting(t)
		all[1].Release()
		if err := <-w.ended; err != nil {
			t.Fatal(err)
		}
	})
}

// A call that has lost the place that it keeps begins anew.
func TestLostPlaceOfACallThatWaits(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		store := NewMemory()
		l, other := New(&slow{Store: store}), New(store)
		defer l.Close()
		short := Concurrent(1, 3*time.Second).Named("short")
		one, all := take(t, other, short), takeAll(t, other, many)
		w := waitAll(t, l, []Check{{Key: "key", Limit: short}, {Key: "key", Limit: many}})
		w.expectWaiting(t)
		one.Release()
		w.expectWaiting(t)
		expectUsed(t, other, short, 1)
		if err := other.Reset(t.Context(), "key", short); err != nil {
			t.Fatal(err)
		}
		one = take(t, other, short)
		time.Sleep(2 * time.Second) // until the lease would be renewed
		all[0].Release()
		w.expectWaiting(t)
		one.Release()
		if err := <-w.ended; err != nil {
			t.Fatal(err)
		}
		expectUsed(t, other, short, 1)
	})
}

// A rate that has denied a call recovers by itself: the call keeps no places for so long.
func TestNoPlaceIsKeptWhileARateDenies(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		l := New(&slow{Store: NewMemory()})
		defer l.Close()
		rate := FixedWindow(1, time.Hour)
		time.Sleep(30 * time.Minute) // into the window
		one, all := take(t, l, few), takeAll(t, l, many)
		w := waitAll(t, l, append(both(true), Check{Key: "key", Limit: rate}))
		w.expectWaiting(t)
		one.Release()
		w.expectWaiting(t)
		expectUsed(t, l, few, 1)
		if d, err := l.Allow(t.Context(), "key", rate); err != nil || !d.Allowed {
			t.Fatal("nothing of the rate was used while the call waited", d, err)
		}
		all[0].Release() // now the rate alone denies it
		w.expectWaiting(t)
		expectUsed(t, l, few, 0)
		expectUsed(t, l, many, 2)
		began := time.Now()
		if err := <-w.ended; err != nil || time.Since(began) < 20*time.Minute {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		expectUsed(t, l, few, 1)
	})
}

// Calls that see different numbers of places, under two plans of one name, take them in different orders. They do not wait for each
// other for ever.
func TestCallsUnderTwoPlansDoNotWaitForEachOther(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		l := New(&slow{Store: NewMemory()})
		defer l.Close()
		two := Concurrent(2, time.Minute).Named("two")
		small, large := Concurrent(1, time.Minute).Named("plan"), Concurrent(3, time.Minute).Named("plan")
		plan, others := takeAll(t, l, large), takeAll(t, l, two)
		one := waitAll(t, l, []Check{{Key: "key", Limit: large, Cost: 3}, {Key: "key", Limit: two}}, WithLongestWait(time.Minute))
		time.Sleep(10 * time.Millisecond)
		other := waitAll(t, l, []Check{{Key: "key", Limit: small}, {Key: "key", Limit: two, Cost: 2}}, WithLongestWait(time.Minute))
		other.expectWaiting(t)
		for _, p := range plan {
			p.Release()
		}
		other.expectWaiting(t)
		expectUsed(t, l, large, 1) // the other one has it
		others[0].Release()
		one.expectWaiting(t)
		others[1].Release()
		other.expectWaiting(t)
		expectUsed(t, l, two, 1) // the first one has it: each waits for the other
		if err := <-one.ended; err != nil {
			t.Fatal(err)
		}
		one.r.Permit(t.Context()).Release()
		if err := <-other.ended; err != nil {
			t.Fatal(err)
		}
	})
}

// Limits are taken from the one with the fewest places to the one with the most, in whichever order they stand. Checks of one state
// are taken together; shadow checks, alternatives and rates are no steps.
func TestStepsOfACall(t *testing.T) {
	a, b, c := Concurrent(5, time.Minute), Concurrent(5, time.Minute).Named("b"), Concurrent(2, time.Minute).Named("c")
	rate := GCRA(1, PerSecond(1))
	tests := map[string]struct {
		checks []Check
		want   string
	}{
		"one limit":         {[]Check{{Key: "x", Limit: a}, {Key: "x", Limit: rate}}, "[]"},
		"the larger first":  {[]Check{{Key: "x", Limit: a}, {Key: "x", Limit: c}}, "[[1]]"},
		"the larger last":   {[]Check{{Key: "x", Limit: c}, {Key: "x", Limit: a}}, "[[0]]"},
		"equal capacities":  {[]Check{{Key: "y", Limit: a}, {Key: "x", Limit: a}}, "[[1]]"},
		"equal keys":        {[]Check{{Key: "x", Limit: b}, {Key: "x", Limit: a}}, "[[1]]"},
		"one state":         {[]Check{{Key: "x", Limit: a}, {Key: "x", Limit: a, Cost: 2}}, "[]"},
		"one state of two":  {[]Check{{Key: "x", Limit: c}, {Key: "y", Limit: a}, {Key: "x", Limit: c}}, "[[0 2]]"},
		"a shadow":          {[]Check{{Key: "x", Limit: c, Shadow: true}, {Key: "x", Limit: a}, {Key: "x", Limit: b}}, "[[1]]"},
		"alternatives":      {[]Check{{Key: "x", Limit: c}, {Key: "x", Limit: b, Or: true}, {Key: "x", Limit: a}}, "[]"},
		"three limits":      {[]Check{{Key: "x", Limit: b}, {Key: "x", Limit: c}, {Key: "x", Limit: rate}, {Key: "w", Limit: a}}, "[[1] [3]]"},
		"only asked about":  {[]Check{{Key: "x", Limit: c, Mode: Look}, {Key: "x", Limit: a}}, "[]"},
		"without any limit": {[]Check{{Key: "x", Limit: Unlimited}, {Key: "x", Limit: a}, {Key: "x", Limit: c}}, "[[2]]"},
	}
	for name, test := range tests {
		if got := fmt.Sprint(stepsOf(test.checks)); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}
