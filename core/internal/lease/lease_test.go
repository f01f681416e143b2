package lease

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

func TestShortRequestIsNotRenewed(t *testing.T) {
	inBubble(t, func(t *testing.T, s *store) {
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
	inBubble(t, func(t *testing.T, s *store) {
		s.renew = func(_ context.Context, _ []int, answers []Answer) error {
			time.Sleep(4 * time.Second)
			all(answers, Held)
			return nil
		}
		time.Sleep(2 * time.Second)
		x := s.leases.Begin(1, length, s.start) // its reply took two seconds
		s.wait(3*third + 1)
		if want := []time.Duration{third, 2 * third, 3 * third}; !slices.Equal(s.times(), want) {
			t.Errorf("renewed at %v, want %v", s.times(), want)
		}
		x.End()
	})
}

func TestCertainFromWhenTheLastRenewalWasSent(t *testing.T) {
	inBubble(t, func(t *testing.T, s *store) {
		s.renew = func(_ context.Context, _ []int, answers []Answer) error {
			if len(s.times()) > 1 {
				return errDown
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
	inBubble(t, func(t *testing.T, s *store) {
		s.renew = func(context.Context, []int, []Answer) error { return errDown }
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
		if want := (Report{Unknown: 1, Err: errDown}); s.reports[0] != want {
			t.Errorf("the report is %+v, want %+v", s.reports[0], want)
		}
	})
}

func TestShortLeasesAreNotRetriedAllTheTime(t *testing.T) {
	inBubble(t, func(t *testing.T, s *store) {
		s.renew = func(context.Context, []int, []Answer) error { return errDown }
		s.leases.random = func() float64 { return 0.5 }
		const short = 60 * time.Millisecond
		s.leases.Begin(1, short, time.Now())
		s.wait(time.Second)
		// 1 ms early, and then every 10 ms and half of 5 ms more
		want := []time.Duration{19 * time.Millisecond, 31500 * time.Microsecond, 44 * time.Millisecond, 56500 * time.Microsecond}
		if !slices.Equal(s.times(), want) {
			t.Errorf("tried at %v, want %v", s.times(), want)
		}
	})
}

func TestNotHeldIsLostAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, s *store) {
		s.renew = func(_ context.Context, values []int, answers []Answer) error {
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
		if want := (Report{Held: 1, NotHeld: 1, Took: time.Second}); s.reports[0] != want {
			t.Errorf("the report is %+v, want %+v", s.reports[0], want)
		}
		one.End()
	})
}

// A store on two servers, one of which is down, still renews what the other one holds.
func TestAnswersCountBesideAnError(t *testing.T) {
	inBubble(t, func(t *testing.T, s *store) {
		s.renew = func(_ context.Context, values []int, answers []Answer) error {
			if i := slices.Index(values, 2); i >= 0 {
				answers[i] = Held
			}
			return errDown
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
	inBubble(t, func(t *testing.T, s *store) {
		s.renew = func(_ context.Context, _ []int, answers []Answer) error {
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
		inBubble(t, func(t *testing.T, s *store) {
			s.leases.InFlight = inFlight
			s.renew = func(_ context.Context, values []int, answers []Answer) error {
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
			lost := []told{{sure, 1, ErrExpired}, {sure + time.Second, 2, ErrExpired}}[:3-inFlight]
			if !slices.Equal(s.lost, lost) {
				t.Errorf("with %d in flight, lost are %v, want %v", inFlight, s.lost, lost)
			}
			s.wait(20 * length)
		})
	}
}

func TestBatchesHaveABound(t *testing.T) {
	inBubble(t, func(t *testing.T, s *store) {
		for i := range 300 {
			s.begin(i)
		}
		s.wait(third)
		if len(s.asked) != 3 || len(s.asked[0].values) != 128 || len(s.asked[1].values) != 128 || len(s.asked[2].values) != 44 {
			t.Errorf("%d batches", len(s.asked))
		}
		var values []int
		for _, one := range s.asked {
			values = append(values, one.values...)
		}
		slices.Sort(values)
		if values = slices.Compact(values); len(values) != 300 {
			t.Errorf("%d leases were renewed, want 300", len(values))
		}
	})
}

func TestCrowdIsSpread(t *testing.T) {
	inBubble(t, func(t *testing.T, s *store) {
		s.leases = New(s.config())
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

func TestEndWinsOverWhatIsInFlight(t *testing.T) {
	for _, answer := range []Answer{Held, NotHeld, Unknown} {
		inBubble(t, func(t *testing.T, s *store) {
			s.renew = func(_ context.Context, _ []int, answers []Answer) error {
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
			if len(s.lost) > 0 || len(s.times()) != 1 || !errors.Is(x.Err(), context.Canceled) {
				t.Errorf("answer %d: lost are %v, renewed at %v", answer, s.lost, s.times())
			}
		})
	}
}

func TestEndIsFirstOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, s *store) {
		s.renew = func(context.Context, []int, []Answer) error { return errDown }
		lost := s.begin(1)
		s.wait(sure)
		held := s.begin(2)
		closed := s.begin(3)
		for _, x := range []*Lease[int]{lost, held} {
			if !x.End() || x.End() || x.End() {
				t.Errorf("lease %d: the first End is not the only first", x.value)
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
	inBubble(t, func(t *testing.T, s *store) {
		x := s.leases.Begin(1, length, s.start.Add(-sure))
		ctx := x.Context(t.Context())
		if !errors.Is(x.Err(), ErrExpired) || !errors.Is(context.Cause(ctx), ErrExpired) {
			t.Errorf("%v and %v, want %v", x.Err(), context.Cause(ctx), ErrExpired)
		}
		s.wait(0)
		s.wantLost(t, 0, 1, ErrExpired)
	})
}

func TestContextEndsWithItsParent(t *testing.T) {
	inBubble(t, func(t *testing.T, s *store) {
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

func TestPanicsAreContained(t *testing.T) {
	inBubble(t, func(t *testing.T, s *store) {
		s.renew = func(_ context.Context, _ []int, answers []Answer) error {
			all(answers, Held)
			panic("renew")
		}
		s.leases.Lost = func(value int, reason error) { s.noteLost(value, reason); panic("lost") }
		s.leases.Renewed = func(r Report) { s.noteRenewed(r); panic("renewed") }
		s.begin(1)
		s.wait(sure)
		s.wantLost(t, sure, 1, ErrExpired)
		if r := s.reports[0]; r.Unknown != 1 || fmt.Sprint(r.Err) != "lease: Renew panicked: renew" {
			t.Errorf("the report is %+v", r)
		}
		s.renew = nil
		two := s.begin(2)
		s.wait(sure + 2*length)
		if two.Err() != nil {
			t.Errorf("afterwards: %v", two.Err())
		}
		two.End()
	})
}

// Renew and the hooks find the leases whole, and may use them.
func TestHooksMayUseTheLeases(t *testing.T) {
	inBubble(t, func(t *testing.T, s *store) {
		s.renew = func(context.Context, []int, []Answer) error {
			s.begin(2).End()
			return errDown
		}
		var x *Lease[int]
		used := 0
		s.leases.Renewed = func(Report) { s.begin(3).End(); used++ }
		s.leases.Lost = func(int, error) {
			used++
			if s.leases.Len() != 0 || !errors.Is(x.Err(), ErrExpired) || !x.End() {
				t.Errorf("%d leases, %v", s.leases.Len(), x.Err())
			}
		}
		x = s.begin(1)
		s.wait(length)
		if used != 21 { // a report every length/30 from a third on, and a loss
			t.Errorf("hooks were called %d times", used)
		}
	})
}

// The contexts of all lost leases end before the first hook is called: a slow hook delays nobody.
func TestSlowHookDelaysNobody(t *testing.T) {
	inBubble(t, func(t *testing.T, s *store) {
		s.renew = func(context.Context, []int, []Answer) error { return errDown }
		s.leases.Lost = func(int, error) { time.Sleep(10 * length) }
		var contexts []context.Context
		for i := range 3 {
			contexts = append(contexts, s.begin(i).Context(t.Context()))
		}
		s.wait(time.Second)
		late := s.begin(3).Context(t.Context())
		s.wait(sure + time.Second)
		for i, ctx := range append(contexts, late) {
			if ctx.Err() == nil {
				t.Errorf("the context of lease %d goes on", i)
			}
		}
		s.wait(50 * length)
	})
}

func TestCloseEndsEverything(t *testing.T) {
	inBubble(t, func(t *testing.T, s *store) {
		s.renew = func(ctx context.Context, _ []int, answers []Answer) error {
			<-ctx.Done()
			all(answers, Held)
			return ctx.Err()
		}
		one := s.begin(1)
		ctx := one.Context(t.Context())
		s.wait(third)
		two := s.begin(2)
		s.leases.Close()
		if time.Since(s.start) != third {
			t.Errorf("Close took %v", time.Since(s.start)-third)
		}
		if len(s.reports) != 1 || s.leases.Len() != 0 || s.leases.running != 0 {
			t.Errorf("%d reports, %d leases and %d goroutines after Close", len(s.reports), s.leases.Len(), s.leases.running)
		}
		three := s.begin(3)
		for _, x := range []*Lease[int]{one, two, three} {
			if !errors.Is(x.Err(), ErrClosed) || !x.End() {
				t.Errorf("lease %d: %v", x.value, x.Err())
			}
		}
		if !errors.Is(context.Cause(ctx), ErrClosed) {
			t.Errorf("the context ended with %v", context.Cause(ctx))
		}
		s.wait(10 * length)
		if len(s.lost) > 0 || len(s.times()) != 1 {
			t.Errorf("after Close: lost are %v, renewed at %v", s.lost, s.times())
		}
	})
}

func TestCloseWaitsOnlySoLong(t *testing.T) {
	inBubble(t, func(t *testing.T, s *store) {
		s.renew = func(context.Context, []int, []Answer) error {
			time.Sleep(length) // whatever its context says
			return nil
		}
		s.begin(1)
		s.wait(third)
		for n := range 2 {
			s.leases.Close()
			if want := third + time.Duration(n+1)*longestClose; time.Since(s.start) != want {
				t.Errorf("Close returned at %v, want %v", time.Since(s.start), want)
			}
		}
		s.wait(2 * length)
	})
}

func TestConfigIsComplete(t *testing.T) {
	renew := func(context.Context, []int, []Answer) error { return nil }
	for _, config := range []Config[int]{{Most: 1, InFlight: 1}, {Renew: renew, InFlight: 1}, {Renew: renew, Most: 1}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("Most %d, InFlight %d: no panic", config.Most, config.InFlight)
				}
			}()
			New(config)
		}()
	}
}

// Leases begin, are asked and end on many goroutines at once.
func TestManyGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{start: time.Now()}
		s.leases = New(s.config())
		var group sync.WaitGroup
		for i := range 200 {
			group.Go(func() {
				for n := range 20 {
					x := s.begin(i)
					ctx := x.Context(t.Context())
					time.Sleep(time.Duration(i*n) * time.Second / 10)
					if x.Err() != nil || ctx.Err() != nil || !x.End() {
						t.Errorf("lease %d: %v", i, x.Err())
					}
				}
			})
		}
		group.Wait()
		time.Sleep(length)
		synctest.Wait()
		if s.leases.Len() != 0 || s.leases.running != 0 || len(s.lost) > 0 {
			t.Errorf("%d leases and %d goroutines are left, %d were lost", s.leases.Len(), s.leases.running, len(s.lost))
		}
		s.leases.Close()
	})
}
