package guardtest

import (
	"context"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
)

// clock stands still until it is moved.
type clock struct{ microseconds atomic.Int64 }

func newClock() *clock {
	c := new(clock)
	c.microseconds.Store(time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC).UnixMicro())
	return c
}

func (c *clock) now() time.Time          { return time.UnixMicro(c.microseconds.Load()) }
func (c *clock) advance(d time.Duration) { c.microseconds.Add(d.Microseconds()) }

// store remembers the calls it was asked, and answers them from memory or,
// where it has one, with an error.
type store struct {
	core.Store

	failure  error
	calls    [][]core.Check
	settling sync.Mutex // settlements beside a response are on another goroutine
	settled  [][]int    // the real costs of each call to settle, by check
}

func (s *store) Decide(ctx context.Context, calls []core.Call) (answered int, err error) {
	if slices.ContainsFunc(calls[0].Checks, func(c core.Check) bool { return c.Mode != core.Condition }) { // it is no Peek
		s.calls = append(s.calls, slices.Clone(calls[0].Checks))
	}
	if s.failure != nil {
		return 0, s.failure
	}
	return s.Store.Decide(ctx, calls)
}

// fixture has the store, the clock and the observer of a case.
type fixture struct {
	*suite

	t       *testing.T
	clock   *clock
	store   *store
	limiter *core.Limiter
	events  []guard.Event
	ran     int // how often the handler did
}

func (s *suite) fixture(t *testing.T) *fixture {
	c := newClock()
	st := &store{Store: core.NewMemory(core.WithClock(c.now))}
	return &fixture{suite: s, t: t, clock: c, store: st, limiter: core.New(st)}
}

// options are the default options, observed.
func (f *fixture) options() guard.Options {
	return guard.Options{Observe: func(e guard.Event) { f.events = append(f.events, e) }}
}

// limited is a limiter of these policies, with default options, observed. The response waits for settlements.
func (f *fixture) limited(policies ...guard.Policy) middleware {
	return f.new(f.limiter, f.options(), settledFirst(policies)...)
}

// settledFirst are policies that are settled before the response ends, so that a test finds it done.
func settledFirst(policies []guard.Policy) []guard.Policy {
	policies = slices.Clone(policies)
	for i := range policies {
		policies[i].Settle.First = policies[i].Settle.Cost != nil
	}
	return policies
}

// handle is the handler of a site's routes.
func (f *fixture) handle(w http.ResponseWriter, _ *http.Request) {
	f.ran++
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, "served\n")
}

// around is a site with limiters around all of it.
func (f *fixture) around(limiters ...middleware) http.Handler {
	return f.serve(site{around: limiters, handler: f.handle})
}

// inside is a site with limiters on each route.
func (f *fixture) inside(limiters ...middleware) http.Handler {
	return f.serve(site{inside: limiters, handler: f.handle})
}

// expectRan wants the handler to have run so often.
func (f *fixture) expectRan(want int) {
	f.t.Helper()
	if f.ran != want {
		f.t.Errorf("the handler ran %d times, want %d", f.ran, want)
	}
}

// expectAsked wants the store to have had the given number of calls.
func (f *fixture) expectAsked(want int) {
	f.t.Helper()
	if got := len(f.store.calls); got != want {
		f.t.Errorf("the store was asked %d calls, want %d: %v", got, want, f.store.calls)
	}
}

// event returns the only event since it was last called.
func (f *fixture) event() guard.Event {
	f.t.Helper()
	if len(f.events) != 1 {
		f.t.Fatalf("%d events were observed, want 1: %+v", len(f.events), f.events)
	}
	e := f.events[0]
	f.events = nil
	return e
}

// expectKeys wants these keys in the only event since the last one was looked at.
func (f *fixture) expectKeys(want ...string) {
	f.t.Helper()
	var got []string
	for _, o := range f.event().Outcomes {
		got = append(got, o.Key)
	}
	if !slices.Equal(got, want) {
		f.t.Errorf("keys %q, want %q", got, want)
	}
}

// ten is the limit of the README: 10 at once, then one a second.
func ten() core.Limit { return core.Leaky(10, core.PerSecond(1)) }

// one admits a single request in a minute.
func one() core.Limit { return core.FixedWindow(1, time.Minute).Named("one") }
