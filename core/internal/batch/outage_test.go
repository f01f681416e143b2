package batch

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"
)

func TestServerThatDoesNotAnswerInTime(t *testing.T) {
	forBothClients(t, func(t *testing.T, s *server) {
		release := s.hold()
		began := time.Now()
		failed := s.askMany(t.Context(), times(2)...)()
		if took := time.Since(began); took != testBudget {
			t.Errorf("waited for %v, want the budget of %v", took, testBudget)
		}
		want := ErrTimedOut
		if s.Heeds {
			want = context.DeadlineExceeded
		}
		wantAll(t, failed, 2, want)
		release()
		s.wantIdle(t)
	})
}

// While a server answers nothing, no call is held for longer than the budget, in flight or in the queue.
func TestServerThatIsFrozen(t *testing.T) {
	forBothClients(t, func(t *testing.T, s *server) {
		release := s.hold()
		var group sync.WaitGroup
		for at := time.Duration(0); at < 3*testPatience; at += testBudget / 7 {
			for range 3 {
				group.Go(func() {
					began := time.Now()
					err := s.ask(t.Context(), request{weight: 1})
					if took := time.Since(began); took > testBudget || err == nil {
						t.Errorf("%v after %v", err, took)
					}
				})
			}
			time.Sleep(testBudget / 7)
		}
		group.Wait()
		release()
		s.wantIdle(t)
	})
}

// No call waits in the queue for longer than the patience. Such an overdue call says nothing about the server.
func TestQueueThatIsTooSlow(t *testing.T) {
	forBothClients(t, func(t *testing.T, s *server) {
		s.delay = testBudget * 9 / 10
		began := time.Now()
		failed := s.askMany(t.Context(), times(1000)...)()
		if took, most := time.Since(began), testPatience+testBudget; took > most {
			t.Errorf("the last was answered after %v, want at most %v", took, most)
		}
		answered := 2 * int(testPatience/s.delay) * testFull // two batches in each round trip
		if len(failed) < 1000-answered-2*testFull || len(failed) > 1000-answered+2*testFull {
			t.Errorf("%d were too late, want about %d", len(failed), 1000-answered)
		}
		wantAll(t, failed, len(failed), ErrOverdue)
		if s.Breaker.Refuses() {
			t.Error("the breaker is open")
		}
		s.wantIdle(t)
	}, func(c *Config[request, int]) { c.Breaker = NewBreaker(1, time.Hour, func(State) {}) })
}

// Each call of a group has its own patience.
func TestGroupThatWaitsTooLong(t *testing.T) {
	forBothClients(t, func(t *testing.T, s *server) {
		s.delay = testBudget * 9 / 10
		keep := func(until time.Duration) { // two batches in flight all the time, alone in each
			for end := time.Now().Add(until); time.Now().Before(end); time.Sleep(testBudget / 2) {
				go func() { _ = s.ask(context.Background(), request{weight: testFull}) }()
				go func() { _ = s.ask(context.Background(), request{weight: testFull}) }()
			}
		}
		go keep(3 * testPatience)
		time.Sleep(testPatience / 2)
		for range 3 {
			began := time.Now()
			err := s.ask(t.Context(), request{"a", 1})
			if took := time.Since(began); took > testPatience+testBudget || errors.Is(err, ErrOverdue) && took < testPatience {
				t.Errorf("%v after %v", err, took)
			}
		}
		time.Sleep(5 * testPatience)
		s.wantIdle(t)
	})
}

// A full queue is the server's fault if the server has answered nothing for as long as a call may wait.
// Otherwise this process is overloaded, even if a batch has just failed.
func TestTooManyWaitForAServerThatDoesNotAnswer(t *testing.T) {
	forBothClients(t, func(t *testing.T, s *server) {
		for _, want := range []error{ErrFull, ErrStalled} {
			s.fail(1, errDown)
			if err := s.ask(t.Context(), request{weight: 1}); !errors.Is(err, errDown) {
				t.Fatal(err)
			}
			release, _ := s.fill(t.Context())
			ctx, cancel := context.WithCancel(t.Context())
			leaving := s.askMany(ctx, times(5)...)
			if want == ErrStalled { //nolint:errorlint // it is one of two
				s.mu.Lock()
				s.Lane.mu.Lock()
				s.answered -= int64(testPatience)
				s.Lane.mu.Unlock()
				s.mu.Unlock()
			}
			if err := s.ask(t.Context(), request{weight: 1}); !errors.Is(err, want) {
				t.Errorf("error %v, want %v", err, want)
			}
			cancel()
			leaving()
			release()
			synctest.Wait()
		}
		if s.Breaker.Refuses() {
			t.Error("that there is no room counts against the server")
		}
	}, func(c *Config[request, int]) {
		c.MostWaiting, c.Breaker = 5, NewBreaker(3, time.Hour, func(State) {})
	})
}

// When connections break under a crowd, calls that are overdue fail because this process is
// overloaded: the server has answered all the time.
func TestBrokenConnectionUnderACrowdIsNoOutage(t *testing.T) {
	forBothClients(t, func(t *testing.T, s *server) {
		s.delay = testBudget * 8 / 10
		if err := s.ask(t.Context(), request{weight: 1}); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(testPatience*9/10, func() { s.fail(2, errDown) })
		overdue, broken := 0, 0
		for _, err := range s.askMany(t.Context(), times(1000)...)() {
			switch {
			case errors.Is(err, ErrOverdue):
				overdue++
			case errors.Is(err, errDown):
				broken++
			default:
				t.Fatalf("error %v", err)
			}
		}
		if overdue == 0 || broken == 0 || broken > 2*testFull {
			t.Errorf("%d were too late and %d were in flight when it broke", overdue, broken)
		}
		if s.Breaker.Refuses() {
			t.Error("the breaker is open")
		}
	}, func(c *Config[request, int]) { c.Breaker = NewBreaker(5, time.Hour, func(State) {}) })
}

// A client that ignores deadlines holds up its own batch, but not the next calls.
func TestOverdueBatchesAreReplaced(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		s := newServer(t, false)
		release := s.hold()
		wantAll(t, s.askMany(t.Context(), times(2)...)(), 2, ErrTimedOut)
		synctest.Wait()
		s.mu.Lock()
		s.wait = nil
		s.mu.Unlock()
		if err := s.ask(t.Context(), request{weight: 1}); err != nil { // the first batches have not ended yet
			t.Error(err)
		}
		s.wantIdle(t)
		release()
		s.wantIdle(t)
	})
}

// A client that panics fails its calls, and no later ones. So does a Report hook.
func TestClientThatPanics(t *testing.T) {
	forBothClients(t, func(t *testing.T, s *server) {
		send := s.Send
		for range 5 {
			s.Send = func(*Context, []*Group[request, int]) error { panic("hook") }
			var cause PanicError
			if err := s.ask(t.Context(), request{weight: 1}); !errors.As(err, &cause) || cause.Cause != "hook" {
				t.Errorf("error %v, want the panic's", err)
			}
			synctest.Wait()
			s.Send = send
			if err := s.ask(t.Context(), request{weight: 1}); err != nil {
				t.Errorf("after it: %v", err)
			}
			s.wantIdle(t)
		}
		s.connected, s.Connect = 0, func(context.Context) error { panic("hook") }
		s.fail(1, errDown)
		_ = s.ask(t.Context(), request{weight: 1}) // so that the next one waits for a connection
		var cause PanicError
		if err := s.ask(t.Context(), request{weight: 1}); !errors.As(err, &cause) {
			t.Errorf("error %v, want the panic's", err)
		}
		s.wantIdle(t)
	})
}
