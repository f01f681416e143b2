package batch

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"
)

// states lists what a breaker reports.
type states struct{ seen []State }

func (s *states) report(state State) { s.seen = append(s.seen, state) }

const testPause = 10 * time.Second

// withBreaker gives a lane a breaker that opens after some failures.
func withBreaker(s *server, failures int) *states {
	seen := new(states)
	s.Breaker = NewBreaker(failures, testPause, seen.report)
	return seen
}

// lose has a server lose its connections. New ones take so long to open.
func (s *server) lose(t *testing.T, opening time.Duration) {
	t.Helper()
	s.fail(1, errDown)
	if err := s.ask(t.Context(), request{weight: 1}); !errors.Is(err, errDown) {
		t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.connected, s.opening = 0, opening
}

// A connection is opened beside the calls: they wait for it, and one is enough for all of them. It may take several budgets, as
// long as the server is heard of within each.
func TestCallsWaitForAConnection(t *testing.T) {
	forBothClients(t, func(t *testing.T, s *server) {
		s.lose(t, 5*testBudget)
		s.step = testBudget / 2
		began := time.Now()
		wantNone(t, s.askMany(t.Context(), times(testFull)...)())
		if took := time.Since(began); took != 5*testBudget {
			t.Errorf("answered after %v, want %v", took, 5*testBudget)
		}
		s.wantBatches(t, 1, testFull)
		if s.connects != 1 {
			t.Errorf("%d connections were opened, want 1", s.connects)
		}
	})
}

// While a second connection is being opened, calls use the first one.
func TestCallsDoNotWaitForASecondConnection(t *testing.T) {
	forBothClients(t, func(t *testing.T, s *server) {
		s.connected, s.opening, s.delay = 1, testPatience/2, testBudget/10
		began := time.Now()
		wantNone(t, s.askMany(t.Context(), times(4)...)())
		if took := time.Since(began); took > 3*testBudget/10 {
			t.Errorf("answered after %v", took)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.most != 1 {
			t.Errorf("%d batches were in flight at once, want 1", s.most)
		}
	})
}

// A server of which nothing is heard holds nobody for longer than the budget, whatever a connection takes. From then on calls
// fail at once, and a connection that comes late serves those that come after it. Each budget of silence is a failure.
func TestConnectionThatComesLate(t *testing.T) {
	for failures, want := range map[int][]State{5: nil, 3: {Open}} {
		forBothClients(t, func(t *testing.T, s *server) {
			seen := withBreaker(s, failures)
			s.lose(t, 4*testBudget-1) // a failure
			began := time.Now()
			wantAll(t, s.askMany(t.Context(), times(5)...)(), 5, ErrUnconnected)
			if took := time.Since(began); took != testBudget {
				t.Errorf("waited for %v, want %v", took, testBudget)
			}
			for range 10 {
				if err := s.ask(t.Context(), request{weight: 1}); !errors.Is(err, ErrUnconnected) {
					t.Errorf("error %v", err)
				}
			}
			if took := time.Since(began); took != testBudget {
				t.Errorf("the later ones waited, too: %v", took)
			}
			time.Sleep(3 * testBudget)
			err := s.ask(t.Context(), request{weight: 1})
			if want == nil && err != nil || want != nil && !errors.Is(err, ErrSuspended) {
				t.Errorf("with the connection that has been opened: %v", err)
			}
			synctest.Wait()
			if s.connects != 1 {
				t.Errorf("%d connections were opened, want 1", s.connects)
			}
			if !slices.Equal(seen.seen, want) {
				t.Errorf("reported %v, want %v", seen.seen, want)
			}
			s.wantIdle(t)
		})
	}
}

// An attempt of which nothing comes is given up, so that the next one can begin: whatever was lost on the way stays lost.
func TestAttemptsThatHangAreGivenUp(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		s := newServer(t, true)
		s.lose(t, 30*time.Second)
		_ = s.ask(t.Context(), request{weight: 1})
		time.Sleep(longestSilence * testBudget)
		s.wantIdle(t)
		s.mu.Lock()
		s.opening = 0
		s.mu.Unlock()
		if err := s.ask(t.Context(), request{weight: 1}); !errors.Is(err, ErrUnconnected) {
			t.Errorf("the first one: %v, want the error of the latest attempt at once", err)
		}
		synctest.Wait()
		if err := s.ask(t.Context(), request{weight: 1}); err != nil || s.connects != 2 {
			t.Errorf("after %d attempts: %v", s.connects, err)
		}
	})
}

// A queue in which calls may wait for less than a budget says nothing about the server.
func TestCallsThatMayNotWaitForAConnection(t *testing.T) {
	forBothClients(t, func(t *testing.T, s *server) {
		seen := withBreaker(s, 2)
		s.lose(t, testBudget*9/10) // a failure
		began := time.Now()
		wantAll(t, s.askMany(t.Context(), times(5)...)(), 5, ErrOverdue)
		if took := time.Since(began); took != testBudget/10 {
			t.Errorf("waited for %v, want %v", took, testBudget/10)
		}
		time.Sleep(testBudget)
		wantNone(t, s.askMany(t.Context(), times(5)...)())
		if len(seen.seen) > 0 {
			t.Errorf("reported %v", seen.seen)
		}
	}, func(c *Config[request, int]) { c.Patience = testBudget / 10 })
}

// When a connection is refused, all calls that wait for it fail at once. That is one failure.
func TestConnectionThatIsRefused(t *testing.T) {
	forBothClients(t, func(t *testing.T, s *server) {
		seen := withBreaker(s, 4)
		s.lose(t, testBudget/2)
		s.refusing = errDown
		began := time.Now()
		wantAll(t, s.askMany(t.Context(), times(50)...)(), 50, errDown)
		if took := time.Since(began); took != testBudget/2 {
			t.Errorf("told after %v, want %v", took, testBudget/2)
		}
		if len(seen.seen) > 0 {
			t.Errorf("reported %v after two failures of four", seen.seen)
		}
		wantAll(t, s.askMany(t.Context(), times(50)...)(), 50, errDown)
		if took := time.Since(began); took != testBudget {
			t.Errorf("later ones were told after %v, want %v", took, testBudget)
		}
		if err := s.ask(t.Context(), request{weight: 1}); !errors.Is(err, errDown) || time.Since(began) != testBudget {
			t.Errorf("%v after %v, want the error of the latest attempt at once", err, time.Since(began))
		}
		time.Sleep(testBudget)
		s.wantIdle(t)
		if !slices.Equal(seen.seen, []State{Open}) {
			t.Errorf("reported %v, want that it opened", seen.seen)
		}
	})
}

// While the first connection answers, no call fails because a second one cannot be opened.
func TestSecondConnectionThatIsRefused(t *testing.T) {
	forBothClients(t, func(t *testing.T, s *server) {
		seen := withBreaker(s, 1)
		s.connected, s.opening, s.delay, s.refusing = 1, testBudget/100, testBudget/10, errDown
		wantNone(t, s.askMany(t.Context(), times(5*testFull)...)())
		if len(seen.seen) > 0 {
			t.Errorf("reported %v", seen.seen)
		}
		s.wantIdle(t)
	})
}

// While the breaker is open and there is no connection, calls fail at once. The connection is opened
// in the background, and the breaker's trial comes when it is open.
func TestNobodyWaitsForASuspendedServer(t *testing.T) {
	forBothClients(t, func(t *testing.T, s *server) {
		seen := withBreaker(s, 2)
		s.lose(t, 0)
		s.refusing = errDown
		_ = s.ask(t.Context(), request{weight: 1})
		s.wantIdle(t)
		s.mu.Lock()
		s.opening = testPatience / 2
		s.mu.Unlock()
		began := time.Now()
		for range 10 {
			time.Sleep(5*testPause/4 + testPatience)
			asked := time.Now()
			if err := s.ask(t.Context(), request{weight: 1}); !errors.Is(err, ErrSuspended) || time.Since(asked) > 0 {
				t.Errorf("%v after %v, want ErrSuspended at once", err, time.Since(asked))
			}
		}
		synctest.Wait()
		if n := s.connects; n < 10 || n > 12 {
			t.Errorf("%d connections were tried in %v with a pause of %v", n, time.Since(began), testPause)
		}
		time.Sleep(5*testPause/4 + testPatience)
		s.mu.Lock()
		s.refusing = nil
		s.mu.Unlock()
		_ = s.ask(t.Context(), request{weight: 1}) // has the connection opened
		time.Sleep(testPatience)
		if err := s.ask(t.Context(), request{weight: 1}); err != nil {
			t.Errorf("the trial: %v", err)
		}
		synctest.Wait()
		if last := seen.seen[len(seen.seen)-1]; last != Closed {
			t.Errorf("reported %v, want that it closed at last", seen.seen)
		}
		s.wantIdle(t)
	})
}

func TestBreakerKeepsCallsFromASickServer(t *testing.T) {
	forBothClients(t, func(t *testing.T, s *server) {
		seen := withBreaker(s, 3)
		s.fail(4, errDown)
		for range 3 {
			if err := s.ask(t.Context(), request{weight: 1}); !errors.Is(err, errDown) {
				t.Fatalf("error %v, want that of the server", err)
			}
		}
		synctest.Wait()
		for range 10 {
			began := time.Now()
			if err := s.ask(t.Context(), request{weight: 1}); !errors.Is(err, ErrSuspended) || time.Since(began) != 0 {
				t.Errorf("error %v after %v, want ErrSuspended at once", err, time.Since(began))
			}
		}
		s.wantBatches(t, 1, 1, 1)

		time.Sleep(testPause * 5 / 4) // the pause varies by a quarter
		if err := s.ask(t.Context(), request{weight: 1}); !errors.Is(err, errDown) {
			t.Errorf("the trial: %v, want the server's error", err)
		}
		synctest.Wait()
		if err := s.ask(t.Context(), request{weight: 1}); !errors.Is(err, ErrSuspended) {
			t.Errorf("after a trial that failed: %v, want ErrSuspended", err)
		}

		time.Sleep(testPause * 5 / 4)
		for range 10 {
			if err := s.ask(t.Context(), request{weight: 1}); err != nil {
				t.Errorf("after the recovery: %v", err)
			}
			synctest.Wait()
		}
		if want := []State{Open, HalfOpen, Open, HalfOpen, Closed}; !slices.Equal(seen.seen, want) {
			t.Errorf("reported %v, want %v", seen.seen, want)
		}
	})
}

// Of many calls at once, one tries the server.
func TestTrialsAreSingle(t *testing.T) {
	forBothClients(t, func(t *testing.T, s *server) {
		withBreaker(s, 1)
		s.fail(1, errDown)
		_ = s.ask(t.Context(), request{weight: 1})
		synctest.Wait()
		time.Sleep(testPause * 5 / 4)
		release := s.hold()
		errs := s.askMany(t.Context(), times(50)...)
		s.wantBatches(t, 1, 1)
		release()
		wantAll(t, errs(), 49, ErrSuspended)
	})
}

// A trial that says nothing about the server is followed by another one at once.
func TestTrialThatSaysNothing(t *testing.T) {
	forBothClients(t, func(t *testing.T, s *server) {
		seen := withBreaker(s, 1)
		s.fail(1, errDown)
		_ = s.ask(t.Context(), request{weight: 1})
		synctest.Wait()
		time.Sleep(testPause * 5 / 4)
		s.fail(2, errFault)
		for range 2 {
			if err := s.ask(t.Context(), request{weight: 1}); !errors.Is(err, errFault) {
				t.Errorf("error %v", err)
			}
			synctest.Wait()
		}
		if err := s.ask(t.Context(), request{weight: 1}); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if want := []State{Open, HalfOpen, Open, HalfOpen, Open, HalfOpen, Closed}; !slices.Equal(seen.seen, want) {
			t.Errorf("reported %v, want %v", seen.seen, want)
		}
	})
}

// Failures that are not the server's fault do not open the breaker.
func TestBreakerIgnoresWhatIsNotTheServersFault(t *testing.T) {
	forBothClients(t, func(t *testing.T, s *server) {
		seen := withBreaker(s, 1)
		release, first := s.fill(t.Context())
		ctx, cancel := context.WithCancel(t.Context())
		leaving := s.askMany(ctx, times(3)...) // two of them are too many
		cancel()
		leaving()
		release()
		first()
		s.fail(3, errFault)
		for range 3 {
			_ = s.ask(t.Context(), request{weight: 1})
			synctest.Wait()
		}
		if err := s.ask(t.Context(), request{weight: 1}); err != nil {
			t.Error(err)
		}
		if len(seen.seen) > 0 {
			t.Errorf("reported %v", seen.seen)
		}
	}, func(c *Config[request, int]) { c.MostWaiting = 1 })
}

// A client that ignores deadlines does not hide that the server is silent.
func TestOverdueBatchesOpenTheBreaker(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		s := newServer(t, false)
		seen := withBreaker(s, 2)
		release := s.hold()
		s.askMany(t.Context(), times(1)...)()
		s.askMany(t.Context(), times(1)...)()
		synctest.Wait()
		if !slices.Equal(seen.seen, []State{Open}) {
			t.Errorf("reported %v, want it open", seen.seen)
		}
		release()
		synctest.Wait()
		if len(seen.seen) != 1 {
			t.Errorf("reported %v: answers that come too late change nothing", seen.seen)
		}
	})
}

// A closed breaker costs at most one atomic load.
func TestBreakerOfNoFailures(t *testing.T) {
	b := NewBreaker(0, time.Second, nil)
	if b != nil || b.Refuses() || b.Due() {
		t.Error("a breaker of no failures refuses")
	}
	for range 3 {
		if admitted, trial := b.Admit(); !admitted || trial {
			t.Error("a breaker of no failures does not admit")
		}
		b.Ended(false, Failed)
	}
}
