package wait

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"
)

func TestPanicsAreContained(t *testing.T) {
	inBubble(t, func(t *testing.T, s *leaseStore) {
		s.renew = func(_ context.Context, _ []int, answers []Renewal) error {
			all(answers, Held)
			panic("renew")
		}
		s.leases.Lost = func(p *Place, reason error) { s.noteLost(p, reason); panic("lost") }
		s.leases.Renewed = func(r RenewalReport) { s.noteRenewed(r); panic("renewed") }
		s.begin(1)
		s.wait(sure)
		s.wantLost(t, sure, 1, ErrExpired)
		if r := s.all().reports[0]; r.Unanswered != 1 || fmt.Sprint(r.Err) != "lease: Renew panicked: renew" {
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
	inBubble(t, func(t *testing.T, s *leaseStore) {
		s.renew = func(context.Context, []int, []Renewal) error {
			s.begin(2).End()
			return errLeaseDown
		}
		var x atomic.Pointer[Lease]
		var used atomic.Int32
		s.leases.Renewed = func(RenewalReport) { s.begin(3).End(); used.Add(1) }
		s.leases.Lost = func(*Place, error) {
			used.Add(1)
			if x := x.Load(); s.leases.Len() != 0 || !errors.Is(x.Err(), ErrExpired) || !x.End() {
				t.Errorf("%d leases, %v", s.leases.Len(), x.Err())
			}
		}
		x.Store(s.begin(1))
		s.wait(length)
		if used := used.Load(); used != 21 { // a report every length/30 from a third on, and a loss
			t.Errorf("hooks were called %d times", used)
		}
	})
}

// The contexts of all lost leases end before the first hook is called: a slow hook delays nobody.
func TestSlowHookDelaysNobody(t *testing.T) {
	inBubble(t, func(t *testing.T, s *leaseStore) {
		s.renew = func(context.Context, []int, []Renewal) error { return errLeaseDown }
		s.leases.Lost = func(*Place, error) { time.Sleep(10 * length) }
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
	inBubble(t, func(t *testing.T, s *leaseStore) {
		s.renew = func(ctx context.Context, _ []int, answers []Renewal) error {
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
		if len(s.all().reports) != 1 || s.leases.Len() != 0 || s.leases.running != 0 {
			t.Errorf("%d reports, %d leases and %d goroutines after Close", len(s.all().reports), s.leases.Len(), s.leases.running)
		}
		three := s.begin(3)
		for _, x := range []*Lease{one, two, three} {
			if !errors.Is(x.Err(), ErrClosed) || !x.End() {
				t.Errorf("lease %d: %v", x.of.Units, x.Err())
			}
		}
		if !errors.Is(context.Cause(ctx), ErrClosed) {
			t.Errorf("the context ended with %v", context.Cause(ctx))
		}
		s.wait(10 * length)
		if len(s.all().lost) > 0 || len(s.times()) != 1 {
			t.Errorf("after Close: lost are %v, renewed at %v", s.all().lost, s.times())
		}
	})
}

func TestCloseWaitsOnlySoLong(t *testing.T) {
	inBubble(t, func(t *testing.T, s *leaseStore) {
		s.renew = func(context.Context, []int, []Renewal) error {
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
	renew := func(context.Context, []*Place, []Renewal) error { return nil }
	for _, config := range []LeasesConfig{{Most: 1, InFlight: 1}, {Renew: renew, InFlight: 1}, {Renew: renew, Most: 1}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("Most %d, InFlight %d: no panic", config.Most, config.InFlight)
				}
			}()
			NewLeases(config)
		}()
	}
}

// Leases begin, are asked and end on many goroutines at once.
func TestManyGoroutines(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		s := &leaseStore{start: time.Now()}
		s.leases = NewLeases(s.config())
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
		if s.leases.Len() != 0 || s.leases.running != 0 || len(s.all().lost) > 0 {
			t.Errorf("%d leases and %d goroutines are left, %d were lost", s.leases.Len(), s.leases.running, len(s.all().lost))
		}
		s.leases.Close()
	})
}
