package core

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
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
// other for ever, also if older calls that wait for the same keep them from having a turn.
func TestCallsUnderTwoPlansDoNotWaitForEachOther(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		l := New(&slow{Store: NewMemory()})
		defer l.Close()
		x, y := Concurrent(1, time.Minute).Named("x"), Concurrent(1, time.Minute).Named("y")
		two := Concurrent(2, time.Minute).Named("two")
		small, large := Concurrent(1, time.Minute).Named("plan"), Concurrent(3, time.Minute).Named("plan")
		call := func(a, b Check) *waits {
			a.Key, b.Key = "key", "key"
			return waitAll(t, l, []Check{a, b}, WithLongestWait(10*time.Minute))
		}
		px, py := take(t, l, x), take(t, l, y)
		all := []*waits{call(Check{Limit: x}, Check{Limit: two, Cost: 2}), call(Check{Limit: y}, Check{Limit: large, Cost: 3})}
		all[0].expectWaiting(t)
		plan, others := takeAll(t, l, large), takeAll(t, l, two)
		one := call(Check{Limit: large, Cost: 3}, Check{Limit: two})
		time.Sleep(10 * time.Millisecond)
		other := call(Check{Limit: small}, Check{Limit: two, Cost: 2})
		other.expectWaiting(t)
		for _, p := range plan {
			p.Release()
		}
		other.expectWaiting(t)
		others[0].Release()
		time.Sleep(time.Second)
		others[1].Release()
		px.Release()
		py.Release()
		var group sync.WaitGroup
		for _, w := range append(all, one, other) {
			group.Go(func() {
				if err := <-w.ended; err != nil {
					t.Error(err)
					return
				}
				w.r.Permit(t.Context()).Release()
			})
		}
		group.Wait()
	})
}

// A call keeps no place for longer than ten seconds, also if an older call has come before it meanwhile, so that it has no turn.
func TestPlacesAreKeptForTenSeconds(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		l := New(&slow{Store: NewMemory()})
		defer l.Close()
		x := Concurrent(1, time.Minute).Named("x")
		blocked, one := take(t, l, x), take(t, l, few)
		older := waitAll(t, l, []Check{{Key: "key", Limit: x}, {Key: "key", Limit: many}}) // it stands for x alone
		older.expectWaiting(t)
		takeAll(t, l, many)
		w := waitAll(t, l, both(false))
		w.expectWaiting(t)
		one.Release()
		w.expectWaiting(t)
		expectUsed(t, l, few, 1)
		blocked.Release()
		older.expectWaiting(t) // it has x, and comes before w
		time.Sleep(longestStep)
		expectUsed(t, l, few, 0)
	})
}

// An older call that wants another number of places comes before a call, too.
func TestNoPlaceIsKeptBehindAnOlderCallForMore(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		l := New(&slow{Store: NewMemory()})
		defer l.Close()
		one := take(t, l, few)
		takeAll(t, l, many)
		waitAll(t, l, []Check{{Key: "key", Limit: many, Cost: 3}})
		time.Sleep(10 * time.Millisecond)
		w := waitAll(t, l, both(false))
		w.expectWaiting(t)
		one.Release()
		w.expectWaiting(t)
		expectUsed(t, l, few, 0)
	})
}

// Places that were kept in vain tell nothing of how long work takes.
func TestKeptPlacesAreNoEstimate(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		l := New(&slow{Store: NewMemory()})
		defer l.Close()
		long := Concurrent(1, 10*time.Minute).Named("few")
		for range 5 {
			p := take(t, l, long)
			time.Sleep(5 * time.Minute)
			p.Release()
		}
		takeAll(t, l, many)
		w := waitAll(t, l, []Check{{Key: "key", Limit: long}, {Key: "key", Limit: many}})
		time.Sleep(10 * time.Minute)
		w.cancel()
		if err := <-w.ended; err == nil {
			t.Error("served while all places are held")
		}
		time.Sleep(time.Second)
		take(t, l, long)
		_, err := l.TryAcquire(t.Context(), "key", long)
		if limited, _ := errors.AsType[*LimitedError](err); limited == nil || limited.Decision.RetryAfter < 4*time.Minute {
			t.Errorf("%v, want to come back in five minutes", err)
		}
	})
}

// A call that waits for places alone is denied at once when a rate denies it, also while it takes them one after the other.
func TestRateDeniesACallThatTakesPlaces(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		l := New(&slow{Store: NewMemory()})
		defer l.Close()
		rate := FixedWindow(1, time.Hour)
		time.Sleep(time.Minute)
		take(t, l, few)
		takeAll(t, l, many)
		alone := waitOption(func(w *waiting) { w.placesOnly = true })
		w := waitAll(t, l, append(both(false), Check{Key: "key", Limit: rate}), WithLongestWait(30*time.Second), alone)
		w.expectWaiting(t)
		if d, err := l.Allow(t.Context(), "key", rate); err != nil || !d.Allowed {
			t.Fatal(d, err)
		}
		began := time.Now()
		limited, _ := errors.AsType[*LimitedError](<-w.ended)
		if took := time.Since(began); limited == nil || limited.Decision.Limit != Limit(rate) || took > time.Second {
			t.Errorf("%v after %v, want a denial by the rate", limited, took)
		}
	})
}

// failing is a store that takes its time, and fails for calls about a limit, and for settlements once it is closed.
type failing struct {
	Store

	takes  time.Duration
	lost   atomic.Pointer[Limit]
	closed atomic.Bool
}

func (s *failing) Decide(ctx context.Context, calls []Call) (int, error) {
	time.Sleep(s.takes)
	if lost := s.lost.Load(); lost != nil {
		if i := slices.IndexFunc(calls[0].Checks, func(c Check) bool { return c.Limit == *lost }); i >= 0 {
			return 0, &UnansweredError{Checks: []int{i}, Err: errors.New("down")}
		}
	}
	return s.Store.Decide(ctx, calls)
}

func (s *failing) Settle(ctx context.Context, list []Settlement) error {
	if s.closed.Load() {
		return errors.New("closed")
	}
	return s.Store.Settle(ctx, list)
}

func (s *failing) Close() error {
	s.closed.Store(true)
	return nil
}

// An error names the checks of the call without an answer, whichever of them were asked.
func TestErrorsOfAStepNameTheChecks(t *testing.T) {
	for limit, want := range map[Limit][]int{Limit(few): {0}, Limit(many): {1}, Limit(FixedWindow(10, time.Hour)): {2}} {
		for _, kept := range []bool{false, true} {
			if kept && limit == Limit(few) {
				continue // it is not asked about any more
			}
			bubbletest.Run(t, func(t *testing.T) {
				store := &failing{Store: NewMemory(), takes: roundTrip}
				l := New(store)
				defer l.Close()
				one, _ := take(t, l, few), takeAll(t, l, many)
				w := waitAll(t, l, append(both(false), Check{Key: "key", Limit: FixedWindow(10, time.Hour)}))
				w.expectWaiting(t)
				if kept {
					one.Release()
					w.expectWaiting(t)
				}
				store.lost.Store(&limit)
				time.Sleep(time.Second)
				w.cancel()
				err := <-w.ended
				unanswered, ok := errors.AsType[*UnansweredError](err)
				if asked := kept || limit != Limit(many); asked && (!ok || !slices.Equal(unanswered.Checks, want)) {
					t.Errorf("%s, with a place kept: %v: %v, want the checks %v", limit, kept, err, want)
				}
			})
		}
	}
}

// Close waits until the places that calls keep are given back.
func TestCloseWhilePlacesAreKept(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		memory := NewMemory()
		l, other := New(&failing{Store: memory, takes: 300 * time.Millisecond}), New(memory)
		for range many.Capacity() {
			take(t, other, many)
		}
		one := take(t, other, few)
		w := waitAll(t, l, both(false))
		w.expectWaiting(t)
		one.Release()
		w.expectWaiting(t)
		w.expectWaiting(t)
		expectUsed(t, other, few, 1)
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if err := <-w.ended; err == nil {
			t.Error("a wait has outlived Close")
		}
		expectUsed(t, other, few, 0)
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
