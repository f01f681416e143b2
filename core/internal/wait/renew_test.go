package wait

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"
)

func TestShortRequestIsNotRenewed(t *testing.T) {
	inBubble(t, func(t *testing.T, s *leaseStore) {
		for i := range 100 {
			x := s.begin(i)
			s.wait(time.Duration(i+1) * (third - 1))
			if !x.End() {
				t.Fatal("the first End was not the first")
			}
		}
		s.wait(1000 * length)
		if times := s.times(); len(times) > 0 {
			t.Errorf("renewals at %v, want none", times)
		}
		if s.leases.timer == nil || s.leases.alarm != never {
			t.Errorf("the timer is set to %v, though there are no leases", s.leases.alarm)
		}
	})
}

// A lease is renewed a third of its length after the request, or the last renewal, was sent: its reply may take
// long.
func TestRenewedAThirdAfterTheLastWasSent(t *testing.T) {
	inBubble(t, func(t *testing.T, s *leaseStore) {
		s.renew = func(_ context.Context, _ []int, answers []Renewal) error {
			time.Sleep(4 * time.Second)
			all(answers, Held)
			return nil
		}
		time.Sleep(2 * time.Second)
		x := s.leases.Begin(&Place{Units: 1}, length, s.start) // its reply took two seconds
		s.wait(3*third + 1)
		if want := []time.Duration{third, 2 * third, 3 * third}; !slices.Equal(s.times(), want) {
			t.Errorf("renewed at %v, want %v", s.times(), want)
		}
		x.End()
	})
}

func TestCertainFromWhenTheLastRenewalWasSent(t *testing.T) {
	inBubble(t, func(t *testing.T, s *leaseStore) {
		s.renew = func(_ context.Context, _ []int, answers []Renewal) error {
			if len(s.times()) > 1 {
				return errLeaseDown
			}
			time.Sleep(4 * time.Second)
			all(answers, Held)
			return nil
		}
		x := s.begin(1)
		s.wait(third + sure - 1)
		if err := x.Err(); err != nil {
			t.Errorf("just before: %v", err)
		}
		s.wait(third + sure)
		if err := x.Err(); !errors.Is(err, ErrExpired) {
			t.Errorf("then: %v, want %v", err, ErrExpired)
		}
		s.wantLost(t, third+sure, 1, ErrExpired)
	})
}

// A renewal that fails is retried soon, until the lease is lost. Then nothing is sent any more.
func TestFailureIsRetriedUntilTheLeaseIsLost(t *testing.T) {
	inBubble(t, func(t *testing.T, s *leaseStore) {
		s.renew = func(context.Context, []int, []Renewal) error { return errLeaseDown }
		x := s.begin(1)
		ctx := x.Context(t.Context())
		s.wait(sure - 1)
		if ctx.Err() != nil {
			t.Error("the context ended before the lease was lost")
		}
		s.wait(10 * length)
		var want []time.Duration
		for at := third; at < sure; at += length / 30 {
			want = append(want, at)
		}
		if !slices.Equal(s.times(), want) {
			t.Errorf("tried at %v, want %v", s.times(), want)
		}
		if err := context.Cause(ctx); !errors.Is(err, ErrExpired) {
			t.Errorf("the context ended with %v", err)
		}
		s.wantLost(t, sure, 1, ErrExpired)
		if want := (RenewalReport{Unanswered: 1, Err: errLeaseDown}); s.all().reports[0] != want {
			t.Errorf("the report is %+v, want %+v", s.all().reports[0], want)
		}
	})
}

func TestShortLeasesAreNotRetriedAllTheTime(t *testing.T) {
	inBubble(t, func(t *testing.T, s *leaseStore) {
		s.renew = func(context.Context, []int, []Renewal) error { return errLeaseDown }
		s.leases.random = func() float64 { return 0.5 }
		const short = 60 * time.Millisecond
		s.leases.Begin(&Place{Units: 1}, short, time.Now())
		s.wait(time.Second)
		// 1 ms early, and then every 10 ms and half of 5 ms more
		want := []time.Duration{19 * time.Millisecond, 31500 * time.Microsecond, 44 * time.Millisecond, 56500 * time.Microsecond}
		if !slices.Equal(s.times(), want) {
			t.Errorf("tried at %v, want %v", s.times(), want)
		}
	})
}

func TestNotHeldIsLostAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, s *leaseStore) {
		s.renew = func(_ context.Context, values []int, answers []Renewal) error {
			time.Sleep(time.Second)
			all(answers, Held)
			answers[slices.Index(values, 2)] = NotHeld
			return nil
		}
		one, two := s.begin(1), s.begin(2)
		ctx := two.Context(t.Context())
		s.wait(third + time.Second)
		s.wantLost(t, third+time.Second, 2, ErrNotHeld)
		if !errors.Is(two.Err(), ErrNotHeld) || !errors.Is(context.Cause(ctx), ErrNotHeld) || one.Err() != nil {
			t.Errorf("%v, %v, and the other one %v", two.Err(), context.Cause(ctx), one.Err())
		}
		if want := (RenewalReport{Held: 1, NotHeld: 1, Took: time.Second}); s.all().reports[0] != want {
			t.Errorf("the report is %+v, want %+v", s.all().reports[0], want)
		}
		one.End()
	})
}

// A store on two servers, one of which is down, still renews what the other one holds.
func TestAnswersCountBesideAnError(t *testing.T) {
	inBubble(t, func(t *testing.T, s *leaseStore) {
		s.renew = func(_ context.Context, values []int, answers []Renewal) error {
			if i := slices.Index(values, 2); i >= 0 {
				answers[i] = Held
			}
			return errLeaseDown
		}
		one, two := s.begin(1), s.begin(2)
		s.wait(sure)
		s.wantLost(t, sure, 1, ErrExpired)
		if one.Err() == nil || two.Err() != nil {
			t.Errorf("%v and %v, want the second to be held", one.Err(), two.Err())
		}
		two.End()
	})
}

func TestLateAnswerBringsNothingBack(t *testing.T) {
	inBubble(t, func(t *testing.T, s *leaseStore) {
		s.renew = func(_ context.Context, _ []int, answers []Renewal) error {
			time.Sleep(sure - third) // just too late
			all(answers, Held)
			return nil
		}
		x := s.begin(1)
		s.wait(10 * length)
		if err := x.Err(); !errors.Is(err, ErrExpired) {
			t.Errorf("%v, want %v", err, ErrExpired)
		}
		s.wantLost(t, sure, 1, ErrExpired)
		if n := len(s.times()); n != 1 {
			t.Errorf("renewed %d times, want 1", n)
		}
	})
}

// A Renew that hangs delays neither the loss of other leases, nor their renewal where another one may be in flight.
func TestSlowRenewDelaysNobodysLoss(t *testing.T) {
	for _, inFlight := range []int{1, 2} {
		inBubble(t, func(t *testing.T, s *leaseStore) {
			s.leases.InFlight = inFlight
			s.renew = func(_ context.Context, values []int, answers []Renewal) error {
				if values[0] == 1 {
					time.Sleep(10 * length)
				}
				all(answers, Held)
				return nil
			}
			s.begin(1)
			s.wait(time.Second)
			s.begin(2)
			s.wait(sure + 2*time.Second)
			lost := []toldLost{{sure, 1, ErrExpired}, {sure + time.Second, 2, ErrExpired}}[:3-inFlight]
			if !slices.Equal(s.all().lost, lost) {
				t.Errorf("with %d in flight, lost are %v, want %v", inFlight, s.all().lost, lost)
			}
			s.wait(20 * length)
		})
	}
}

func TestBatchesHaveABound(t *testing.T) {
	inBubble(t, func(t *testing.T, s *leaseStore) {
		for i := range 300 {
			s.begin(i)
		}
		s.wait(third)
		if len(s.all().asked) != 3 || len(s.all().asked[0].values) != 128 || len(s.all().asked[1].values) != 128 || len(s.all().asked[2].values) != 44 {
			t.Errorf("%d batches", len(s.all().asked))
		}
		var values []int
		for _, one := range s.all().asked {
			values = append(values, one.values...)
		}
		slices.Sort(values)
		if values = slices.Compact(values); len(values) != 300 {
			t.Errorf("%d leases were renewed, want 300", len(values))
		}
	})
}

func TestCrowdIsSpread(t *testing.T) {
	inBubble(t, func(t *testing.T, s *leaseStore) {
		s.leases = NewLeases(s.config())
		for i := range 1000 {
			s.begin(i)
		}
		s.wait(third)
		times := s.times()
		slices.Sort(times)
		if n := len(slices.Compact(times)); n < 500 || times[0] < third-length/30 || times[0] == third {
			t.Errorf("renewed at %d times from %v on", n, times[0])
		}
		s.leases.Close()
	})
}

// A goroutine that gets a processor late sends nothing for leases that are lost meanwhile.
func TestNothingIsSentForWhatIsLost(t *testing.T) {
	inBubble(t, func(t *testing.T, s *leaseStore) {
		s.leases.Begin(&Place{Units: 1}, length, s.start.Add(-sure))
		s.leases.mu.Lock()
		s.leases.inFlight, s.leases.running, s.leases.starting = 1, 1, true
		s.leases.mu.Unlock()
		s.leases.renew() // mostly before the timer goes off
		if len(s.times()) > 0 {
			t.Errorf("renewed at %v", s.times())
		}
		s.wait(0)
		s.wantLost(t, 0, 1, ErrExpired)
	})
}

// An answer that comes before the timer has had the time to go off is late all the same.
func TestAnswerAtTheDeadlineIsLate(t *testing.T) {
	inBubble(t, func(t *testing.T, s *leaseStore) {
		x := s.leases.Begin(&Place{Units: 1}, length, s.start.Add(-sure))
		s.leases.mu.Lock()
		s.leases.inFlight = 1
		s.leases.mu.Unlock()
		s.leases.tell(s.leases.apply([]*Lease{x}, []Renewal{Held}, 0))
		s.wantLost(t, 0, 1, ErrExpired)
	})
}
