package core

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

const testPause = time.Second

// withBreaker puts a breaker before an airfield, and returns what it reports.
func withBreaker(a *airfield, failures int) (states func() []BreakerState) {
	var mu sync.Mutex
	var seen []BreakerState
	a.breaker = newBreaker(failures, testPause, func(state BreakerState) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, state)
	})
	return func() []BreakerState {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(seen)
	}
}

// fail makes the next flights fail.
func (a *airfield) fail(n int, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range n {
		a.failures[len(a.batches)+i] = err
	}
}

func TestBreakerKeepsQuestionsFromASickServer(t *testing.T) {
	forBothClients(t, func(t *testing.T, a *airfield) {
		states := withBreaker(a, 3)
		a.fail(4, failed(Unreachable, "no connection"))
		for range 3 {
			if err := a.fly1(t.Context()); FailureOf(err) != Unreachable {
				t.Fatalf("error %v, want that of the server", err)
			}
		}
		synctest.Wait()
		for range 10 {
			began := time.Now()
			if err := a.fly1(t.Context()); FailureOf(err) != Suspended || time.Since(began) != 0 {
				t.Errorf("error %v after %v, want %s at once", err, time.Since(began), Suspended)
			}
		}
		wantFlights(t, a, 1, 1, 1)

		time.Sleep(testPause * 5 / 4) // the pause varies by a quarter
		if err := a.fly1(t.Context()); FailureOf(err) != Unreachable {
			t.Errorf("the probe: %v, want the server's error", err)
		}
		synctest.Wait()
		if err := a.fly1(t.Context()); FailureOf(err) != Suspended {
			t.Errorf("after a probe that failed: %v, want %s", err, Suspended)
		}

		time.Sleep(testPause * 5 / 4)
		for range 10 {
			if err := a.fly1(t.Context()); err != nil {
				t.Errorf("after the recovery: %v", err)
			}
			synctest.Wait()
		}
		want := []BreakerState{BreakerOpen, BreakerHalfOpen, BreakerOpen, BreakerHalfOpen, BreakerClosed}
		if got := states(); !slices.Equal(got, want) {
			t.Errorf("reported %v, want %v", got, want)
		}
	})
}

// However many ask at once, one call tries a server.
func TestProbesAreSingle(t *testing.T) {
	forBothClients(t, func(t *testing.T, a *airfield) {
		withBreaker(a, 1)
		a.fail(1, failed(Loading, "loading"))
		_ = a.fly1(t.Context())
		synctest.Wait()
		time.Sleep(testPause * 5 / 4)
		release := a.hold()
		errs := a.askMany(t.Context(), 50)
		if got := len(a.flown()); got != 2 {
			t.Errorf("%d flights, want the one that failed and a probe", got)
		}
		release()
		for _, err := range errs() {
			if FailureOf(err) != Suspended {
				t.Errorf("error %v, want %s", err, Suspended)
			}
		}
	})
}

// What is not the server's fault opens no breaker.
func TestBreakerIgnoresWhatIsNotTheServersFault(t *testing.T) {
	forBothClients(t, func(t *testing.T, a *airfield) {
		states := withBreaker(a, 1)
		a.maxWaiting = 1
		release, flying := a.fill(t.Context())
		ctx, cancel := context.WithCancel(t.Context())
		leaving := a.askMany(ctx, 3) // two of them are too many
		cancel()
		leaving()
		release()
		flying()
		if err := a.fly1(t.Context()); err != nil {
			t.Error(err)
		}
		if got := states(); len(got) > 0 {
			t.Errorf("reported %v", got)
		}
	})
}

// A client that ignores deadlines does not hide that the server is silent.
func TestOverdueFlightsOpenTheBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAirfield(t, false)
		states := withBreaker(a, 2)
		release := a.hold()
		a.askMany(t.Context(), 1)()
		a.askMany(t.Context(), 1)()
		synctest.Wait()
		if got := states(); !slices.Equal(got, []BreakerState{BreakerOpen}) {
			t.Errorf("reported %v, want it open", got)
		}
		release()
		synctest.Wait()
		if got := states(); len(got) != 1 {
			t.Errorf("reported %v: answers that come too late change nothing", got)
		}
	})
}

func TestFailureOf(t *testing.T) {
	plain := errors.New("plain")
	for want, err := range map[Failure]error{
		"":        nil,
		Other:     plain,
		Suspended: errSuspended,
		Closed:    errors.Join(plain, errClosed),
		TimedOut:  &UnansweredError{Err: failed(TimedOut, "late: %w", context.DeadlineExceeded)},
	} {
		if got := FailureOf(err); got != want {
			t.Errorf("%v is %q, want %q", err, got, want)
		}
	}
}
