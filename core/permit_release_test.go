package core_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"

	"github.com/weir-go/ratelimit/core"
)

// failing is a store whose next settlements fail with given errors, before or after they are carried out.
type failing struct {
	core.Store

	mu       sync.Mutex
	before   []error // nil: the settlement is carried out
	after    []error
	decided  error // of all calls, after they were decided
	settled  atomic.Int64
	released atomic.Int64
}

func (s *failing) take(list *[]error) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(*list) > 0 {
		err, *list = (*list)[0], (*list)[1:]
	}
	return err
}

// failNext sets the errors of the next settlements.
func (s *failing) failNext(errs []error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before = errs
}

func (s *failing) Decide(ctx context.Context, calls []core.Call) (int, error) {
	answered, err := s.Store.Decide(ctx, calls[:1])
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.decided != nil && calls[0].Receipts != nil {
		return 0, s.decided
	}
	return answered, err
}

func (s *failing) Settle(ctx context.Context, list []core.Settlement) error {
	s.settled.Add(1)
	if err := s.take(&s.before); err != nil {
		return err
	}
	for i := range list {
		if list[i].Check.Limit.Name() == "exports" && !list[i].Renew {
			s.released.Add(1)
		}
	}
	if err := s.Store.Settle(ctx, list); err != nil {
		return err
	}
	return s.take(&s.after)
}

// free wants all places of a key to be free but some.
func free(t *testing.T, s core.Store, key string, limit core.Places, held int) {
	t.Helper()
	d, err := core.New(s).Peek(t.Context(), key, limit)
	if err != nil || d.Remaining != limit.Capacity()-held {
		t.Errorf("%d of %d places of %s are free, and %d should be held; %v", d.Remaining, limit.Capacity(), key, held, err)
	}
}

// However often a place is given back, by whomever, and at once: it is given back once, and nobody else's is.
func TestPlaceIsGivenBackOnce(t *testing.T) {
	for name, end := range map[string]func(*core.Reservation, *core.Permit) error{
		"Settle":      func(r *core.Reservation, _ *core.Permit) error { return r.Settle(t.Context(), 1) },
		"SettleLater": func(r *core.Reservation, _ *core.Permit) error { return r.SettleLater(7) },
		"Cancel":      func(r *core.Reservation, _ *core.Permit) error { return r.Cancel(t.Context()) },
		"Release":     func(_ *core.Reservation, p *core.Permit) error { p.Release(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			s := &failing{Store: core.NewMemory()}
			l := core.New(s)
			other := acquire(t, l, "tenant", exports)
			r, err := l.Reserve(t.Context(), core.Check{Key: "tenant", Limit: exports})
			if err != nil || !r.Allowed() {
				t.Fatal(err)
			}
			p := r.Permit(t.Context())
			var group sync.WaitGroup
			group.Go(func() {
				if err := end(r, p); err != nil {
					t.Error(err)
				}
			})
			for range 20 {
				group.Go(p.Release)
				group.Go(func() { _, _, _ = p.Err(), p.Token(), p.Context() })
			}
			group.Wait()
			_ = l.Close()
			if s.released.Load() != 1 {
				t.Errorf("it was given back %d times", s.released.Load())
			}
			if p.Err() == nil || p.Context().Err() == nil {
				t.Error("a place that was given back seems to be held")
			}
			if other.Err() == nil {
				t.Error("Close ends the leases of all permits")
			}
		})
	}
}

// The rest of a reservation stays charged when its Permit is released, and can be settled afterwards.
func TestReservationIsSettledBesideItsPermit(t *testing.T) {
	rate := core.Leaky(10, core.PerHour(1))
	for name, settleFirst := range map[string]bool{"before it": true, "after it": false} {
		t.Run(name, func(t *testing.T) {
			s := &failing{Store: core.NewMemory()}
			l := core.New(s)
			r, err := l.Reserve(t.Context(), core.Check{Key: "tenant", Limit: rate, Cost: 8}, core.Check{Key: "tenant", Limit: exports, Cost: 2})
			if err != nil || !r.Allowed() {
				t.Fatal(err)
			}
			p := r.Permit(t.Context())
			if !settleFirst {
				p.Release()
				free(t, s.Store, "tenant", exports, 0)
			}
			if err := r.Settle(t.Context(), 3, 0); err != nil {
				t.Error(err)
			}
			free(t, s.Store, "tenant", exports, 0)
			p.Release()
			if err := r.Settle(t.Context(), 3, 0); !errors.Is(err, core.ErrSettled) {
				t.Errorf("settled twice: %v", err)
			}
			if d, err := l.Peek(t.Context(), "tenant", rate); err != nil || d.Remaining != 7 {
				t.Errorf("%d remain, want 7; %v", d.Remaining, err)
			}
			if s.released.Load() != 1 {
				t.Errorf("the places were given back %d times", s.released.Load())
			}
		})
	}
}

// A release that is not answered is tried again, whether or not it was carried out, until it is or two seconds
// have passed.
func TestReleaseIsTriedAgain(t *testing.T) {
	unknown := errors.New("the answer was lost")
	for name, c := range map[string]struct{ before, after []error }{
		"not sent":                {before: []error{core.ErrNotDone, core.ErrNotDone}},
		"lost":                    {before: []error{unknown, unknown, unknown}},
		"carried out, unanswered": {after: []error{unknown, unknown}},
	} {
		t.Run(name, func(t *testing.T) {
			bubbletest.Run(t, func(t *testing.T) {
				s := &failing{Store: core.NewMemory(), before: c.before, after: c.after}
				l := core.New(s)
				defer l.Close()
				p := acquire(t, l, "tenant", exports)
				p.Release()
				time.Sleep(time.Second)
				free(t, s.Store, "tenant", exports, 0)
				asked := s.settled.Load()
				time.Sleep(time.Minute)
				if s.settled.Load() != asked {
					t.Error("it is tried again after it was answered")
				}
			})
		})
	}
	bubbletest.Run(t, func(t *testing.T) {
		s := &failing{Store: core.NewMemory()}
		for range 1000 {
			s.before = append(s.before, unknown)
		}
		l := core.New(s)
		defer l.Close()
		p := acquire(t, l, "tenant", exports)
		p.Release()
		time.Sleep(3 * time.Second)
		asked := s.settled.Load()
		time.Sleep(exports.Rate().Period)
		if s.settled.Load() != asked || asked > 25 {
			t.Errorf("it was tried %d times, and then %d more", asked, s.settled.Load()-asked)
		}
		free(t, s.Store, "tenant", exports, 0) // the lease has ended
	})
}

// stays is a store that outlives its limiter.
type stays struct{ core.Store }

func (stays) Close() error { return nil }

// After a settlement that was not answered, the places are given back again, and nothing else.
func TestPlacesOfAnUnansweredSettlement(t *testing.T) {
	s := &failing{Store: stays{core.NewMemory()}, before: []error{errors.New("the answer was lost")}}
	l := core.New(s)
	rate := core.Leaky(10, core.PerHour(1))
	r, err := l.Reserve(t.Context(), core.Check{Key: "tenant", Limit: rate, Cost: 8}, core.Check{Key: "tenant", Limit: exports, Cost: 2})
	if err != nil || !r.Allowed() {
		t.Fatal(err)
	}
	if err := r.Cancel(t.Context()); err == nil {
		t.Error("no error")
	}
	if err := r.Cancel(t.Context()); !errors.Is(err, core.ErrSettled) {
		t.Error(err)
	}
	_ = l.Close()
	l = core.New(s) // another one
	free(t, s.Store, "tenant", exports, 0)
	if d, err := l.Peek(t.Context(), "tenant", rate); err != nil || d.Remaining != 2 {
		t.Errorf("%d remain, want 2: the rate may have been given back before; %v", d.Remaining, err)
	}
}

// A cluster may settle a part: the places of the other part are given back again.
func TestPermitOfTwoPlacesThatAreGivenBackInPart(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		memory := core.NewMemory()
		l := core.New(half{memory})
		defer l.Close()
		imports := core.Concurrent(3, time.Minute).Named("imports")
		r, err := l.Reserve(t.Context(), core.Check{Key: "tenant", Limit: exports}, core.Check{Key: "tenant", Limit: imports, Cost: 2})
		if err != nil || !r.Allowed() {
			t.Fatal(err)
		}
		r.Permit(t.Context()).Release()
		time.Sleep(time.Second)
		free(t, memory, "tenant", exports, 0)
		free(t, memory, "tenant", imports, 0)
	})
}

// What a call may have taken that was not answered is given back. What was certainly not taken is not.
func TestPlacesOfAnUnansweredCallAreGivenBack(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		s := &failing{Store: core.NewMemory(), decided: errors.New("the answer was lost")}
		l := core.New(s)
		defer l.Close()
		for name, ask := range map[string]func() error{
			"Acquire":    func() error { _, err := l.Acquire(t.Context(), "tenant", exports); return err },
			"TryAcquire": func() error { _, err := l.TryAcquire(t.Context(), "tenant", exports); return err },
			"Reserve": func() error {
				_, err := l.Reserve(t.Context(), core.Check{Key: "tenant", Limit: core.Unlimited}, core.Check{Key: "tenant", Limit: exports, Cost: 2})
				return err
			},
		} {
			if err := ask(); err == nil {
				t.Errorf("%s: no error", name)
			}
			synctest.Wait()
			free(t, s.Store, "tenant", exports, 0)
		}
		s.decided = core.ErrNotDone
		before := s.settled.Load()
		if _, err := l.Acquire(t.Context(), "tenant", exports); !errors.Is(err, core.ErrNotDone) {
			t.Error(err)
		}
		synctest.Wait()
		if s.settled.Load() != before {
			t.Error("what was certainly not taken is given back")
		}
	})
}
