package faults_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/repeatable"
)

const (
	// budget is what a call has in the suite: the default.
	budget = 100 * time.Millisecond
	// patient is a budget that a busy machine does not exceed.
	patient = 30 * time.Second
	// slack is how much longer than its budget a call may take on a machine that
	// has other things to do. The clients' own timeouts are longer still, so that they
	// cannot be what ends a call.
	slack = 3 * time.Second
	// patience is how long anything else may take before the test fails.
	patience = 60 * time.Second

	roomy, tight = 30_000, 40
)

var discard = slog.New(slog.DiscardHandler)

// slow are limits of which a test is too short for anything to be given back.
var slow = map[string]func(capacity int) core.Quota{
	"leaky":          func(n int) core.Quota { return core.Leaky(n, core.PerDay(1)) },
	"shaping":        func(n int) core.Quota { return core.Shaping(n, core.PerDay(1)) },
	"token bucket":   func(n int) core.Quota { return core.TokenBucket(n, core.PerDay(1)) },
	"gcra":           func(n int) core.Quota { return core.GCRA(n, core.PerDay(1)) },
	"fixed window":   func(n int) core.Quota { return core.FixedWindow(n, 365*24*time.Hour) },
	"sliding window": func(n int) core.Quota { return core.SlidingWindow(n, 365*24*time.Hour) },
	"sliding log":    func(n int) core.Quota { return core.SlidingLog(n, 365*24*time.Hour) },
}

// account is what one key was told under one limit.
type account struct {
	key   string
	limit core.Quota

	admitted atomic.Int64 // units
	unknown  atomic.Int64 // units of calls that failed and may have been charged
}

// load is callers that ask all the time, and the account of what they were told.
type load struct {
	t        *testing.T
	limiters []*core.Limiter
	budget   time.Duration
	accounts []*account

	stopped chan struct{}
	callers sync.WaitGroup
	streaks []atomic.Int64 // of each caller: how often it was answered in a row

	answered, failed atomic.Int64
	slowest          atomic.Int64
	mu               sync.Mutex
	failures         map[core.Failure]error // an example of each
}

const (
	callers = 8
	pause   = 10 * time.Millisecond
	// outage is how many failed calls are an outage: of more than half a second, so
	// that breakers open and probes go out.
	outage = 500
	// inARow is after how many answers in a row a caller takes things to be normal.
	inARow = 10
)

// begin lets callers ask the limiters, which share a store, in turns. All ask at the
// same moment, so that they share round trips, and go on until the load is stopped or
// the test ends.
func begin(t *testing.T, budget time.Duration, limiters ...*core.Limiter) *load {
	t.Helper()
	l := &load{
		t: t, limiters: limiters, budget: budget,
		stopped: make(chan struct{}), streaks: make([]atomic.Int64, callers), failures: make(map[core.Failure]error),
	}
	for _, name := range slices.Sorted(maps.Keys(slow)) {
		limit := slow[name]
		for i := range 2 {
			l.accounts = append(l.accounts,
				&account{key: fmt.Sprint(name, " roomy ", i), limit: limit(roomy)},
				&account{key: fmt.Sprint(name, " tight ", i), limit: limit(tight)})
		}
	}
	random := repeatable.Random(t)
	for i := range callers {
		own := repeatable.Split(random)
		l.callers.Go(func() { l.call(i, own) })
	}
	t.Cleanup(l.stop)
	return l
}

// stop ends the load and returns when the last call has been answered.
func (l *load) stop() {
	l.mu.Lock()
	select {
	case <-l.stopped:
	default:
		close(l.stopped)
	}
	l.mu.Unlock()
	l.callers.Wait()
}

func (l *load) call(caller int, random *rand.Rand) {
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for turn := caller; ; turn++ {
		select {
		case <-l.stopped:
			return
		case <-ticker.C:
			l.ask(caller, random, l.limiters[turn%len(l.limiters)])
		}
	}
}

func (l *load) ask(caller int, random *rand.Rand, limiter *core.Limiter) {
	a, cost := l.accounts[random.IntN(len(l.accounts))], 1+random.IntN(3)
	began := time.Now()
	d, err := limiter.AllowN(context.Background(), a.key, a.limit, cost)
	took := time.Since(began)
	for {
		slowest := l.slowest.Load()
		if int64(took) <= slowest || l.slowest.CompareAndSwap(slowest, int64(took)) {
			break
		}
	}
	switch {
	case err != nil:
		if mayBeCharged(err) {
			a.unknown.Add(int64(cost))
		}
		l.failed.Add(1)
		l.streaks[caller].Store(0)
		l.mu.Lock()
		l.failures[core.FailureOf(err)] = err
		l.mu.Unlock()
		return
	case d.Allowed:
		a.admitted.Add(int64(cost))
	}
	l.answered.Add(1)
	l.streaks[caller].Add(1)
}

// mayBeCharged reports whether a call that has failed may have been charged all
// the same.
func mayBeCharged(err error) bool {
	return !errors.Is(err, core.ErrNotDone)
}

// awaitNormal returns when every caller has been answered several times in a row.
func (l *load) awaitNormal() {
	l.t.Helper()
	for i := range l.streaks {
		l.streaks[i].Store(0)
	}
	l.await("all is normal", func() bool {
		for i := range l.streaks {
			if l.streaks[i].Load() < inARow {
				return false
			}
		}
		return true
	})
}

// awaitAsked returns when so many more calls have been asked.
func (l *load) awaitAsked(n int64) {
	l.t.Helper()
	asked := func() int64 { return l.answered.Load() + l.failed.Load() }
	before := asked()
	l.await("calls go on", func() bool { return asked() >= before+n })
}

// awaitFailures returns when so many more calls have failed.
func (l *load) awaitFailures(n int64) {
	l.t.Helper()
	before := l.failed.Load()
	l.await("calls fail", func() bool { return l.failed.Load() >= before+n })
}

func (l *load) await(what string, so func() bool) {
	l.t.Helper()
	await(l.t, what, func() error {
		if so() {
			return nil
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		return fmt.Errorf("%d were answered and %d failed, such as by %v", l.answered.Load(), l.failed.Load(), l.failures)
	})
}

// await polls until something is so.
func await(t *testing.T, what string, so func() error) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		err := so()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited for %v until %s: %v", patience, what, err)
		}
	}
}

// close stops the load and checks its account: every call ended in time, nobody
// was admitted beyond a limit, and in Redis there is what was admitted, no less, and
// no more than what may have been charged by calls that failed. The reader asks
// the same store, undisturbed. Where Redis has lost its data several times, each time
// the limits began anew, and that is all that can be said.
func (l *load) close(reader *core.Limiter, losses int) {
	l.t.Helper()
	l.stop()
	l.t.Logf("%d answered, %d failed by %v, the slowest took %v",
		l.answered.Load(), l.failed.Load(), l.failures, time.Duration(l.slowest.Load()).Round(time.Millisecond))
	if slowest := time.Duration(l.slowest.Load()); slowest > l.budget+slack {
		l.t.Errorf("a call took %v, with a budget of %v", slowest, l.budget)
	}
	for _, a := range l.accounts {
		admitted, unknown := a.admitted.Load(), a.unknown.Load()
		if most := int64(a.limit.Capacity() * (losses + 1)); admitted > most {
			l.t.Errorf("%s: %d units were admitted, want at most %d", a.key, admitted, most)
		}
		d, err := reader.Peek(context.Background(), a.key, a.limit)
		if err != nil {
			l.t.Fatal(err)
		}
		charged := int64(a.limit.Capacity() - d.Remaining)
		if losses == 0 && charged < admitted || charged > admitted+unknown {
			l.t.Errorf("%s: %d units are charged, want %d that were admitted, and at most %d of calls that failed",
				a.key, charged, admitted, unknown)
		}
	}
	for name, limit := range slow {
		passed := 0
		for range tight + 2 {
			d, err := reader.Allow(context.Background(), "after all, "+name, limit(tight))
			if err != nil {
				l.t.Fatal(err)
			}
			if d.Allowed {
				passed++
			}
		}
		if passed != tight {
			l.t.Errorf("%s: %d pass afterwards, want %d", name, passed, tight)
		}
	}
}

// everybody runs something on several goroutines at once.
func everybody(n int, do func(i int)) {
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { do(i) })
	}
	group.Wait()
}
