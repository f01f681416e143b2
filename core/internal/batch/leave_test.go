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

// The call of a caller who leaves the queue is not sent, and other calls do not notice.
func TestCallerWhoLeavesTheQueue(t *testing.T) {
	forBothClients(t, func(t *testing.T, s *server) {
		release, first := s.fill(t.Context())
		ctx, cancel := context.WithCancelCause(t.Context())
		leaving := s.askMany(ctx, request{"a", 1}, request{"", 1}, request{"b", 1})
		staying := s.askMany(t.Context(), request{"a", 1}, request{"", 1})
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

// A caller whose call is in flight can leave at once, too. Another goroutine may wait for the answer.
func TestCallerWhoLeavesABatch(t *testing.T) {
	forBothClients(t, func(t *testing.T, s *server) {
		release, first := s.fill(t.Context())
		ctx, cancel := context.WithCancel(t.Context())
		c := s.NewCall()
		c.Request = request{"a", 1}
		left := make(chan error, 1)
		go func() { left <- s.Do(ctx, c) }()
		synctest.Wait()
		staying := s.askMany(t.Context(), request{"a", 1})
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

// A caller whose deadline is sooner than the budget's end does not send a batch, which would keep them.
func TestCallerWithLittleTime(t *testing.T) {
	forBothClients(t, func(t *testing.T, s *server) {
		release := s.hold()
		ctx, cancel := context.WithTimeout(t.Context(), testBudget/10)
		defer cancel()
		began := time.Now()
		if err := s.ask(ctx, request{weight: 1}); !errors.Is(err, ErrLeft) {
			t.Errorf("error %v, want ErrLeft", err)
		}
		if took := time.Since(began); took != testBudget/10 {
			t.Errorf("left after %v, want %v", took, testBudget/10)
		}
		release()
	})
}

// A caller who sends a call alone has a deadline, too. If it passes before there is a connection,
// nothing is sent.
func TestDeadlineBeforeACallIsSent(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		s := newServer(t, true)
		s.connected, s.opening = 0, time.Hour
		s.step, s.lastHeard = time.Hour, time.Now().Add(time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), 2*testBudget)
		defer cancel()
		began := time.Now()
		err := s.ask(ctx, request{weight: 1})
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took != 2*testBudget {
			t.Errorf("%v after %v, want the deadline after %v", err, took, 2*testBudget)
		}
	})
}

// The budget is the server's time: it begins when a call is sent, however long the call has waited.
func TestBudgetBeginsWithTheSending(t *testing.T) {
	forBothClients(t, func(t *testing.T, s *server) {
		s.delay = testBudget * 9 / 10 // every reply is within the budget
		s.connected, s.opening, s.step = 0, 5*testBudget, testBudget/2
		errs := s.askMany(t.Context(), times(2+3*testFull)...)
		wantNone(t, errs())
	})
}

// After a failure no caller sends a batch, so that all callers can leave at once.
func TestCallersCanLeaveWhileTheServerIsSick(t *testing.T) {
	forBothClients(t, func(t *testing.T, s *server) {
		s.fail(1, errDown)
		if err := s.ask(t.Context(), request{weight: 1}); !errors.Is(err, errDown) {
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

// A batch whose timer fires while it is being answered does not harm the next one.
func TestAnswerInTheMomentOfTheDeadline(t *testing.T) {
	forBothClients(t, func(t *testing.T, s *server) {
		s.delay = testBudget
		for range 200 {
			if err := s.ask(t.Context(), request{weight: 1}); err != nil && !errors.Is(err, ErrTimedOut) && !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
		}
		s.delay = 0
		s.wantIdle(t)
		for range 20 {
			if err := s.ask(t.Context(), request{weight: 1}); err != nil {
				t.Error(err)
			}
		}
		s.wantIdle(t)
	})
}
