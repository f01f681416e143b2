package lease

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

const (
	length = 30 * time.Second
	third  = length / 3
	sure   = length - length/100
)

var errDown = errors.New("down")

// store is what renews, as a test wants it, and what it was asked. Times count from the beginning of the test.
type store struct {
	start  time.Time
	renew  func(ctx context.Context, values []int, answers []Answer) error // nil: all are held
	leases *Leases[int]

	mu   sync.Mutex
	seen seen
}

// seen is what a store was asked and a test was told.
type seen struct {
	asked   []asked
	lost    []told
	reports []Report
}

// asked is one Renew.
type asked struct {
	at     time.Duration
	values []int
}

// told is one call of the hook for a lease that is lost.
type told struct {
	at     time.Duration
	value  int
	reason error
}

// inBubble runs a test with Leases that are renewed for the first time exactly when a third has passed, and sees that nothing is left in the end.
func inBubble(t *testing.T, test func(t *testing.T, s *store)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &store{start: time.Now()}
		s.leases = New(s.config())
		s.leases.random = func() float64 { return 0 }
		test(t, s)
		s.leases.Close()
		time.Sleep(100 * length) // slow Renews and hooks return
		synctest.Wait()
		if s.leases.running != 0 || s.leases.Len() != 0 {
			t.Errorf("%d goroutines and %d leases are left", s.leases.running, s.leases.Len())
		}
	})
}

func (s *store) config() Config[int] {
	return Config[int]{Renew: s.ask, Most: 128, InFlight: 1, Lost: s.noteLost, Renewed: s.noteRenewed}
}

func (s *store) ask(ctx context.Context, values []int, answers []Answer) error {
	s.mu.Lock()
	s.seen.asked = append(s.seen.asked, asked{time.Since(s.start), values})
	s.mu.Unlock()
	if s.renew != nil {
		return s.renew(ctx, values, answers)
	}
	all(answers, Held)
	return nil
}

func all(answers []Answer, are Answer) {
	for i := range answers {
		answers[i] = are
	}
}

func (s *store) noteLost(value int, reason error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen.lost = append(s.seen.lost, told{time.Since(s.start), value, reason})
}

func (s *store) noteRenewed(r Report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen.reports = append(s.seen.reports, r)
}

// begin begins a lease of the usual length, now.
func (s *store) begin(value int) *Lease[int] { return s.leases.Begin(value, length, time.Now()) }

// all returns what was seen so far.
func (s *store) all() seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen
}

// times returns when the store was asked.
func (s *store) times() (list []time.Duration) {
	for _, one := range s.all().asked {
		list = append(list, one.at)
	}
	return list
}

// wait waits until a time, and until all has happened that happens then.
func (s *store) wait(until time.Duration) {
	time.Sleep(until - time.Since(s.start))
	synctest.Wait()
}

// wantLost fails unless exactly one lease was lost, at a time and for a reason.
func (s *store) wantLost(t *testing.T, at time.Duration, value int, reason error) {
	t.Helper()
	if lost, want := s.all().lost, (told{at, value, reason}); len(lost) != 1 || lost[0] != want {
		t.Errorf("lost are %v, want %v", lost, want)
	}
}
