package wait

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestEndWinsOverWhatIsInFlight(t *testing.T) {
	for _, answer := range []Renewal{Held, NotHeld, Unanswered} {
		inBubble(t, func(t *testing.T, s *leaseStore) {
			s.renew = func(_ context.Context, _ []int, answers []Renewal) error {
				time.Sleep(time.Second)
				all(answers, answer)
				return nil
			}
			x := s.begin(1)
			ctx := x.Context(t.Context())
			s.wait(third)
			if !x.End() || !errors.Is(x.Err(), context.Canceled) || !errors.Is(context.Cause(ctx), context.Canceled) {
				t.Errorf("%v, and the context ended with %v", x.Err(), context.Cause(ctx))
			}
			s.wait(10 * length)
			if len(s.all().lost) > 0 || len(s.times()) != 1 || !errors.Is(x.Err(), context.Canceled) {
				t.Errorf("answer %d: lost are %v, renewed at %v", answer, s.all().lost, s.times())
			}
		})
	}
}

func TestEndIsFirstOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, s *leaseStore) {
		s.renew = func(context.Context, []int, []Renewal) error { return errLeaseDown }
		lost := s.begin(1)
		s.wait(sure)
		held := s.begin(2)
		closed := s.begin(3)
		for _, x := range []*Lease{lost, held} {
			if !x.End() || x.End() || x.End() {
				t.Errorf("lease %d: the first End is not the only first", x.of.Units)
			}
		}
		s.leases.Close()
		if !closed.End() || closed.End() {
			t.Error("after Close the first End is not the only first")
		}
		if !errors.Is(lost.Err(), ErrExpired) || !errors.Is(closed.Err(), ErrClosed) {
			t.Errorf("%v and %v", lost.Err(), closed.Err())
		}
	})
}

// The clock says that a lease is over, even before anything has had the time to notice.
func TestErrAsksTheClock(t *testing.T) {
	inBubble(t, func(t *testing.T, s *leaseStore) {
		x := s.leases.Begin(&Place{Units: 1}, length, s.start.Add(-sure))
		ctx := x.Context(t.Context())
		if !errors.Is(x.Err(), ErrExpired) || !errors.Is(context.Cause(ctx), ErrExpired) {
			t.Errorf("%v and %v, want %v", x.Err(), context.Cause(ctx), ErrExpired)
		}
		s.wait(0)
		s.wantLost(t, 0, 1, ErrExpired)
	})
}

func TestContextEndsWithItsParent(t *testing.T) {
	inBubble(t, func(t *testing.T, s *leaseStore) {
		x := s.begin(1)
		parent, cancel := context.WithCancel(t.Context())
		one, other := x.Context(parent), x.Context(t.Context())
		cancel()
		if one.Err() == nil || other.Err() != nil || x.Err() != nil {
			t.Errorf("%v, %v and %v, want only the first to end", one.Err(), other.Err(), x.Err())
		}
		x.End()
		if other.Err() == nil || x.Context(t.Context()).Err() == nil {
			t.Error("a context of a lease that has ended goes on")
		}
	})
}

// Finish ends a lease that is a part of something else, and says what had become of it.
func TestFinishTellsWhatWasBefore(t *testing.T) {
	inBubble(t, func(t *testing.T, s *leaseStore) {
		var x, lost, closed Lease
		s.leases.Start(&x, &Place{Units: 1}, length, time.Now())
		s.leases.Start(&lost, &Place{Units: 2}, length, time.Now().Add(-sure))
		if err := x.Finish(); err != nil || x.End() {
			t.Errorf("it was over before: %v", err)
		}
		if err := x.Finish(); !errors.Is(err, context.Canceled) {
			t.Errorf("it was over before for %v", err)
		}
		if err := lost.Finish(); !errors.Is(err, ErrExpired) {
			t.Errorf("it was over before for %v", err)
		}
		s.leases.Close()
		s.leases.Start(&closed, &Place{Units: 3}, length, time.Now())
		if err := closed.Finish(); !errors.Is(err, ErrClosed) {
			t.Errorf("it was over before for %v", err)
		}
	})
}
