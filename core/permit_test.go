package core_test

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

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/unexported"
)

var exports = core.Concurrent(2, 30*time.Second).Named("exports")

func acquire(t *testing.T, l *core.Limiter, key string, limit core.Places) *core.Permit {
	t.Helper()
	p, err := l.Acquire(t.Context(), key, limit)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPlacesAreTakenAndGivenBack(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		l := core.New(core.NewMemory())
		defer l.Close()
		first, second := acquire(t, l, "tenant", exports), acquire(t, l, "tenant", exports)
		if second.Token() <= first.Token() {
			t.Errorf("tokens %d and then %d", first.Token(), second.Token())
		}
		_, err := l.TryAcquire(t.Context(), "tenant", exports)
		limited, ok := errors.AsType[*core.LimitedError](err)
		if !ok || !limited.Decision.Estimated || limited.Decision.RetryAfter <= 0 {
			t.Fatalf("a third place: %v", err)
		}
		first.Release()
		first.Release() // which gives back nothing of the second one
		acquire(t, l, "tenant", exports).Release()
		third := acquire(t, l, "tenant", exports)
		if _, err := l.TryAcquire(t.Context(), "tenant", exports); err == nil {
			t.Error("a third place at once")
		}
		second.Release()
		third.Release()
	})
}

func TestPlaceIsRenewedWhileItIsHeld(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		l := core.New(core.NewMemory())
		defer l.Close()
		p := acquire(t, l, "tenant", core.Concurrent(1, 30*time.Second))
		time.Sleep(time.Hour)
		if p.Err() != nil || p.Context().Err() != nil {
			t.Fatal(p.Err(), context.Cause(p.Context()))
		}
		if _, err := l.TryAcquire(t.Context(), "tenant", core.Concurrent(1, 30*time.Second)); err == nil {
			t.Fatal("two holders of one place")
		}
		p.Release()
		if p.Context().Err() == nil {
			t.Error("the context of a released place has not ended")
		}
	})
}

func TestFirstWaiterGetsThePlace(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		l := core.New(core.NewMemory())
		defer l.Close()
		one := core.Concurrent(1, 30*time.Second)
		p := acquire(t, l, "tenant", one)
		var order []int
		var group sync.WaitGroup
		for i := range 5 {
			group.Go(func() {
				q, err := l.Acquire(t.Context(), "tenant", one)
				if err != nil {
					t.Error(err)
					return
				}
				order = append(order, i)
				time.Sleep(time.Second)
				q.Release()
			})
			synctest.Wait()
		}
		time.Sleep(time.Minute)
		began := time.Now()
		p.Release()
		group.Wait()
		if elapsed := time.Since(began); elapsed != 5*time.Second {
			t.Errorf("five seconds of work took %v", elapsed)
		}
		for i, got := range order {
			if got != i {
				t.Fatalf("served in the order %v", order)
			}
		}
	})
}

func TestWaitForAPlaceEndsOnTime(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		l := core.New(core.NewMemory())
		defer l.Close()
		one := core.Concurrent(1, 30*time.Second)
		p := acquire(t, l, "tenant", one)
		defer p.Release()
		began := time.Now()
		_, err := l.Acquire(t.Context(), "tenant", one, core.WithLongestWait(3*time.Second))
		if limited, ok := errors.AsType[*core.LimitedError](err); !ok || !limited.Decision.Estimated {
			t.Fatal(err)
		}
		if elapsed := time.Since(began); elapsed != 3*time.Second {
			t.Errorf("denied after %v", elapsed)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := l.Acquire(ctx, "tenant", one); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}

func TestNeverMoreInsideThanPlaces(t *testing.T) {
	l := core.New(core.NewMemory())
	defer l.Close()
	limit := core.Concurrent(7, time.Second)
	var inside, most atomic.Int64
	var group sync.WaitGroup
	for range 200 {
		group.Go(func() {
			p, err := l.Acquire(t.Context(), "tenant", limit)
			if err != nil {
				t.Error(err)
				return
			}
			defer p.Release()
			most.Store(max(most.Load(), inside.Add(1)))
			time.Sleep(time.Millisecond)
			inside.Add(-1)
		})
	}
	group.Wait()
	if most.Load() > 7 {
		t.Errorf("%d inside", most.Load())
	}
}

func TestDenialByARateTakesNoPlace(t *testing.T) {
	l := core.New(core.NewMemory())
	defer l.Close()
	rate, place := core.Leaky(1, core.PerHour(1)), core.Concurrent(1, time.Minute)
	r, err := l.Reserve(t.Context(), core.Check{Key: "a", Limit: rate}, core.Check{Key: "a", Limit: place})
	if err != nil || !r.Allowed() || r.Permit(t.Context()) == nil {
		t.Fatal(err, r.Decisions())
	}
	r.Permit(t.Context()).Release()
	r, err = l.Reserve(t.Context(), core.Check{Key: "a", Limit: rate}, core.Check{Key: "a", Limit: place})
	if err != nil || r.Allowed() {
		t.Fatal(err, r.Decisions())
	}
	if d, err := l.Peek(t.Context(), "a", place); err != nil || d.Remaining != 1 {
		t.Error(d, err)
	}
}

func TestPlacesOfAReservationAreSettledApart(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		l := core.New(core.NewMemory())
		defer l.Close()
		bytes, place := core.FixedWindow(100, time.Hour), core.Concurrent(1, time.Second)
		r, err := l.Reserve(t.Context(), core.Check{Key: "a", Limit: bytes, Cost: 10}, core.Check{Key: "a", Limit: place})
		if err != nil || !r.Allowed() {
			t.Fatal(err, r)
		}
		permit := r.Permit(t.Context())
		places := split(r)
		if again := split(r); places == nil || again != nil {
			t.Fatal("the places were split off", places, again)
		}
		if err := r.Settle(t.Context(), 3, 0); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		left := func(limit core.Limit) int {
			t.Helper()
			d, err := l.Peek(t.Context(), "a", limit)
			if err != nil {
				t.Fatal(err)
			}
			return d.Remaining
		}
		if left(bytes) != 97 || left(place) != 0 || permit.Err() != nil {
			t.Errorf("%d bytes and %d places are left, %v", left(bytes), left(place), permit.Err())
		}
		if err := places.SettleLater(0, 0); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if left(bytes) != 97 || left(place) != 1 || permit.Err() == nil {
			t.Errorf("%d bytes and %d places are left, %v", left(bytes), left(place), permit.Err())
		}
	})
}

// The two parts of a reservation that was split may be settled at the same time: a connection is closed while the handler
// returns. The race detector looks on.
func TestPlacesOfAReservationAreSettledMeanwhile(t *testing.T) {
	l := core.New(core.NewMemory())
	defer l.Close()
	bytes, place := core.FixedWindow(100, time.Hour), core.Concurrent(1, time.Minute)
	r, err := l.Reserve(t.Context(), core.Check{Key: "a", Limit: bytes, Cost: 10}, core.Check{Key: "a", Limit: place})
	if err != nil || !r.Allowed() {
		t.Fatal(err, r)
	}
	places := split(r)
	reserved := slices.Clone(places.Decisions())
	if err := places.SettleLater(0, 0); err != nil {
		t.Fatal(err)
	}
	if err := r.Settle(t.Context(), 3, 0); err != nil {
		t.Fatal(err)
	}
	if left := r.Decisions()[0].Remaining; left != 97 {
		t.Errorf("%d are left, want 97", left)
	}
	if !slices.Equal(places.Decisions(), reserved) {
		t.Errorf("the decisions about the places are %v, want %v", places.Decisions(), reserved)
	}
}

func TestOnlyPlacesAreWaitedFor(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		l := core.New(core.NewMemory())
		defer l.Close()
		rate, place := core.FixedWindow(1, time.Hour), core.Concurrent(1, 30*time.Second)
		call := func(user string) []core.Check {
			return []core.Check{{Key: user, Limit: rate}, {Key: "all", Limit: place}, {Key: user, Limit: rate, Shadow: true}}
		}
		wait := func(user string) (*core.Reservation, time.Duration, error) {
			began := time.Now()
			r, err := l.WaitAll(t.Context(), call(user), placesOnly, core.WithLongestWait(10*time.Second))
			return r, time.Since(began), err
		}
		first, _, err := wait("a")
		if err != nil {
			t.Fatal(err)
		}
		denied := func(user string) {
			t.Helper()
			r, elapsed, err := wait(user)
			if _, ok := errors.AsType[*core.LimitedError](err); !ok || elapsed != 0 || r == nil {
				t.Fatalf("a call that a rate denies: %v after %v", err, elapsed)
			}
			if d := r.Decisions()[0]; d.Allowed || d.Estimated || d.RetryAfter != time.Hour {
				t.Errorf("%+v", d)
			}
		}
		denied("a") // nobody waits
		var group sync.WaitGroup
		group.Go(func() {
			r, elapsed, err := wait("b")
			if err != nil || elapsed != 3*time.Second || unexported.Waited(r) != 3*time.Second {
				t.Errorf("%v after %v", err, elapsed)
				return
			}
			if d := r.Decisions()[2]; !d.Allowed || d.Remaining != 0 {
				t.Errorf("the shadow was charged more than once: %+v", d)
			}
		})
		synctest.Wait()
		denied("a") // b waits
		group.Go(func() {
			r, elapsed, err := wait("c")
			if limited, ok := errors.AsType[*core.LimitedError](err); !ok || elapsed != 10*time.Second || !limited.Decision.Estimated {
				t.Errorf("%v after %v", err, elapsed)
			}
			if d := r.Decisions(); !d[0].Allowed || d[1].Allowed || d[1].Limit != place {
				t.Errorf("%+v", d)
			}
		})
		time.Sleep(3 * time.Second)
		first.Permit(t.Context()).Release()
		group.Wait()
		for user, want := range map[string]int{"a": 0, "b": 0, "c": 1} {
			if d, err := l.Peek(t.Context(), user, rate); err != nil || d.Remaining != want {
				t.Errorf("%s has %d left, want %d: %v", user, d.Remaining, want, err)
			}
		}
	})
}

// Whoever waits for a place alone does not wait for a rate that is used up meanwhile, nor keep those behind from the place.
func TestRateIsUsedUpWhileAPlaceIsWaitedFor(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		l := core.New(core.NewMemory())
		defer l.Close()
		rate, place := core.FixedWindow(1, time.Hour), core.Concurrent(1, 30*time.Second)
		first := acquire(t, l, "all", place)
		began := time.Now()
		wait := func(user string) (*core.Reservation, error) {
			r, err := l.WaitAll(t.Context(), []core.Check{{Key: user, Limit: rate}, {Key: "all", Limit: place}}, placesOnly)
			if elapsed := time.Since(began).Round(time.Second); elapsed != 3*time.Second {
				t.Errorf("%s has waited for %v, want 3s", user, elapsed)
			}
			return r, err
		}
		var group sync.WaitGroup
		group.Go(func() {
			_, err := wait("a")
			if limited, ok := errors.AsType[*core.LimitedError](err); !ok || limited.Decision.Limit != rate || limited.Decision.RetryAfter > time.Hour {
				t.Errorf("%v, want the denial of the rate", err)
			}
		})
		synctest.Wait()
		group.Go(func() {
			r, err := wait("b")
			if err != nil {
				t.Error(err)
				return
			}
			r.Permit(t.Context()).Release()
		})
		synctest.Wait()
		time.Sleep(3 * time.Second)
		if d, err := l.Allow(t.Context(), "a", rate); err != nil || !d.Allowed {
			t.Fatal(d, err)
		}
		first.Release()
		group.Wait()
	})
}

// A place may be given back at any time, so its denial is not repeated from memory.
func TestDenialOfAPlaceIsNotCached(t *testing.T) {
	for _, limit := range []core.Places{core.Concurrent(1, time.Minute), core.Concurrent(1, time.Minute).Named("one")} {
		limiter, store, _, _ := cached()
		permit := acquire(t, limiter, "key", limit)
		for range 3 {
			asked := store.asked
			r, err := limiter.Reserve(t.Context(), core.Check{Key: "key", Limit: limit})
			if err != nil || r.Allowed() || store.asked != asked+1 {
				t.Fatalf("%v: %v, asked %d times", limit, err, store.asked-asked)
			}
		}
		permit.Release()
		acquire(t, limiter, "key", limit).Release()
		limiter.Close()
	}
}

// placesOnly waits for places alone, as middleware does.
var placesOnly = unexported.PlacesOnly.(core.WaitOption)

// split takes the places out of a reservation.
func split(r *core.Reservation) *core.Reservation {
	return unexported.Split(r).(*core.Reservation)
}
