package guardtest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
)

var settleCases = []testCase{
	{"a login limit counts only failures", testOnlyFailures},
	{"a byte limit counts the bytes that were written", testBytes},
	{"an estimate is settled at the real cost, less or more", testEstimate},
	{"a handler tells what a request has spent", testSpent},
	{"all policies of a request are settled in one call, and none if nothing changes", testSettledInOneCall},
	{"a denial by an inner limiter settles the outer one", testSettledOutside},
	{"policies that are one limit cost what the dearer one says", testOneLimitSettledTwice},
	{"a policy further inside has a say in what its limit has cost", testSettledFromInside},
	{"the stricter of two policies that are one limit decides without the store", testOneLimitWithTwoModes},
	{"a handler that panics is settled, and goes on panicking", testSettledPanic},
}

// settled are the costs that the store was told to settle, by call.
func (s *store) Settle(ctx context.Context, settlements []core.Settlement) error {
	var costs []int
	for _, one := range settlements {
		costs = append(costs, one.Cost)
	}
	s.settling.Lock()
	s.settled = append(s.settled, costs)
	s.settling.Unlock()
	return s.Store.Settle(ctx, settlements)
}

// hundred admits a hundred units an hour.
func hundred() core.Limit { return core.FixedWindow(100, time.Hour).Named("hundred") }

// settling is a site with a limiter that settles by a function.
func (f *fixture) settling(limit core.Limit, cost int, settle func(*http.Request, guard.Served) int, handler http.HandlerFunc) http.Handler {
	return f.serve(site{
		around: []middleware{f.limited(guard.Policy{
			Limit: limit, By: keyfuncs.Global, Settle: guard.SettlePolicy{Cost: settle}, Cost: func(*http.Request) int { return cost },
		})},
		handler: handler,
	})
}

// expectUsed wants so much to be used of a limit by everybody together.
func (f *fixture) expectUsed(limit core.Limit, want int) {
	f.t.Helper()
	key, err := keyfuncs.Global(ask(http.MethodGet, "/"))
	if err != nil {
		f.t.Fatal(err)
	}
	d, err := f.limiter.Peek(f.t.Context(), key, limit)
	if err != nil {
		f.t.Fatal(err)
	}
	if used := limit.Capacity() - d.Remaining; used != want {
		f.t.Errorf("%d are used of %s, want %d", used, limit, want)
	}
}

// spent is a Settle that charges the cost that the handler has told.
func spent(_ *http.Request, served guard.Served) int { return served.Spent }

func testSpent(t *testing.T, s *suite) {
	f := s.fixture(t)
	tell := func(units ...int) http.HandlerFunc {
		return func(_ http.ResponseWriter, r *http.Request) {
			var all sync.WaitGroup
			for _, n := range units {
				all.Go(func() { guard.Spend(r.Context(), n) })
			}
			all.Wait()
		}
	}
	for _, test := range []struct {
		units []int
		want  int // used, of this request and of those before it
	}{
		{[]int{7}, 7},
		{[]int{20, 5, -2}, 30},
		{nil, 30},
		{[]int{3, -9}, 30}, // less than 0 is 0
	} {
		answer(f.settling(hundred(), 50, spent, tell(test.units...)), ask(http.MethodGet, "/"))
		f.expectUsed(hundred(), test.want)
	}
	inner := core.FixedWindow(50, time.Hour).Named("inner")
	policy := func(limit core.Limit) guard.Policy {
		return guard.Policy{Limit: limit, By: keyfuncs.Global, Settle: guard.SettlePolicy{Cost: spent}}
	}
	h := f.serve(site{
		around:  []middleware{f.limited(policy(hundred())), f.limited(policy(hundred()), policy(inner))},
		inside:  []middleware{f.limited(policy(hundred()))}, // its check is charged outside
		handler: tell(4),
	})
	answer(h, ask(http.MethodGet, "/"))
	f.expectUsed(hundred(), 34)
	f.expectUsed(inner, 4)
}

func testOnlyFailures(t *testing.T, s *suite) {
	f := s.fixture(t)
	status := http.StatusOK
	limit := core.SlidingLog(3, time.Hour).Named("login")
	h := f.settling(limit, 1, func(_ *http.Request, served guard.Served) int {
		if served.Status == http.StatusUnauthorized {
			return 1
		}
		return 0
	}, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
	for range 10 {
		if got := answer(h, ask(http.MethodGet, "/")).StatusCode; got != http.StatusOK {
			t.Fatalf("a login that succeeds is answered with %d", got)
		}
	}
	f.expectUsed(limit, 0)
	status = http.StatusUnauthorized
	for i, want := range []int{401, 401, 401, 429, 429} {
		if got := answer(h, ask(http.MethodGet, "/")).StatusCode; got != want {
			t.Errorf("failing login %d is answered with %d, want %d", i+1, got, want)
		}
	}
	f.expectUsed(limit, 3)
}

func testBytes(t *testing.T, s *suite) {
	f := s.fixture(t)
	h := f.settling(hundred(), 1, func(_ *http.Request, served guard.Served) int { return int(served.Bytes) },
		func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, strings.Repeat("a", 20))
			_, _ = w.Write(make([]byte, 10))
			_, _ = io.Copy(w, strings.NewReader("twelve bytes"))
		})
	get(h)
	f.expectUsed(hundred(), 42)
	get(h)
	get(h) // of which 16 fit
	f.expectUsed(hundred(), 100)
	if got := answer(h, ask(http.MethodGet, "/")).StatusCode; got != http.StatusTooManyRequests {
		t.Errorf("answered with %d when the quota is used up", got)
	}
}

func testEstimate(t *testing.T, s *suite) {
	f := s.fixture(t)
	var cost int
	h := f.settling(hundred(), 10, func(_ *http.Request, served guard.Served) int {
		if served.Cost != 10 {
			t.Errorf("told that %d were reserved, want 10", served.Cost)
		}
		return cost
	}, f.handle)
	for _, test := range []struct{ cost, used int }{{4, 4}, {25, 29}, {10, 39}, {-5, 39}, {1000, 100}} {
		cost = test.cost
		f.events = nil
		get(h)
		f.expectUsed(hundred(), test.used)
		if len(f.events) != 2 || f.events[0].Settled || !f.events[1].Settled || f.events[1].Outcomes[0].Cost != max(0, cost) {
			t.Errorf("observed %+v, want what was decided and then what was settled", f.events)
		}
	}
}

func testSettledInOneCall(t *testing.T, s *suite) {
	f := s.fixture(t)
	cost := func(n int) func(*http.Request, guard.Served) int {
		return func(*http.Request, guard.Served) int { return n }
	}
	h := f.around(f.limited(
		guard.Policy{Limit: hundred(), By: keyfuncs.Global, Settle: guard.SettlePolicy{Cost: cost(0)}},
		guard.Policy{Limit: core.Leaky(5, core.PerHour(1)).Named("untouched"), By: keyfuncs.Global},
		guard.Policy{Limit: core.Leaky(50, core.PerHour(1)).Named("more"), By: keyfuncs.Global, Settle: guard.SettlePolicy{Cost: cost(7)}},
		guard.Policy{Limit: core.Leaky(50, core.PerHour(1)).Named("candidate"), By: keyfuncs.Global, Settle: guard.SettlePolicy{Cost: cost(3)}, Shadow: true},
	))
	get(h)
	if want := [][]int{{0, 1, 7, 3}}; !slices.EqualFunc(f.store.settled, want, slices.Equal) {
		t.Errorf("settled %v, want %v", f.store.settled, want)
	}
	f.expectUsed(hundred(), 0)
	f.expectAsked(1)

	f.store.settled = nil
	get(f.settling(hundred(), 1, cost(1), f.handle))
	if len(f.store.settled) != 0 {
		t.Errorf("settled %v when the estimate was right", f.store.settled)
	}
}

func testSettledOutside(t *testing.T, s *suite) {
	f := s.fixture(t)
	var statuses []int
	outer := f.limited(guard.Policy{Limit: hundred(), By: keyfuncs.Global, Settle: guard.SettlePolicy{Cost: func(_ *http.Request, served guard.Served) int {
		statuses = append(statuses, served.Status)
		if served.Status == http.StatusTooManyRequests {
			return 0
		}
		return served.Cost
	}}})
	inner := f.limited(guard.Policy{Limit: one(), By: keyfuncs.Global})
	h := f.serve(site{around: []middleware{outer}, inside: []middleware{inner}, handler: f.handle})
	get(h)
	get(h)
	if want := []int{200, 429}; !slices.Equal(statuses, want) {
		t.Errorf("settled by %v, want %v", statuses, want)
	}
	f.expectUsed(hundred(), 1)
}

func testSettledPanic(t *testing.T, s *suite) {
	for name, test := range map[string]struct {
		before func(http.ResponseWriter)
		status int
	}{
		"before the answer": {func(http.ResponseWriter) {}, http.StatusInternalServerError},
		"after the answer":  {func(w http.ResponseWriter) { w.WriteHeader(http.StatusAccepted); _, _ = w.Write([]byte("x")) }, http.StatusAccepted},
	} {
		t.Run(name, func(t *testing.T) {
			f := s.fixture(t)
			settled := make(chan guard.Served, 2)
			h := f.settling(hundred(), 10, func(_ *http.Request, of guard.Served) int {
				settled <- of
				return 2
			}, func(w http.ResponseWriter, _ *http.Request) {
				test.before(w)
				panic(http.ErrAbortHandler)
			})
			func() {
				defer func() {
					if recover() == nil {
						t.Error("the panic ended in the limiter")
					}
				}()
				get(h)
			}()
			awaitTaken(t, f.limiter, hundred(), 2) // a framework may settle it when the request has ended
			if served := <-settled; !served.Panicked || s.without&Streaming == 0 && served.Status != test.status {
				t.Errorf("settled by %+v, want a panic with status %d", served, test.status)
			}
		})
	}
}

// says is a Settle function that says always the same.
func says(cost int) func(*http.Request, guard.Served) int {
	return func(*http.Request, guard.Served) int { return cost }
}

// unnamed admits a hundred units an hour, and may stand twice in one middleware.
func unnamed() core.Limit { return core.FixedWindow(100, time.Hour) }

func testOneLimitSettledTwice(t *testing.T, s *suite) {
	costs := func(cost int) func(*http.Request) int { return func(*http.Request) int { return cost } }
	for _, test := range []struct {
		one, other guard.Policy
		want       int
	}{
		{guard.Policy{Settle: guard.SettlePolicy{Cost: says(0)}}, guard.Policy{}, 1}, // without a settlement the declared cost stands
		{guard.Policy{}, guard.Policy{Settle: guard.SettlePolicy{Cost: says(0)}}, 1},
		{guard.Policy{}, guard.Policy{Settle: guard.SettlePolicy{Cost: says(7)}}, 7},
		{guard.Policy{Settle: guard.SettlePolicy{Cost: says(0)}}, guard.Policy{Settle: guard.SettlePolicy{Cost: says(0)}}, 0},
		{guard.Policy{Settle: guard.SettlePolicy{Cost: says(2)}}, guard.Policy{Settle: guard.SettlePolicy{Cost: says(5)}}, 5},
		{guard.Policy{Settle: guard.SettlePolicy{Cost: says(5)}, Cost: costs(9)}, guard.Policy{Settle: guard.SettlePolicy{Cost: says(2)}}, 5},
		{guard.Policy{Settle: guard.SettlePolicy{Cost: says(0)}}, guard.Policy{Cost: costs(4)}, 4},
	} {
		f := s.fixture(t)
		for _, p := range []*guard.Policy{&test.one, &test.other} {
			p.Limit, p.By = unnamed(), keyfuncs.Global
		}
		get(f.around(f.limited(test.one, test.other)))
		f.expectAsked(1)
		f.expectUsed(unnamed(), test.want)
	}
}

func testSettledFromInside(t *testing.T, s *suite) {
	for _, test := range []struct {
		outer, inner func(*http.Request, guard.Served) int
		want         int
	}{
		{nil, says(0), 1}, // that in front says 1
		{nil, says(4), 4},
		{says(0), says(4), 4},
		{says(0), says(0), 0},
		{says(6), says(4), 6},
		{says(0), nil, 0},
	} {
		f := s.fixture(t)
		policy := guard.Policy{Limit: unnamed(), By: keyfuncs.Global, Settle: guard.SettlePolicy{Cost: test.outer}}
		outer := f.limited(policy)
		policy.Settle.Cost = test.inner
		get(f.serve(site{around: []middleware{outer}, inside: []middleware{f.limited(policy)}, handler: f.handle}))
		f.expectAsked(1)
		f.expectUsed(unnamed(), test.want)
	}
}

func testOneLimitWithTwoModes(t *testing.T, s *suite) {
	for _, modes := range [][2]guard.ErrorMode{
		{guard.FailOpen, guard.FailClosed},
		{guard.FailClosed, guard.FailOpen},
		{guard.Fallback, guard.FailClosed},
		{guard.FailClosed, guard.Fallback},
	} {
		f := s.fixture(t)
		f.store.failure = errors.New("down")
		h := f.around(f.limited(
			guard.Policy{Limit: unnamed(), By: keyfuncs.Global, OnError: modes[0]},
			guard.Policy{Limit: unnamed(), By: keyfuncs.Global, OnError: modes[1]}))
		if got := answer(h, ask(http.MethodGet, "/")).StatusCode; got != http.StatusServiceUnavailable {
			t.Errorf("%v and %v answer %d while the store is down, want 503", modes[0], modes[1], got)
		}
	}
}
