package lease

import (
	"context"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/ratelimit/core/internal/exact"
)

// Config says how a Set works.
type Config struct {
	// Over is the part of a limit's capacity that may be admitted too much.
	Over float64
	// Ask asks the store for up to want units under terms. It is called on goroutines of the Set. An error grants nothing.
	Ask func(ctx context.Context, key string, spec *exact.Spec, terms *Terms, want int) (Asked, error)
	// Return gives unspent units back. An error says that the fate of all of them is unknown. It is called on a goroutine
	// of the Set.
	Return func(ctx context.Context, list []Unspent) error
	// Tell is called with each grant that has ended. It may be nil.
	Tell func(Ended)
}

// Unspent is a grant with units to give back.
type Unspent struct {
	Key  string
	Spec *exact.Spec
	// Units were granted, of which Spent are spent.
	Units, Spent int
	Receipt      any

	late int
	told bool // Config.Tell knows of it
}

// Ended is the outcome of a grant.
type Ended struct {
	Spec *exact.Spec
	// Granted = Spent + Returned + Lapsed.
	Granted, Spent, Returned, Lapsed int
	// Late is how many units this process has spent after the charge of the grant that were charged by then: units of the
	// grant and of the one before it. In no time has the process helped to admit more than that beyond the limit.
	Late int
}

// mostKeys bounds how many keys have grants. The others ask the store.
const mostKeys = 1 << 16

// rows is how many lists the table has: a power of 2.
const rows = 1 << 14

// longestClose bounds how long Close waits for the store.
const longestClose = 2 * time.Second

// Set has the grants of a process. It is used by any number of goroutines at once. [NewSet] makes it. It has goroutines only
// while it asks the store or gives back, and ends them in [Set.Close].
type Set struct {
	config Config
	seed   maphash.Seed
	start  time.Time
	table  [rows]atomic.Pointer[entry] // lists of entries, which are read without a lock
	heat   heat

	mu      sync.Mutex // for writing the table, and for the fields below
	keys    int
	closed  bool
	ended   bool // all grants have ended in Close
	unspent []Unspent
	giving  bool // a goroutine gives back

	ctx     context.Context //nolint:containedctx // it ends with the Set
	cancel  context.CancelFunc
	working sync.WaitGroup
}

// NewSet returns an empty Set.
func NewSet(config Config) *Set {
	s := &Set{config: config, seed: maphash.MakeSeed(), start: time.Now()}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// now returns nanoseconds on the monotonic clock.
func (s *Set) now() int64 { return int64(time.Since(s.start)) }

// hash returns the hash of a key, the same for all its limits: few keys have more than a handful of limits.
func (s *Set) hash(key string) uint64 { return maphash.String(s.seed, key) }

// find returns the entry of a key under a spec, or nil.
func (s *Set) find(hash uint64, key string, spec *exact.Spec) *entry {
	for e := s.table[hash%rows].Load(); e != nil; e = e.below.Load() {
		if e.hash == hash && e.spec == spec && e.key == key {
			return e
		}
	}
	return nil
}

// SpendNow spends units of a key under a spec, if the current grant has them, and reports whether it has. It neither locks nor
// allocates. Where it cannot spend it changes nothing: Spend may.
func (s *Set) SpendNow(key string, spec *exact.Spec, units int) (Spent, bool) {
	if e := s.find(s.hash(key), key, spec); e != nil {
		if g := e.current.Load(); g != nil {
			return e.spendOf(g, int64(units))
		}
	}
	return Spent{}, false
}

// Spend spends granted units of a key under a spec, and reports whether it could: otherwise the store has to be asked. It
// neither locks nor allocates, except where one grant follows another. It counts the units that it could not spend, so
// that more are granted: call it once for each check.
func (s *Set) Spend(key string, spec *exact.Spec, units int) (Spent, bool) {
	if e := s.find(s.hash(key), key, spec); e != nil {
		return e.spend(int64(units))
	}
	return Spent{}, false
}

// Admitted notes checks of one call that the store has admitted. If all of their keys are hot, units of them are granted from now
// on: a call is answered here only if all of its checks can be.
func (s *Set) Admitted(checks ...Wanted) {
	if storeOnly(checks) {
		return
	}
	now, all := s.now(), true
	for i := range checks {
		c := &checks[i]
		lasts, most := lastingOf(c.Spec, s.config.Over)
		if lasts == 0 {
			return
		}
		h := s.hash(c.Key)
		all = (s.heat.add(h^uint64(most)*odd, lasts, c.Units, now) || s.find(h, c.Key, c.Spec) != nil) && all
	}
	if !all {
		return
	}
	for i := range checks {
		if e := s.begin(checks[i].Key, checks[i].Spec); e != nil {
			e.renew(now)
		}
	}
}

// begin returns a new entry for a key, or nil if it has one or there is no room.
func (s *Set) begin(key string, spec *exact.Spec) *entry {
	h := s.hash(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.keys >= mostKeys || s.find(h, key, spec) != nil {
		return nil
	}
	e := newEntry(s, strings.Clone(key), spec, h)
	row := &s.table[h%rows]
	e.below.Store(row.Load())
	row.Store(e)
	s.keys++
	return e
}

// remove takes an entry out of the table.
func (s *Set) remove(e *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	link := &s.table[e.hash%rows]
	for at := link.Load(); at != nil; at = link.Load() {
		if at == e {
			link.Store(e.below.Load())
			s.keys--
			return
		}
		link = &at.below
	}
}

// Renumber ends the grants of a key under all other numbers of a named limit.
func (s *Set) Renumber(key string, spec *exact.Spec) {
	s.end(key, spec, func(e *entry) bool { return e.spec.Units != spec.Units || e.spec.Calendar != spec.Calendar })
}

// End ends the grants of a key under a limit, under all its numbers. Grants that are being asked for are given back.
func (s *Set) End(key string, spec *exact.Spec) { s.end(key, spec, func(*entry) bool { return true }) }

func (s *Set) end(key string, spec *exact.Spec, which func(*entry) bool) {
	for e := s.table[s.hash(key)%rows].Load(); e != nil; e = e.below.Load() {
		if e.key == key && e.spec.Identity() == spec.Identity() && which(e) {
			e.end()
		}
	}
}

// Keys returns how many keys have grants, or are about to.
func (s *Set) Keys() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keys
}

// Close ends all grants and gives their unspent units back. It waits for the store for two seconds at most. Afterwards
// nothing is granted.
func (s *Set) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	for i := range s.table {
		for e := s.table[i].Load(); e != nil; e = e.below.Load() {
			e.end()
		}
	}
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	done := make(chan struct{})
	go func() { // ends with the work: the context ends slow calls
		defer close(done)
		s.working.Wait()
	}()
	patience := time.NewTimer(longestClose)
	defer patience.Stop()
	select {
	case <-done:
	case <-patience.C:
	}
	s.cancel()
}

// work runs a function on a goroutine of the Set, and reports whether it does: not after Close.
func (s *Set) work(function func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.working.Go(function)
	return true
}

// giveBack gives the rest of a grant back in the background, in one call with the rests that come meanwhile.
func (s *Set) giveBack(one Unspent) {
	if one.Spent == one.Units && s.config.Tell == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if one.told && s.ended && !s.giving {
		return // no call waits any more for units given back after Close
	}
	if s.unspent = append(s.unspent, one); !s.giving {
		s.giving = true
		s.working.Go(s.giveAllBack)
	}
}

// mostReturned is how many grants are given back in one call.
const mostReturned = 128

func (s *Set) giveAllBack() {
	for {
		s.mu.Lock()
		some := s.unspent[:min(len(s.unspent), mostReturned)]
		s.unspent = s.unspent[len(some):]
		s.giving = len(some) > 0
		s.mu.Unlock()
		if len(some) == 0 {
			return
		}
		left := slices.DeleteFunc(slices.Clone(some), func(one Unspent) bool { return one.Spent == one.Units })
		var err error
		if len(left) > 0 {
			err = s.config.Return(s.ctx, left)
		}
		if s.config.Tell == nil {
			continue
		}
		for i := range some {
			if !some[i].told {
				s.config.Tell(some[i].ended(err == nil))
			}
		}
	}
}

// ended returns the outcome of a grant with a rest that was returned, or has lapsed.
func (u *Unspent) ended(returned bool) Ended {
	e := Ended{Spec: u.Spec, Granted: u.Units, Spent: u.Spent, Late: u.late}
	if rest := u.Units - u.Spent; returned {
		e.Returned = rest
	} else {
		e.Lapsed = rest
	}
	return e
}
