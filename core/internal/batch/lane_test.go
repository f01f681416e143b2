package batch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

const (
	testBudget   = 100 * time.Millisecond
	testPatience = time.Second
	testFull     = 16
)

// question is what the tests ask.
type question struct {
	name   string // the same for questions that ask the same; "" for one that is asked alone
	weight int
}

// seenBatch is one batch as a server has seen it: the names and lengths of its groups.
type seenBatch []string

// server is a server that answers as it is told, and a lane to it.
type server struct {
	*Lane[question, int]

	mu        sync.Mutex
	batches   []seenBatch
	inFlight  int
	most      int           // in flight at once
	wait      chan struct{} // holds batches up while it is open
	failures  map[int]error // of batches, by their place
	delay     time.Duration // of each reply
	connects  int
	opening   time.Duration // how long it takes to open a connection
	refusing  error         // of a connection that is opened
	connected int           // connections that are open and unused; -1: as many as are wanted
}

var (
	errDown  = errors.New("down")
	errFault = errors.New("the caller's fault")
)

// tester is what a server needs of a test.
type tester interface {
	Helper()
	Cleanup(f func())
	Context() context.Context
	Fatal(args ...any)
}

func newServer(t tester, heeds bool, change ...func(*Config[question, int])) *server {
	t.Helper()
	s := &server{failures: map[int]error{}, connected: -1}
	config := Config[question, int]{
		Send: s.send,
		Fail: func(ctx *Context, err error) error {
			if ctx == nil || !ctx.Sent() {
				return fmt.Errorf("not sent: %w", err)
			}
			return fmt.Errorf("sent: %w", err)
		},
		Outcome: func(err error) Outcome {
			if errors.Is(err, errDown) || errors.Is(err, ErrTimedOut) || errors.Is(err, ErrUnconnected) || errors.Is(err, context.DeadlineExceeded) {
				return Failed
			}
			return Unknown
		},
		Weight: func(q *question, _ int) int { return q.weight },
		Hash: func(q *question) (hash uint64) {
			for _, c := range q.name {
				hash = hash*31 + uint64(c)
			}
			return hash
		},
		Same:   func(a, b *question) bool { return a.name == b.name },
		Budget: testBudget, Patience: testPatience, InFlight: 2, Full: testFull, MostWaiting: 1000, Heeds: heeds,
		Ready: s.ready, Connect: s.connect, ConnectTimeout: time.Minute,
	}
	for _, c := range change {
		c(&config)
	}
	s.Lane = New(config)
	t.Cleanup(s.Close)
	if err := s.ask(t.Context(), question{weight: 1}); err != nil { // so that the lane is healthy
		t.Fatal(err)
	}
	synctest.Wait()
	s.batches, s.most = nil, 0
	return s
}

// send answers a batch, as a client would: it takes a connection, sends, and waits for the reply.
func (s *server) send(ctx *Context, batch []*Group[question, int]) error {
	s.mu.Lock()
	place := len(s.batches)
	var names seenBatch
	for _, g := range batch {
		names = append(names, fmt.Sprintf("%s:%d", g.Question().name, g.Len()))
	}
	s.batches = append(s.batches, names)
	s.inFlight++
	s.most = max(s.most, s.inFlight)
	wait, err, delay, opening := s.wait, s.failures[place], s.delay, time.Duration(0)
	switch {
	case s.connected == 0: // the pool has none, so it opens one
		opening = s.opening
	case s.connected > 0:
		s.connected--
	}
	counted := s.connected >= 0
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.inFlight--
		if counted && err == nil {
			s.connected++
		}
	}()
	if ended := s.pass(ctx, nil, opening); ended != nil {
		err = ended
	} else {
		_, ended := ctx.Mark(int64(1)).MarshalBinary()
		if ended == nil {
			ended = s.pass(ctx, wait, delay)
		}
		if ended != nil {
			err = ended
		}
	}
	for i, g := range batch {
		g.Answer, g.Err = place*100+i, err
	}
	return err
}

// pass lets time pass, until a channel is closed if there is one.
func (s *server) pass(ctx *Context, wait chan struct{}, d time.Duration) error {
	var until <-chan time.Time
	if s.Heeds {
		deadline, _ := ctx.Deadline()
		until = time.After(time.Until(deadline))
	}
	for _, passed := range []func() <-chan struct{}{
		func() <-chan struct{} { return wait },
		func() <-chan struct{} {
			done := make(chan struct{})
			time.AfterFunc(d, func() { close(done) })
			return done
		},
	} {
		done := passed()
		if done == nil {
			continue
		}
		select {
		case <-done:
		case <-until:
			return context.DeadlineExceeded
		}
	}
	return nil
}

func (s *server) ready() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.connected != 0
}

func (s *server) connect(ctx context.Context) error {
	s.mu.Lock()
	s.connects++
	opening, err := s.opening, s.refusing
	s.mu.Unlock()
	select {
	case <-time.After(opening):
	case <-ctx.Done():
		return ctx.Err()
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.connected++
	return nil
}

// ask asks a question, and returns the error of either kind.
func (s *server) ask(ctx context.Context, q question) error {
	c := s.NewCall()
	c.Question = q
	err := s.Do(ctx, c)
	if errors.Is(err, ErrLeft) {
		return err // and leaves the call behind
	}
	if err == nil {
		err = c.Err
	}
	s.Free(c)
	return err
}

// askMany asks questions at once, in order, and returns what collects their errors.
func (s *server) askMany(ctx context.Context, questions ...question) (errs func() []error) {
	answers := make([]error, len(questions))
	var group sync.WaitGroup
	for i, q := range questions {
		group.Go(func() { answers[i] = s.ask(ctx, q) })
		synctest.Wait()
	}
	return func() []error {
		group.Wait()
		return slices.DeleteFunc(answers, func(err error) bool { return err == nil })
	}
}

// times returns n questions that are asked alone.
func times(n int) []question { return slices.Repeat([]question{{weight: 1}}, n) }

// hold keeps the batches that are sent from now on under way until release is called.
func (s *server) hold() (release func()) {
	wait := make(chan struct{})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wait = wait
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.wait == wait {
			s.wait = nil
		}
		close(wait)
	}
}

// fill holds two batches under way, so that whoever asks next waits.
func (s *server) fill(ctx context.Context) (release func(), errs func() []error) {
	release = s.hold()
	return release, s.askMany(ctx, times(2)...)
}

func (s *server) seen() []seenBatch {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.batches)
}

func (s *server) fail(n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range n {
		s.failures[len(s.batches)+i] = err
	}
}

func (s *server) wantBatches(t *testing.T, want ...int) {
	t.Helper()
	var got []int
	for _, batch := range s.seen() {
		got = append(got, len(batch))
	}
	if !slices.Equal(got, want) {
		t.Fatalf("batches of %v groups, want %v", got, want)
	}
}

func (s *server) wantIdle(t *testing.T) {
	t.Helper()
	synctest.Wait()
	if waiting, inFlight := s.Load(); waiting != 0 || inFlight != 0 {
		t.Errorf("%d wait and %d are in flight, want none", waiting, inFlight)
	}
}

func wantNone(t *testing.T, errs ...[]error) {
	t.Helper()
	if failed := slices.Concat(errs...); len(failed) > 0 {
		t.Errorf("%d failed: %v", len(failed), failed[0])
	}
}

func wantAll(t *testing.T, errs []error, n int, want error) {
	t.Helper()
	if len(errs) != n {
		t.Errorf("%d failed, want %d", len(errs), n)
	}
	for _, err := range errs {
		if !errors.Is(err, want) {
			t.Fatalf("error %v, want %v", err, want)
		}
	}
}

// forBothClients runs a test with a client that heeds deadlines, and with one that does not.
func forBothClients(t *testing.T, test func(t *testing.T, s *server), change ...func(*Config[question, int])) {
	for name, heeds := range map[string]bool{"client heeds deadlines": true, "client ignores deadlines": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, newServer(t, heeds, change...)) })
		})
	}
}

func TestLoneCallIsSentAtOnce(t *testing.T) {
	forBothClients(t, func(t *testing.T, s *server) {
		began := time.Now()
		for range 3 {
			if err := s.ask(t.Context(), question{weight: 1}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("waited for %v", took)
		}
		s.wantBatches(t, 1, 1, 1)
	})
}

func TestCallsThatWaitAreSentTogether(t *testing.T) {
	forBothClients(t, func(t *testing.T, s *server) {
		release, first := s.fill(t.Context())
		others := s.askMany(t.Context(), times(7)...)
		s.wantBatches(t, 1, 1) // no more than two in flight
		release()
		wantNone(t, first(), others())
		s.wantBatches(t, 1, 1, 7)
	})
}

// Calls that ask the same and wait together are asked once, and know their place.
func TestCallsThatAskTheSameAreOneGroup(t *testing.T) {
	forBothClients(t, func(t *testing.T, s *server) {
		release, first := s.fill(t.Context())
		names := []string{"a", "b", "a", "", "a", "b", ""}
		calls := make([]*Call[question, int], len(names))
		var group sync.WaitGroup
		for i, name := range names {
			calls[i] = s.NewCall()
			calls[i].Question = question{name, 1}
			group.Go(func() {
				if err := s.Do(t.Context(), calls[i]); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		release()
		group.Wait()
		wantNone(t, first())
		if got := s.seen()[2]; !slices.Equal(got, seenBatch{"a:3", "b:2", ":1", ":1"}) {
			t.Errorf("the server was asked %v", got)
		}
		for i, want := range []struct{ answer, place int }{{200, 0}, {201, 0}, {200, 1}, {202, 0}, {200, 2}, {201, 1}, {203, 0}} {
			if c := calls[i]; c.Answer != want.answer || c.Place != want.place || c.Err != nil {
				t.Errorf("call %d: answer %d in place %d, %v, want %v", i, c.Answer, c.Place, c.Err, want)
			}
		}
	})
}

// Questions that have a number in common, but not what they ask, are not one group.
func TestGroupsWithOneHash(t *testing.T) {
	forBothClients(t, func(t *testing.T, s *server) {
		release, first := s.fill(t.Context())
		others := s.askMany(t.Context(), question{"a", 1}, question{"b", 1}, question{"a", 1}, question{"b", 1}, question{"b", 1})
		release()
		wantNone(t, first(), others())
		total := 0
		for _, group := range s.seen()[2] {
			var n int
			_, _ = fmt.Sscanf(group[2:], "%d", &n)
			total += n
		}
		if total != 5 {
			t.Errorf("the server was asked %v, want 5 calls", s.seen()[2])
		}
	}, func(c *Config[question, int]) { c.Hash = func(*question) uint64 { return 7 } })
}

func TestBatchIsNeverTooFull(t *testing.T) {
	forBothClients(t, func(t *testing.T, s *server) {
		release := s.hold()
		errs := s.askMany(t.Context(), times(2+2*testFull+5)...)
		release()
		wantNone(t, errs())
		total := 0
		for _, batch := range s.seen() {
			total += len(batch)
			if len(batch) > testFull {
				t.Errorf("%d in a batch, want at most %d", len(batch), testFull)
			}
		}
		if total != 2+2*testFull+5 {
			t.Errorf("%d were asked", total)
		}
	})
}

// A call that weighs more than a full batch is sent alone.
func TestLargeCallIsSent(t *testing.T) {
	forBothClients(t, func(t *testing.T, s *server) {
		release, first := s.fill(t.Context())
		others := s.askMany(t.Context(), question{"small", 1}, question{"large", 10 * testFull}, question{"last", 1})
		release()
		wantNone(t, first(), others())
		s.wantBatches(t, 1, 1, 1, 1, 1)
	})
}

// A caller who leaves while they wait is not asked for, and nobody else notices.
func TestCallerWhoLeavesTheQueue(t *testing.T) {
	forBothClients(t, func(t *testing.T, s *server) {
		release, first := s.fill(t.Context())
		ctx, cancel := context.WithCancelCause(t.Context())
		leaving := s.askMany(ctx, question{"a", 1}, question{"", 1}, question{"b", 1})
		staying := s.askMany(t.Context(), question{"a", 1}, question{"", 1})
		cause := errors.New("client gone")
		cancel(cause)
		wantAll(t, leaving(), 3, cause) // at once: the batches are still under way
		release()
		wantNone(t, first(), staying())
		if got := s.seen()[2]; !slices.Equal(got, seenBatch{"a:1", ":1"}) {
			t.Errorf("the server was asked %v", got)
		}
	})
}

// A caller who leaves while their call is under way leaves at once, too. Somebody else may wait for
// the answer.
func TestCallerWhoLeavesABatch(t *testing.T) {
	forBothClients(t, func(t *testing.T, s *server) {
		release, first := s.fill(t.Context())
		ctx, cancel := context.WithCancel(t.Context())
		c := s.NewCall()
		c.Question = question{"a", 1}
		left := make(chan error, 1)
		go func() { left <- s.Do(ctx, c) }()
		synctest.Wait()
		staying := s.askMany(t.Context(), question{"a", 1})
		releaseSecond := s.hold()
		release()
		synctest.Wait()
		cancel()
		if err := <-left; !errors.Is(err, ErrLeft) {
			t.Errorf("error %v, want ErrLeft", err)
		}
		releaseSecond()
		s.Wait(c)
		if c.Err != nil || c.Answer != 200 || c.Place != 0 {
			t.Errorf("answer %d in place %d, %v", c.Answer, c.Place, c.Err)
		}
		s.Free(c)
		wantNone(t, first(), staying())
	})
}

// A caller whose own deadline is before the budget's does not send a batch that would keep them.
func TestCallerWithLittleTime(t *testing.T) {
	forBothClients(t, func(t *testing.T, s *server) {
		release := s.hold()
		ctx, cancel := context.WithTimeout(t.Context(), testBudget/10)
		defer cancel()
		began := time.Now()
		if err := s.ask(ctx, question{weight: 1}); !errors.Is(err, ErrLeft) {
			t.Errorf("error %v, want ErrLeft", err)
		}
		if took := time.Since(began); took != testBudget/10 {
			t.Errorf("left after %v, want %v", took, testBudget/10)
		}
		release()
	})
}

// A caller who sends a call alone has a deadline for that, too: if it comes before there is a
// connection, nothing is sent.
func TestDeadlineBeforeACallIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, true)
		s.connected, s.opening = 0, time.Hour
		ctx, cancel := context.WithTimeout(t.Context(), 2*testBudget)
		defer cancel()
		began := time.Now()
		err := s.ask(ctx, question{weight: 1})
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took != 2*testBudget {
			t.Errorf("%v after %v, want the deadline after %v", err, took, 2*testBudget)
		}
	})
}

// The budget is the server's time: it begins when a call is sent, whatever the call has waited for.
func TestBudgetBeginsWithTheSending(t *testing.T) {
	forBothClients(t, func(t *testing.T, s *server) {
		s.delay = testBudget * 9 / 10 // every reply is within the budget
		s.connected, s.opening = 0, 5*testBudget
		errs := s.askMany(t.Context(), times(2+3*testFull)...)
		wantNone(t, errs())
	})
}

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

// Nobody waits in the queue for longer than the patience. That says nothing about the server.
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
	}, func(c *Config[question, int]) { c.Breaker = NewBreaker(1, time.Hour, func(State) {}) })
}

// Each call has the whole patience, be it the first of its group or not.
func TestGroupThatWaitsTooLong(t *testing.T) {
	forBothClients(t, func(t *testing.T, s *server) {
		s.delay = testBudget * 9 / 10
		keep := func(until time.Duration) { // two batches under way all the time, alone in each
			for end := time.Now().Add(until); time.Now().Before(end); time.Sleep(testBudget / 2) {
				go func() { _ = s.ask(context.Background(), question{weight: testFull}) }()
				go func() { _ = s.ask(context.Background(), question{weight: testFull}) }()
			}
		}
		go keep(3 * testPatience)
		time.Sleep(testPatience / 2)
		for range 3 {
			began := time.Now()
			err := s.ask(t.Context(), question{"a", 1})
			if took := time.Since(began); took > testPatience+testBudget || errors.Is(err, ErrOverdue) && took < testPatience {
				t.Errorf("%v after %v", err, took)
			}
		}
		time.Sleep(5 * testPatience)
		s.wantIdle(t)
	})
}

// After a failure no caller sends a batch, so that everybody can leave at once.
func TestCallersCanLeaveWhileTheServerIsSick(t *testing.T) {
	forBothClients(t, func(t *testing.T, s *server) {
		s.fail(1, errDown)
		if err := s.ask(t.Context(), question{weight: 1}); !errors.Is(err, errDown) {
			t.Fatal(err)
		}
		release := s.hold()
		ctx, cancel := context.WithCancel(t.Context())
		errs := s.askMany(ctx, times(1)...)
		cancel()
		began := time.Now()
		if failed := errs(); len(failed) != 1 || time.Since(began) != 0 {
			t.Errorf("%v after %v, want an error at once", failed, time.Since(began))
		}
		release()
	})
}

func TestTooManyWaiting(t *testing.T) {
	forBothClients(t, func(t *testing.T, s *server) {
		release, first := s.fill(t.Context())
		ctx, cancel := context.WithCancel(t.Context())
		leaving := s.askMany(ctx, times(5)...)
		if err := s.ask(t.Context(), question{weight: 1}); !errors.Is(err, ErrFull) {
			t.Errorf("error %v, want ErrFull", err)
		}
		cancel()
		leaving()
		staying := s.askMany(t.Context(), times(1)...) // in the place of one who has left
		release()
		wantNone(t, first(), staying())
	}, func(c *Config[question, int]) { c.MostWaiting = 5 })
}

// Where the server has not answered anything for as long as a call may wait, that there is no room is no
// overload of this process; and otherwise it is, also when a batch has just failed.
func TestTooManyWaitForAServerThatDoesNotAnswer(t *testing.T) {
	forBothClients(t, func(t *testing.T, s *server) {
		for _, want := range []error{ErrFull, ErrStalled} {
			s.fail(1, errDown)
			if err := s.ask(t.Context(), question{weight: 1}); !errors.Is(err, errDown) {
				t.Fatal(err)
			}
			release, _ := s.fill(t.Context())
			ctx, cancel := context.WithCancel(t.Context())
			leaving := s.askMany(ctx, times(5)...)
			if want == ErrStalled { //nolint:errorlint // it is one of two
				s.mu.Lock()
				s.Lane.mu.Lock()
				s.heard -= int64(testPatience)
				s.Lane.mu.Unlock()
				s.mu.Unlock()
			}
			if err := s.ask(t.Context(), question{weight: 1}); !errors.Is(err, want) {
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
	}, func(c *Config[question, int]) {
		c.MostWaiting, c.Breaker = 5, NewBreaker(3, time.Hour, func(State) {})
	})
}

// When connections break under a crowd, those who have waited too long are told that this process is
// overloaded: the server has answered all the time.
func TestBrokenConnectionUnderACrowdIsNoOutage(t *testing.T) {
	forBothClients(t, func(t *testing.T, s *server) {
		s.delay = testBudget * 8 / 10
		if err := s.ask(t.Context(), question{weight: 1}); err != nil {
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
			t.Errorf("%d were too late and %d were under way when it broke", overdue, broken)
		}
		if s.Breaker.Refuses() {
			t.Error("the breaker is open")
		}
	}, func(c *Config[question, int]) { c.Breaker = NewBreaker(5, time.Hour, func(State) {}) })
}

func TestCloseDrains(t *testing.T) {
	forBothClients(t, func(t *testing.T, s *server) {
		release := s.hold()
		errs := s.askMany(t.Context(), times(10)...)
		closed := make(chan struct{})
		go func() { s.Close(); close(closed) }()
		synctest.Wait()
		if err := s.ask(t.Context(), question{weight: 1}); !errors.Is(err, ErrClosed) {
			t.Errorf("a call after Close: %v", err)
		}
		select {
		case <-closed:
			t.Error("Close has not waited for the answers")
		default:
		}
		release()
		wantNone(t, errs())
		<-closed
		s.Close() // again
	})
}

func TestCloseIsBounded(t *testing.T) {
	forBothClients(t, func(t *testing.T, s *server) {
		release := s.hold()
		errs := s.askMany(t.Context(), times(100)...)
		began := time.Now()
		s.Close()
		if took := time.Since(began); took > testPatience+testBudget {
			t.Errorf("Close took %v", took)
		}
		release()
		errs()
	})
}

// A client that ignores deadlines takes its time; the next calls do not.
func TestOverdueBatchesAreReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, false)
		release := s.hold()
		wantAll(t, s.askMany(t.Context(), times(2)...)(), 2, ErrTimedOut)
		synctest.Wait()
		s.mu.Lock()
		s.wait = nil
		s.mu.Unlock()
		if err := s.ask(t.Context(), question{weight: 1}); err != nil { // the first batches have not ended yet
			t.Error(err)
		}
		s.wantIdle(t)
		release()
		s.wantIdle(t)
	})
}

// A client that panics fails its calls, and no later ones. So does a hook that is told of a batch.
func TestClientThatPanics(t *testing.T) {
	forBothClients(t, func(t *testing.T, s *server) {
		send := s.Send
		for range 5 {
			s.Send = func(*Context, []*Group[question, int]) error { panic("hook") }
			var cause PanicError
			if err := s.ask(t.Context(), question{weight: 1}); !errors.As(err, &cause) || cause.Cause != "hook" {
				t.Errorf("error %v, want the panic's", err)
			}
			synctest.Wait()
			s.Send = send
			if err := s.ask(t.Context(), question{weight: 1}); err != nil {
				t.Errorf("after it: %v", err)
			}
			s.wantIdle(t)
		}
		s.connected, s.Connect = 0, func(context.Context) error { panic("hook") }
		s.fail(1, errDown)
		_ = s.ask(t.Context(), question{weight: 1}) // so that the next one waits for a connection
		var cause PanicError
		if err := s.ask(t.Context(), question{weight: 1}); !errors.As(err, &cause) {
			t.Errorf("error %v, want the panic's", err)
		}
		s.wantIdle(t)
	})
}

// A batch whose time was up leaves nothing to the next one: neither its deadline nor what it has
// carried.
func TestBatchesBeginAnew(t *testing.T) {
	forBothClients(t, func(t *testing.T, s *server) {
		release := s.hold()
		s.askMany(t.Context(), times(1)...)()
		release()
		synctest.Wait()
		send := s.Send
		s.Send = func(ctx *Context, batch []*Group[question, int]) error {
			if deadline, ok := ctx.Deadline(); ctx.Err() != nil || ctx.Sent() || !ok || time.Until(deadline) != testPatience {
				t.Errorf("a batch begins with %v, sent %t, until %v", ctx.Err(), ctx.Sent(), deadline)
			}
			err := send(ctx, batch)
			if deadline, _ := ctx.Deadline(); !ctx.Sent() || time.Until(deadline) != testBudget {
				t.Errorf("a batch that was sent has until %v", deadline)
			}
			return err
		}
		for range 3 {
			if err := s.ask(t.Context(), question{weight: 1}); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}
		for _, spare := range s.sparing {
			for _, g := range spare.batch[:cap(spare.batch)] {
				if g != nil {
					t.Error("a group that was answered is kept alive")
				}
			}
		}
		for _, g := range s.groups {
			if *g != (Group[question, int]{}) {
				t.Errorf("a group that was answered keeps %+v", *g)
			}
		}
	})
}

// A batch whose clock strikes while it is being answered does not spoil the one after it.
func TestAnswerInTheMomentOfTheDeadline(t *testing.T) {
	forBothClients(t, func(t *testing.T, s *server) {
		s.delay = testBudget
		for range 200 {
			if err := s.ask(t.Context(), question{weight: 1}); err != nil && !errors.Is(err, ErrTimedOut) && !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
		}
		s.delay = 0
		s.wantIdle(t)
		for range 20 {
			if err := s.ask(t.Context(), question{weight: 1}); err != nil {
				t.Error(err)
			}
		}
		s.wantIdle(t)
	})
}

// Each batch is reported, after its calls have been answered.
func TestReports(t *testing.T) {
	var mu sync.Mutex
	var reports []Report
	forBothClients(t, func(t *testing.T, s *server) {
		synctest.Wait()
		reports = nil
		s.delay = testBudget / 2
		first := s.askMany(t.Context(), times(2)...)
		others := s.askMany(t.Context(), question{"a", 2}, question{"a", 2}, question{"b", 3})
		wantNone(t, first(), others())
		s.fail(1, errDown)
		_ = s.ask(t.Context(), question{weight: 1})
		synctest.Wait()
		want := []Report{
			{1, 1, testBudget / 2, nil}, {1, 1, testBudget / 2, nil}, {3, 5, testBudget / 2, nil}, {1, 1, testBudget / 2, errDown},
		}
		if !slices.Equal(reports, want) {
			t.Errorf("reported %v, want %v", reports, want)
		}
	}, func(c *Config[question, int]) {
		c.Report = func(r Report) {
			mu.Lock()
			defer mu.Unlock()
			reports = append(reports, r)
		}
	})
}
