package guardtest

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
)

var partialFailureCases = []testCase{
	{"what a store cannot answer in part is up to each policy", testPartialFailure},
	{"a request that is denied by what a store can answer leaves the fallback as it was", testPartialDenial},
	{"a store that fails bit by bit is asked about what is left", testFailureBitByBit},
	{"a client that goes away while a store fails in part does not reach the handler", testGoneInPartialFailure},
	{"a request whose deadline passes while a store fails in part is not let through", testDeadlineInPartialFailure},
}

// partly cannot answer about limits of some names, as a cluster cannot about keys on a
// server that is down.
type partly struct {
	core.Store

	lost  map[string]bool
	err   error  // why they are lost; nil: errDown
	asked func() // before each call, unless it is nil
}

func (p *partly) without(checks []core.Check) error {
	if p.asked != nil {
		p.asked()
	}
	var lost []int
	for i := range checks {
		if p.lost[checks[i].Limit.Name()] {
			lost = append(lost, i)
		}
	}
	if len(lost) == 0 {
		return nil
	}
	return &core.UnansweredError{Checks: lost, Err: cmp.Or(p.err, errDown)}
}

func (p *partly) Decide(ctx context.Context, calls []core.Call) (answered int, err error) {
	if err := p.without(calls[0].Checks); err != nil {
		return 0, err
	}
	return p.Store.Decide(ctx, calls)
}

func testPartialFailure(t *testing.T, s *suite) {
	for name, c := range map[string]struct {
		lost   int
		modes  [2]guard.ErrorMode // of the two policies
		status int                // of the third request, where each policy admits 2
		ran    int
	}{
		"the other policy is enforced":            {0, [2]guard.ErrorMode{guard.FailOpen, guard.FailClosed}, 429, 2},
		"the lost policy fails closed":            {1, [2]guard.ErrorMode{guard.FailOpen, guard.FailClosed}, 503, 0},
		"the lost policy falls back":              {1, [2]guard.ErrorMode{guard.FailOpen, guard.Fallback}, 429, 2},
		"the options say it for who says nothing": {0, [2]guard.ErrorMode{0, 0}, 429, 2},
	} {
		t.Run(name, func(t *testing.T) {
			f := s.fixture(t)
			limiter := core.New(&partly{Store: f.store, lost: map[string]bool{[]string{"a", "b"}[c.lost]: true}})
			h := f.around(f.new(limiter, f.options(),
				guard.Policy{Limit: core.FixedWindow(2, time.Hour).Named("a"), OnError: c.modes[0]},
				guard.Policy{Limit: core.Leaky(2, core.PerHour(1)).Named("b"), OnError: c.modes[1]}))
			status := 0
			for range 3 {
				status = answer(h, ask(http.MethodGet, "/")).StatusCode
			}
			if status != c.status {
				t.Errorf("status %d, want %d", status, c.status)
			}
			f.expectRan(c.ran)
			for _, e := range f.events {
				if !errors.Is(e.Err, errDown) {
					t.Errorf("observed %+v, want the error", e)
				}
			}
		})
	}
}

func testPartialDenial(t *testing.T, s *suite) {
	for name, settle := range map[string]func(*http.Request, guard.Served) int{
		"asked":    nil,
		"reserved": func(_ *http.Request, served guard.Served) int { return served.Cost },
	} {
		t.Run(name, func(t *testing.T) {
			f := s.fixture(t)
			h := f.around(f.new(core.New(&partly{Store: f.store, lost: map[string]bool{"lost": true}}), f.options(),
				guard.Policy{Limit: core.Leaky(3, core.PerHour(1)).Named("lost"), OnError: guard.Fallback, Settle: guard.SettlePolicy{Cost: settle, First: settle != nil}},
				guard.Policy{Limit: one(), Settle: guard.SettlePolicy{Cost: settle, First: settle != nil}}))
			for i, want := range []struct{ status, remaining int }{{200, 2}, {429, 2}, {429, 2}, {200, 1}} {
				if i == 3 {
					f.clock.advance(time.Minute)
				}
				f.events = nil
				expectStatus(t, "a request", h, ask(http.MethodGet, "/"), want.status)
				var lost []core.Decision
				for _, o := range f.events[0].Outcomes {
					if o.Policy == "lost" {
						lost = append(lost, o.Decision)
					}
				}
				if len(lost) != 1 || !lost[0].Degraded || !lost[0].Allowed || lost[0].Remaining != want.remaining {
					t.Errorf("request %d: decided %+v about what was lost, want it allowed, with %d remaining", i, lost, want.remaining)
				}
			}
			f.expectRan(2)
		})
	}
}

func testFailureBitByBit(t *testing.T, s *suite) {
	for name, c := range map[string]struct {
		modes [2]guard.ErrorMode // of the first loss and of the second
		want  []int              // statuses, where the first two admit 2 and the third admits 3
	}{
		"fail open":                  {[2]guard.ErrorMode{guard.FailOpen, guard.FailOpen}, []int{200, 200, 200, 429}},
		"fail closed":                {[2]guard.ErrorMode{guard.FailOpen, guard.FailClosed}, []int{503, 503, 503, 503}},
		"fall back":                  {[2]guard.ErrorMode{guard.Fallback, guard.Fallback}, []int{200, 200, 429, 429}},
		"fall back and fail open":    {[2]guard.ErrorMode{guard.Fallback, guard.FailOpen}, []int{200, 200, 429, 429}},
		"fall back, and fail closed": {[2]guard.ErrorMode{guard.Fallback, guard.FailClosed}, []int{503, 503, 503, 503}},
	} {
		t.Run(name, func(t *testing.T) {
			f := s.fixture(t)
			store := &partly{Store: f.store}
			calls := 0
			store.asked = func() {
				calls++
				store.lost = map[string]bool{"first": true, "then": calls%3 != 1}
			}
			h := f.around(f.new(core.New(store), f.options(),
				guard.Policy{Limit: core.Leaky(2, core.PerHour(1)).Named("first"), OnError: c.modes[0]},
				guard.Policy{Limit: core.Leaky(2, core.PerHour(1)).Named("then"), OnError: c.modes[1]},
				guard.Policy{Limit: core.Leaky(3, core.PerHour(1)).Named("third")}))
			for i, want := range c.want {
				calls = 0
				if got := answer(h, ask(http.MethodGet, "/")).StatusCode; got != want {
					t.Errorf("request %d is answered with %d, want %d", i, got, want)
				}
			}
		})
	}
}

func testGoneInPartialFailure(t *testing.T, s *suite) {
	f := s.fixture(t)
	ctx, cancel := context.WithCancel(t.Context())
	store := &partly{Store: f.store, lost: map[string]bool{"lost": true}}
	again := false
	store.asked = func() {
		if again {
			cancel()
		}
		again = true
	}
	h := f.around(f.new(core.New(store), f.options(),
		guard.Policy{Limit: core.Leaky(1, core.PerHour(1)).Named("lost"), OnError: guard.Fallback},
		guard.Policy{Limit: one()}))
	send(h, ask(http.MethodGet, "/").WithContext(ctx))
	f.expectRan(0)
	if e := f.event(); e.Status != 499 || !errors.Is(e.Err, context.Canceled) {
		t.Errorf("observed %+v, want 499 and context.Canceled", e)
	}
	store.asked = nil
	expectStatus(t, "the next client", h, ask(http.MethodGet, "/"), http.StatusOK)
}

func testDeadlineInPartialFailure(t *testing.T, s *suite) {
	bubbletest.Run(t, func(t *testing.T) {
		f := s.fixture(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		store := &partly{Store: f.store, lost: map[string]bool{"lost": true}}
		again := false
		store.asked = func() {
			if again {
				<-ctx.Done()
			}
			again = true
		}
		h := f.around(f.new(core.New(store), f.options(),
			guard.Policy{Limit: core.Leaky(1, core.PerHour(1)).Named("lost"), OnError: guard.Fallback},
			guard.Policy{Limit: one()}))
		expectStatus(t, "its time is up", h, ask(http.MethodGet, "/").WithContext(ctx), http.StatusServiceUnavailable)
		f.expectRan(0)
		if e := f.event(); e.Status != http.StatusServiceUnavailable || !errors.Is(e.Err, context.DeadlineExceeded) || len(e.Unanswered) != 2 {
			t.Errorf("observed %+v, want 503 and DeadlineExceeded", e)
		}
		store.asked = nil
		expectStatus(t, "the next client", h, ask(http.MethodGet, "/"), http.StatusOK)
	})
}
