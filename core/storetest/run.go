package storetest

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-go/ratelimit/core"
)

// Factory makes a store with now as its clock. The store is empty, or at least shares no state with any other. It decides
// by that clock alone, in whole microseconds, and keeps states for at least an hour longer than it would, since the clock
// may step back. Factory has t close all that has to be closed.
//
// Several stores may be used at the same time.
type Factory func(t *testing.T, now func() time.Time) core.Store

// Run checks that a store keeps every law. Its subtests run in parallel.
func Run(t *testing.T, newStore Factory) {
	for _, law := range slices.Concat(laws, leaving, choosing, settling, growing, reserving, holding, waiting, banning, leasing, sharing, prepaying, owing) {
		t.Run(law.name, func(t *testing.T) {
			t.Parallel()
			for _, algorithm := range law.algorithms() {
				t.Run(algorithm, func(t *testing.T) {
					s := newStand(t, newStore)
					s.algorithm = algorithm
					law.holds(t, s)
				})
			}
		})
	}
	t.Run("random histories agree with the exact model", func(t *testing.T) {
		t.Parallel()
		Agree(t, newStore)
	})
}

// law is one law, and how it is checked.
type law struct {
	name string
	// only names the algorithms that the law is about; none means each of them, and
	// "any" is a law that mixes them itself.
	only  []string
	holds func(*testing.T, *stand)
}

func (l law) algorithms() []string {
	if l.only == nil {
		return everyAlgorithm
	}
	return l.only
}

// clock is the time of a stand, in microseconds since 1970.
type clock struct{ now atomic.Int64 }

func (c *clock) Now() time.Time { return time.UnixMicro(c.now.Load()).UTC() }

// start is when the clocks begin.
var start = time.Date(2026, time.November, 21, 12, 0, 0, 0, time.UTC)

// stand is a store under test with its clock.
type stand struct {
	algorithm string
	store     core.Store
	limiter   *core.Limiter
	clock     clock
	keys      int
}

func newStand(t *testing.T, newStore Factory) *stand {
	s := &stand{}
	s.clock.now.Store(start.UnixMicro())
	s.store = newStore(t, s.clock.Now)
	s.limiter = core.New(s.store)
	return s
}

// key returns a key that has not been used.
func (s *stand) key() string {
	s.keys++
	return fmt.Sprintf("key-%d", s.keys)
}

func (s *stand) wait(d time.Duration) { s.clock.now.Add(d.Microseconds()) }

// allow is AllowN under a limit that has to be a quota.
func (s *stand) allow(t rapid.TB, key string, l core.Limit, n int) core.Decision {
	t.Helper()
	d, err := s.limiter.AllowN(tContext(t), key, l.(core.Quota), n)
	if err != nil {
		t.Fatalf("AllowN(%q, %s, %d): %v", key, l, n, err)
	}
	return asAsked(d)[0]
}

func (s *stand) allowAll(t rapid.TB, checks ...core.Check) []core.Decision {
	t.Helper()
	d, err := s.limiter.AllowAll(tContext(t), checks...)
	if err != nil {
		t.Fatalf("AllowAll(%s): %v", callString(checks), err)
	}
	return asAsked(d...)
}

func (s *stand) peek(t rapid.TB, key string, l core.Limit) core.Decision {
	t.Helper()
	d, err := s.limiter.Peek(tContext(t), key, l)
	if err != nil {
		t.Fatalf("Peek(%q, %s): %v", key, l, err)
	}
	return asAsked(d)[0]
}

// peekAt returns the answer to checks after a wait, without charging them.
func (s *stand) peekAt(t rapid.TB, wait time.Duration, checks ...core.Check) []core.Decision {
	t.Helper()
	s.wait(wait)
	defer s.wait(-wait)
	d, err := s.limiter.PeekAll(tContext(t), checks...)
	if err != nil {
		t.Fatalf("PeekAll(%s): %v", callString(checks), err)
	}
	return asAsked(d...)
}

// asAsked returns decisions as they are when each denial comes from the store: a cache in front may repeat one.
func asAsked(decisions ...core.Decision) []core.Decision {
	for i := range decisions {
		decisions[i].Repeated = false
	}
	return decisions
}
