package faults_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/repeatable"
)

var soakFor = flag.Duration("soak", 5*time.Second, "how long TestSoak lasts")

// subjects is how many keys a soak asks about.
const subjects = 24

// plans are limits of all algorithms, some of them named, with the numbers that they
// have in turn.
var plans = [][]core.Quota{
	{core.Leaky(20, core.PerSecond(2))},
	{core.Shaping(15, core.PerMinute(90))},
	{core.TokenBucket(50, core.Per(7, 3*time.Second))},
	{core.GCRA(30, core.PerHour(1000))},
	{core.FixedWindow(40, time.Minute)},
	{core.SlidingWindow(40, time.Minute)},
	{core.SlidingLog(25, 90*time.Second)},
	{core.TokenBucket(30, core.PerMinute(30)).Named("plan"), core.TokenBucket(90, core.PerMinute(60)).Named("plan")},
	{core.FixedWindow(30, time.Minute).Named("quota"), core.FixedWindow(20, time.Hour).Named("quota")},
	{core.SlidingWindow(30, time.Minute).Named("share"), core.SlidingWindow(60, time.Minute).Named("share")},
}

// soak is the load, and the reference that it is compared with.
type soak struct {
	*site

	t         *testing.T
	limiters  []*core.Limiter // disturbed
	reader    *core.Limiter   // not
	reference *core.Limiter
	now       atomic.Int64
	limits    []core.Limit    // of this phase
	waits     context.Context //nolint:containedctx // of this phase

	mu       sync.Mutex
	ledgers  map[core.Check]*ledger // by what is asked, without the cost
	admitted []told

	plan      *rand.Rand // of the phases: what callers do in one depends on who is first
	fault     string     // of this phase
	givesBack bool       // in this phase there are settlements and waits, and callers leave
	gaveBack  int64      // the instant of the latest of these phases

	asked, failed, passed, settled, waited int
}

// A long life with all algorithms, keys, costs, settlements, waits, cancellations and faults
// leaves exactly the state that what was admitted, and settled, leaves in a reference; and
// goroutines and memory are as at the beginning.
//
// Time stands still in a phase and moves between two, so that the order of the
// calls in one does not matter. The reference is the store in memory, which agrees
// with Redis on everything, as package storetest proves of both with an exact model.
func TestSoak(t *testing.T) {
	shareTheMachine(t)
	s := newSoak(t)
	var goroutines int
	var heap uint64
	phases := 0
	for end := time.Now().Add(*soakFor); phases < 4 || time.Now().Before(end); phases++ {
		s.phase()
		if t.Failed() {
			t.Fatalf("in phase %d, with %q", phases, s.fault)
		}
		if phases == 2 { // all is warm
			goroutines, heap = runtime.NumGoroutine(), heapInUse()
		}
	}
	t.Logf("%d phases, %d calls, %d admitted, %d settled, %d waited, %d failed", phases, s.asked, s.passed, s.settled, s.waited, s.failed)
	if *soakFor < time.Minute {
		return // other tests run at the same time
	}
	if n := runtime.NumGoroutine(); n > goroutines+10 {
		t.Errorf("%d goroutines, after %d at the beginning", n, goroutines)
	}
	if n := heapInUse(); n > heap+16<<20 {
		t.Errorf("%d bytes in use, after %d at the beginning", n, heap)
	}
}

// shareTheMachine lets other tests run meanwhile, unless this is a long run, at whose end goroutines and
// memory are counted.
func shareTheMachine(t *testing.T) {
	t.Helper()
	if *soakFor < time.Minute {
		t.Parallel()
	}
}

func heapInUse() uint64 {
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return memory.HeapAlloc
}

func newSoak(t *testing.T) *soak {
	t.Helper()
	s := &soak{site: newSite(t, keepsAll...), t: t, plan: repeatable.Random(t)}
	s.now.Store(instant.UnixMicro())
	s.open()
	s.reader = core.New(core.NewRedis(s.server.Client(t, func(o *redis.Options) { o.PoolSize = 1 }),
		core.WithPrefix(s.prefix), core.WithBudget(patient), core.WithLogger(discard), s.clock()))
	s.reference = core.New(core.NewMemory(s.clock()))
	return s
}

func (s *soak) clock() core.Option {
	return core.WithClock(func() time.Time { return time.UnixMicro(s.now.Load()) })
}

// open opens the limiters that are disturbed.
func (s *soak) open() {
	s.t.Helper()
	s.limiters = []*core.Limiter{
		s.heeding(s.t, budget, s.clock()),
		s.limiter(s.t, budget, &redis.Options{ReadTimeout: time.Second, PoolSize: 100}, []core.Option{s.clock(), core.WithBreaker(0, 0)}),
	}
}

// phase asks for a while, with a fault in the middle, and then compares.
func (s *soak) phase() {
	s.t.Helper()
	step := time.Duration(s.plan.Int64N(int64(2 * time.Minute)))
	if s.plan.IntN(8) == 0 {
		step = -step / 4
	}
	// What was charged and given back has brought a state to its instant: the clock does not step back
	// behind that, where the reference knows nothing of it.
	s.now.Store(max(s.now.Load()+step.Microseconds(), s.gaveBack+1))
	if s.givesBack = s.plan.IntN(3) > 0; s.givesBack {
		s.gaveBack = s.now.Load()
	}
	s.limits = s.limits[:0]
	for _, plan := range plans {
		s.limits = append(s.limits, plan[s.plan.IntN(len(plan))])
	}
	s.ledgers, s.admitted = make(map[core.Check]*ledger), nil
	s.settle()

	stopped := make(chan struct{}) // every wait ends then, too
	waits, stop := context.WithCancel(s.t.Context())
	s.waits = waits
	var group sync.WaitGroup
	for i := range callers {
		group.Go(func() {
			for {
				select {
				case <-stopped:
					return
				case <-time.After(rand.N(4 * time.Millisecond)):
					s.act(s.limiters[i%len(s.limiters)])
				}
			}
		})
	}
	lasts := func(d time.Duration) { time.Sleep(time.Duration(s.plan.Int64N(int64(d)))) } // and is no wait for anything
	lasts(200 * time.Millisecond)
	s.fault = "no fault"
	if s.plan.IntN(4) > 0 {
		fault := passing[s.plan.IntN(len(passing))]
		s.fault = fault.name
		fault.begin(s.t, s.site)
		lasts(400 * time.Millisecond)
		fault.end(s.t, s.site)
	}
	lasts(600 * time.Millisecond)
	close(stopped)
	stop()
	group.Wait()
	s.calm()
	s.compare()
}

// settle asks both sides about every state what none admits, so that a state that does
// not fit the clock or the numbers is put right on both at the same instant, and makes
// some keys as good as new.
func (s *soak) settle() {
	s.t.Helper()
	for subject := range subjects {
		checks := s.states(subject)
		for i := range checks {
			checks[i].Mode, checks[i].Cost = core.Charge, checks[i].Limit.Capacity()+1
		}
		for _, limiter := range []*core.Limiter{s.reader, s.reference} {
			if _, err := limiter.AllowAll(s.t.Context(), checks...); err != nil {
				s.t.Fatal(err)
			}
			if subject == 0 {
				if err := limiter.Reset(s.t.Context(), checks[0].Key, s.limits...); err != nil {
					s.t.Fatal(err)
				}
			}
		}
	}
}

// calm returns when nothing is on its way to the server any more, and all limiters are answered. What is given back in the
// background may be tried again for seconds: limiters with such work are closed, which ends it, and others take their place.
func (s *soak) calm() {
	s.t.Helper()
	if s.givesBack {
		for _, limiter := range s.limiters {
			if err := limiter.Close(); err != nil {
				s.t.Error(err)
			}
		}
		s.open()
	}
	await(s.t, "the server has done what it was asked", func() error {
		s.proxy.Reset() // also what is opened beside the calls
		list, err := s.admin.ClientList(s.t.Context()).Result()
		if n := strings.Count(list, "\n"); err == nil && n > 2 { // the admin and the reader
			err = fmt.Errorf("%d clients", n)
		}
		return err
	})
	for _, limiter := range s.limiters {
		await(s.t, "all is normal", func() error {
			_, err := limiter.Peek(s.t.Context(), "nobody", s.limits[0])
			return err
		})
	}
}

// compare has the reference admit what was admitted, and compares every state.
func (s *soak) compare() {
	s.t.Helper()
	for _, checks := range s.admitted {
		decisions, err := s.reference.AllowAll(s.t.Context(), checks...)
		if err != nil {
			s.t.Fatal(err)
		}
		for i, d := range decisions {
			if !d.Allowed {
				s.t.Errorf("%+v was admitted, which leaves %d of %s", checks, d.Remaining, checks[i].Limit)
			}
		}
	}
	for subject := range subjects {
		states := s.states(subject)
		have, err := s.reader.AllowAll(s.t.Context(), states...)
		if err != nil {
			s.t.Fatal(err)
		}
		for i, c := range states {
			s.compareState(c, have[i])
		}
	}
}

func (s *soak) compareState(c core.Check, have core.Decision) {
	s.t.Helper()
	l := s.ledger(c)
	look := func(cost int) core.Decision {
		c.Cost, c.Mode = cost, core.Look
		if cost > 0 {
			c.Mode = core.Charge
		}
		decisions, err := s.reference.AllowAll(s.t.Context(), c)
		if err != nil {
			s.t.Fatal(err)
		}
		return decisions[0]
	}
	// What failed may have been charged: then the reference is, too.
	if charged := look(0).Remaining - have.Remaining; charged > 0 && charged <= l.unknown {
		look(charged)
	}
	if want := look(0); have != want {
		s.t.Errorf("%s under %s (shadow %t): %+v, want %+v or up to %d units more charged", c.Key, c.Limit, c.Shadow, have, want, l.unknown)
	}
	if l.denied > 0 && l.denied <= have.Remaining && !l.returned {
		s.t.Errorf("%s under %s: %d were denied, and %d remain", c.Key, c.Limit, l.denied, have.Remaining)
	}
}
