package wait

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"
)

const (
	length = 30 * time.Second
	third  = length / 3
	sure   = length - length/100
)

var errLeaseDown = errors.New("down")

// leaseStore is what renews, as a test wants it, and what it was asked. Times count from the beginning of the test.
type leaseStore struct {
	start  time.Time
	renew  func(ctx context.Context, values []int, answers []Renewal) error // nil: all are held
	leases *Leases

	mu   sync.Mutex
	seen seen
}

// seen is what a store was asked and a test was told.
type seen struct {
	asked   []asked
	lost    []toldLost
	reports []RenewalReport
}

// asked is one Renew.
type asked struct {
	at     time.Duration
	values []int
}

// toldLost is one call of the hook for a lease that is lost.
type toldLost struct {
	at     time.Duration
	value  int
	reason error
}

// inBubble runs a test with Leases that are renewed for the first time exactly when a third has passed, and sees that nothing is left in the end.
func inBubble(t *testing.T, test func(t *testing.T, s *leaseStore)) {
	t.Helper()
	bubbletest.Run(t, func(t *testing.T) {
		s := &leaseStore{start: time.Now()}
		s.leases = NewLeases(s.config())
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

func (s *leaseStore) config() LeasesConfig {
	return LeasesConfig{Renew: s.ask, Most: 128, InFlight: 1, Lost: s.noteLost, Renewed: s.noteRenewed}
}

func (s *leaseStore) ask(ctx context.Context, places []*Place, answers []Renewal) error {
	values := numbers(places)
	s.mu.Lock()
	s.seen.asked = append(s.seen.asked, asked{time.Since(s.start), values})
	s.mu.Unlock()
	if s.renew != nil {
		return s.renew(ctx, values, answers)
	}
	all(answers, Held)
	return nil
}

func all(answers []Renewal, are Renewal) {
	for i := range answers {
		answers[i] = are
	}
}

// numbers returns the numbers of places, which is how many they are.
func numbers(places []*Place) (list []int) {
	for _, p := range places {
		list = append(list, p.Units)
	}
	return list
}

func (s *leaseStore) noteLost(p *Place, reason error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen.lost = append(s.seen.lost, toldLost{time.Since(s.start), p.Units, reason})
}

func (s *leaseStore) noteRenewed(r RenewalReport) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen.reports = append(s.seen.reports, r)
}

// begin begins a lease of the usual length, now.
func (s *leaseStore) begin(value int) *Lease {
	return s.leases.Begin(&Place{Units: value}, length, time.Now())
}

// all returns what was seen so far.
func (s *leaseStore) all() seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen
}

// times returns when the store was asked.
func (s *leaseStore) times() (list []time.Duration) {
	for _, one := range s.all().asked {
		list = append(list, one.at)
	}
	return list
}

// wait waits until a time, and until all has happened that happens then.
func (s *leaseStore) wait(until time.Duration) {
	time.Sleep(until - time.Since(s.start))
	synctest.Wait()
}

// wantLost fails unless exactly one lease was lost, at a time and for a reason.
func (s *leaseStore) wantLost(t *testing.T, at time.Duration, value int, reason error) {
	t.Helper()
	if lost, want := s.all().lost, (toldLost{at, value, reason}); len(lost) != 1 || lost[0] != want {
		t.Errorf("lost are %v, want %v", lost, want)
	}
}
