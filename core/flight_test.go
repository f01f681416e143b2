package core

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
)

const testBudget = 100 * time.Millisecond

// airfield is a server that answers a flight when it is told to.
type airfield struct {
	*flights

	mu       sync.Mutex
	batches  []int         // the size of each flight, in order
	wait     chan struct{} // holds flights up while it is open
	failures map[int]error // of flights, by their place
}

// newAirfield returns flights that have landed once, so that they are healthy.
func newAirfield(t *testing.T, heeded bool) *airfield {
	t.Helper()
	a := &airfield{failures: map[int]error{}}
	a.flights = &flights{
		fly: a.land, budget: testBudget, most: 2, maxWaiting: 1000, heeded: heeded, ended: make(chan struct{}),
	}
	t.Cleanup(a.close)
	if err := a.fly1(t.Context()); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	a.batches = nil
	return a
}

func (a *airfield) land(ctx context.Context, batch []*request, words []any) ([]any, error) {
	a.mu.Lock()
	place := len(a.batches)
	a.batches = append(a.batches, len(batch))
	wait, err := a.wait, a.failures[place]
	a.mu.Unlock()
	if wait != nil {
		if a.heeded {
			select {
			case <-wait:
			case <-ctx.Done():
				err = ctx.Err()
			}
		} else {
			<-wait
		}
	}
	for _, r := range batch {
		r.err = err
		r.answered <- struct{}{}
	}
	return words, err
}

// fly1 asks a question of one check.
func (a *airfield) fly1(ctx context.Context) error {
	r := a.newRequest()
	r.weight = 1
	if err := a.ask(ctx, r); err != nil {
		return err
	}
	defer a.free(r)
	return r.err
}

// hold keeps flights in the air until release is called.
func (a *airfield) hold() (release func()) {
	wait := make(chan struct{})
	a.mu.Lock()
	defer a.mu.Unlock()
	a.wait = wait
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.wait = nil
		close(wait)
	}
}

func (a *airfield) flown() []int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]int(nil), a.batches...)
}

// askMany asks n questions at once, and returns what collects their errors.
func (a *airfield) askMany(ctx context.Context, n int) (errs func() []error) {
	answers := make(chan error, n)
	for range n {
		go func() { answers <- a.fly1(ctx) }()
	}
	synctest.Wait()
	return func() []error {
		all := make([]error, 0, n)
		for range n {
			if err := <-answers; err != nil {
				all = append(all, err)
			}
		}
		return all
	}
}

// fill holds two flights in the air, so that whoever asks next waits.
func (a *airfield) fill(ctx context.Context) (release func(), errs func() []error) {
	release = a.hold()
	first, second := a.askMany(ctx, 1), a.askMany(ctx, 1)
	return release, func() []error { return append(first(), second()...) }
}

func wantFlights(t *testing.T, a *airfield, want ...int) {
	t.Helper()
	got := a.flown()
	if len(got) != len(want) {
		t.Fatalf("flights of %v questions, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("flights of %v questions, want %v", got, want)
		}
	}
}

func forBothClients(t *testing.T, test func(t *testing.T, a *airfield)) {
	for name, heeded := range map[string]bool{"client heeds deadlines": true, "client ignores deadlines": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, newAirfield(t, heeded)) })
		})
	}
}

func TestLoneQuestionLeavesAtOnce(t *testing.T) {
	forBothClients(t, func(t *testing.T, a *airfield) {
		for range 3 {
			began := time.Now()
			if err := a.fly1(t.Context()); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took != 0 {
				t.Errorf("waited for %v", took)
			}
		}
		wantFlights(t, a, 1, 1, 1)
	})
}

func TestQuestionsThatWaitLeaveTogether(t *testing.T) {
	forBothClients(t, func(t *testing.T, a *airfield) {
		release, flying := a.fill(t.Context())
		others := a.askMany(t.Context(), 7)
		wantFlights(t, a, 1, 1) // no more than two in the air
		release()
		if failed := append(flying(), others()...); len(failed) > 0 {
			t.Error(failed)
		}
		wantFlights(t, a, 1, 1, 7)
	})
}

func TestFlightIsNeverTooFull(t *testing.T) {
	forBothClients(t, func(t *testing.T, a *airfield) {
		release := a.hold()
		errs := a.askMany(t.Context(), 2+2*fullFlight+5)
		release()
		if failed := errs(); len(failed) > 0 {
			t.Error(failed)
		}
		total := 0
		for _, n := range a.flown() {
			total += n
			if n > fullFlight {
				t.Errorf("%d questions in a flight, want at most %d", n, fullFlight)
			}
		}
		if total != 2+2*fullFlight+5 {
			t.Errorf("%d questions have flown", total)
		}
	})
}

// A question that is larger than a full flight flies alone.
func TestLargeQuestionFlies(t *testing.T) {
	forBothClients(t, func(t *testing.T, a *airfield) {
		release, flying := a.fill(t.Context())
		small := a.askMany(t.Context(), 1)
		large := a.newRequest()
		large.weight = 10 * fullFlight
		answer := make(chan error, 1)
		go func() { answer <- a.ask(t.Context(), large) }()
		synctest.Wait()
		release()
		if failed := append(flying(), small()...); len(failed) > 0 || <-answer != nil {
			t.Error(failed)
		}
		wantFlights(t, a, 1, 1, 1, 1)
	})
}

// A caller who leaves while waiting is not charged, and nobody else notices.
func TestCallerWhoLeavesBeforeTheFlight(t *testing.T) {
	forBothClients(t, func(t *testing.T, a *airfield) {
		release, flying := a.fill(t.Context())
		ctx, cancel := context.WithCancelCause(t.Context())
		leaving, staying := a.askMany(ctx, 3), a.askMany(t.Context(), 2)
		cause := errors.New("client gone")
		cancel(cause)
		failed := leaving() // at once: the flights are still in the air
		if len(failed) != 3 || !errors.Is(failed[0], cause) {
			t.Errorf("%v, want the cause of the cancellation three times", failed)
		}
		release()
		if failed := append(flying(), staying()...); len(failed) > 0 {
			t.Error(failed)
		}
		wantFlights(t, a, 1, 1, 2)
	})
}

// A caller who leaves during a flight that others share leaves at once, too.
func TestCallerWhoLeavesDuringTheFlight(t *testing.T) {
	forBothClients(t, func(t *testing.T, a *airfield) {
		_, flying := a.fill(t.Context())
		ctx, cancel := context.WithCancel(t.Context())
		leaving, staying := a.askMany(ctx, 1), a.askMany(t.Context(), 1)
		again := make(chan struct{})
		a.mu.Lock()
		wait := a.wait
		a.wait = again
		a.mu.Unlock()
		close(wait) // the first two land, and the others take off
		synctest.Wait()
		wantFlights(t, a, 1, 1, 2)
		cancel()
		if failed := leaving(); len(failed) != 1 || !errors.Is(failed[0], context.Canceled) {
			t.Errorf("%v, want context.Canceled", failed)
		}
		close(again)
		if failed := append(flying(), staying()...); len(failed) > 0 {
			t.Error(failed)
		}
	})
}

// A caller whose own deadline is before the budget's is not made to carry a flight
// that would keep it.
func TestCallerWithLittleTime(t *testing.T) {
	forBothClients(t, func(t *testing.T, a *airfield) {
		release := a.hold()
		ctx, cancel := context.WithTimeout(t.Context(), testBudget/10)
		defer cancel()
		began := time.Now()
		if err := a.fly1(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want the deadline's", err)
		}
		if took := time.Since(began); took != testBudget/10 {
			t.Errorf("left after %v, want %v", took, testBudget/10)
		}
		release()
	})
}

func TestNobodyWaitsLongerThanTheBudget(t *testing.T) {
	forBothClients(t, func(t *testing.T, a *airfield) {
		release := a.hold()
		began := time.Now()
		failed := a.askMany(t.Context(), 10)()
		if took := time.Since(began); took > testBudget {
			t.Errorf("waited for %v with a budget of %v", took, testBudget)
		}
		if len(failed) != 10 {
			t.Errorf("%d failed, want all 10", len(failed))
		}
		for _, err := range failed {
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("error %v, want the deadline's", err)
			}
		}
		release()
	})
}

// After a failure nobody carries a flight, so that everybody can leave at once.
func TestCallersCanLeaveWhileTheServerIsSick(t *testing.T) {
	forBothClients(t, func(t *testing.T, a *airfield) {
		sick := errors.New("sick")
		a.failures[0] = sick
		if err := a.fly1(t.Context()); !errors.Is(err, sick) {
			t.Fatal(err)
		}
		release := a.hold()
		ctx, cancel := context.WithCancel(t.Context())
		errs := a.askMany(ctx, 1)
		cancel()
		began := time.Now()
		if failed := errs(); len(failed) != 1 || time.Since(began) != 0 {
			t.Errorf("%v after %v, want an error at once", failed, time.Since(began))
		}
		release()
	})
}

func TestTooManyWaiting(t *testing.T) {
	forBothClients(t, func(t *testing.T, a *airfield) {
		a.maxWaiting = 5
		release, flying := a.fill(t.Context())
		ctx, cancel := context.WithCancel(t.Context())
		leaving := a.askMany(ctx, 5)
		if err := a.fly1(t.Context()); err == nil || !strings.Contains(err.Error(), "5 questions wait for redis already") {
			t.Errorf("error %v, want one that tells the bound", err)
		}
		cancel()
		leaving()
		staying := a.askMany(t.Context(), 1) // in the place of one who has left
		release()
		if failed := append(flying(), staying()...); len(failed) > 0 {
			t.Error(failed)
		}
	})
}

func TestCloseDrains(t *testing.T) {
	forBothClients(t, func(t *testing.T, a *airfield) {
		release := a.hold()
		errs := a.askMany(t.Context(), 10)
		closed := make(chan struct{})
		go func() { a.close(); close(closed) }()
		synctest.Wait()
		if err := a.fly1(t.Context()); !errors.Is(err, errClosed) {
			t.Errorf("a question after Close: %v", err)
		}
		select {
		case <-closed:
			t.Error("Close has not waited for the answers")
		default:
		}
		release()
		if failed := errs(); len(failed) > 0 {
			t.Error(failed)
		}
		<-closed
		a.close() // again
	})
}

func TestCloseDoesNotWaitLongerThanTheBudget(t *testing.T) {
	forBothClients(t, func(t *testing.T, a *airfield) {
		release := a.hold()
		errs := a.askMany(t.Context(), 3)
		began := time.Now()
		a.close()
		if took := time.Since(began); took > testBudget {
			t.Errorf("Close took %v", took)
		}
		release()
		errs()
	})
}

// Goroutines end by themselves when nobody asks, even without Close: else
// synctest would report a deadlock.
func TestPilotsEnd(t *testing.T) {
	forBothClients(t, func(t *testing.T, a *airfield) {
		release := a.hold()
		errs := a.askMany(t.Context(), 10)
		release()
		errs()
		time.Sleep(2 * patience)
		synctest.Wait()
		a.flights.mu.Lock()
		defer a.flights.mu.Unlock()
		if a.pilots != 0 || len(a.resting) != 0 || a.inAir != 0 {
			t.Errorf("%d pilots, %d resting, %d in the air, want none", a.pilots, len(a.resting), a.inAir)
		}
	})
}

// A client that ignores deadlines takes its time; the next questions do not.
func TestOverdueFlightsAreReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAirfield(t, false)
		a.hold()
		if failed := a.askMany(t.Context(), 10)(); len(failed) != 10 {
			t.Fatalf("%d failed, want all", len(failed))
		}
		synctest.Wait()
		a.mu.Lock()
		lost := a.wait
		a.wait = nil
		a.mu.Unlock()
		if err := a.fly1(t.Context()); err != nil { // the first flights have not landed yet
			t.Error(err)
		}
		close(lost)
		synctest.Wait()
		a.flights.mu.Lock()
		defer a.flights.mu.Unlock()
		if a.inAir != 0 {
			t.Errorf("%d flights in the air, want none", a.inAir)
		}
	})
}

// A client that panics fails its questions, and no later ones.
func TestClientThatPanics(t *testing.T) {
	forBothClients(t, func(t *testing.T, a *airfield) {
		fly := a.fly
		for range 5 {
			a.fly = func(context.Context, []*request, []any) ([]any, error) { panic("hook") }
			if err := a.fly1(t.Context()); err == nil || !strings.Contains(err.Error(), "panicked: hook") {
				t.Errorf("error %v, want the panic's", err)
			}
			synctest.Wait()
			a.fly = fly
			if err := a.fly1(t.Context()); err != nil {
				t.Errorf("after it: %v", err)
			}
			synctest.Wait()
		}
		// One in a trace, after the answer.
		a.traced = func(Call) { panic("trace") }
		if err := a.fly1(t.Context()); err != nil {
			t.Errorf("error %v, want the answer", err)
		}
	})
}

// A flight whose time was up leaves nothing to the next one: neither its deadline nor
// what it has carried.
func TestFlightsBeginAnew(t *testing.T) {
	forBothClients(t, func(t *testing.T, a *airfield) {
		release := a.hold()
		a.askMany(t.Context(), 1)()
		release()
		synctest.Wait()
		fly := a.fly
		a.fly = func(ctx context.Context, batch []*request, words []any) ([]any, error) {
			if ctx.Err() != nil {
				t.Errorf("a flight begins with %v", ctx.Err())
			}
			if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) != testBudget {
				t.Errorf("a flight has until %v, want the whole budget", deadline)
			}
			if len(words) > 0 {
				t.Errorf("a flight begins with the words %v", words)
			}
			batch[0].keys = append(batch[0].keys, "key")
			batch[0].arguments = append(batch[0].arguments, "argument")
			words, err := fly(ctx, batch, words)
			return append(words, "word"), err
		}
		for range 3 {
			if err := a.fly1(t.Context()); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}
		a.flights.mu.Lock()
		defer a.flights.mu.Unlock()
		for _, spare := range a.spare {
			for _, r := range spare.batch[:cap(spare.batch)] {
				if r != nil {
					t.Error("a question that was answered is kept alive")
				}
			}
			for _, word := range spare.words[:cap(spare.words)] {
				if word != nil {
					t.Errorf("the word %v is kept alive", word)
				}
			}
		}
		r := &request{keys: []any{"key"}, arguments: []any{"argument"}}
		keys, arguments := r.keys, r.arguments
		a.free(r)
		if keys[0] != nil || arguments[0] != nil {
			t.Errorf("%v and %v are kept alive", keys, arguments)
		}
	})
}

// An answer that comes in the moment in which the caller leaves is the answer: to say
// that the question has failed would let its charge go unnoticed.
func TestAnswerInTheMomentOfLeaving(t *testing.T) {
	forBothClients(t, func(t *testing.T, a *airfield) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for range 100 {
			r := a.newRequest()
			r.who.Store(boarded)
			r.answered <- struct{}{}
			if err := a.await(ctx, r); err != nil {
				t.Fatalf("error %v, want the answer", err)
			}
		}
		if n := a.left.Load(); n != 0 {
			t.Errorf("%d have left", n)
		}
	})
}

// A pilot that is called in the moment in which it wants to end takes the flight.
func TestPilotThatIsCalledInTheMomentOfEnding(t *testing.T) {
	forBothClients(t, func(t *testing.T, a *airfield) {
		a.heeded = false // so that flights need a pilot
		if err := a.fly1(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		f := a.flights
		f.mu.Lock()
		if len(f.resting) != 1 {
			t.Errorf("%d pilots rest, want 1", len(f.resting))
		}
		time.Sleep(patience) // the pilot's, too: it waits for the lock then
		for range 1000 {
			runtime.Gosched()
		}
		r := f.newRequest()
		f.waiting = append(f.waiting, r)
		f.dispatch()
		f.mu.Unlock()
		if err := f.await(t.Context(), r); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.inAir != 0 || f.pilots != len(f.resting) {
			t.Errorf("%d flights in the air, %d pilots and %d of them resting", f.inAir, f.pilots, len(f.resting))
		}
	})
}

// Whether a client may be relied on to heed deadlines is seen by its options.
func TestWhoHeedsDeadlines(t *testing.T) {
	for name, c := range map[string]struct {
		options redis.Options
		want    bool
	}{
		"by itself":          {redis.Options{}, false},
		"told to":            {redis.Options{ContextTimeoutEnabled: true}, true},
		"with TLS":           {redis.Options{ContextTimeoutEnabled: true, TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12}}, false},
		"with a dialer":      {redis.Options{ContextTimeoutEnabled: true, Dialer: (&net.Dialer{}).DialContext}, false},
		"with credentials":   {redis.Options{ContextTimeoutEnabled: true, CredentialsProvider: func() (string, string) { return "", "" }}, false},
		"with a greeting":    {redis.Options{ContextTimeoutEnabled: true, OnConnect: func(context.Context, *redis.Conn) error { return nil }}, false},
		"over a Unix socket": {redis.Options{ContextTimeoutEnabled: true, Network: "unix", Addr: "/nowhere"}, true},
	} {
		client := redis.NewClient(&c.options)
		if got := heedsDeadline(client); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
		_ = client.Close()
	}
}
