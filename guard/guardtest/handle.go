package guardtest

import (
	"net/http"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
)

var handleCases = []testCase{
	{"limits change while the server runs, and a named one keeps what was used", testSwap},
	{"a request is settled by the limits that let it pass", testSwapUnderWay},
	{"a middleware without a Guard panics when it is made", testNoHandle},
}

// handleOf is a handle with these policies, observed.
func (f *fixture) handleOf(policies ...guard.Policy) *guard.Guard {
	f.t.Helper()
	h, err := guard.New(f.limiter, f.options(), policies...)
	if err != nil {
		f.t.Fatal(err)
	}
	return h
}

// swap replaces the policies of a handle.
func (f *fixture) swap(h *guard.Guard, policies ...guard.Policy) {
	f.t.Helper()
	if err := h.Swap(f.limiter, f.options(), policies...); err != nil {
		f.t.Error(err)
	}
}

// hourly admits n requests in an hour, under one name for all n.
func hourly(n int) guard.Policy {
	return guard.Policy{Limit: core.FixedWindow(n, time.Hour).Named("hourly")}
}

func testSwap(t *testing.T, s *suite) {
	f := s.fixture(t)
	handle := f.handleOf(hourly(1))
	h := f.around(f.use(handle))
	expectStatus(t, "the first of one", h, ask(http.MethodGet, "/"), http.StatusOK)
	expectStatus(t, "the second of one", h, ask(http.MethodGet, "/"), http.StatusTooManyRequests)
	f.swap(handle, hourly(2))
	expectStatus(t, "the second of two", h, ask(http.MethodGet, "/"), http.StatusOK)
	expectStatus(t, "the third of two", h, ask(http.MethodGet, "/"), http.StatusTooManyRequests)
	f.expectRan(2)
}

func testSwapUnderWay(t *testing.T, s *suite) {
	f := s.fixture(t)
	settling := func(cost int) guard.Policy {
		p := hourly(100)
		p.Settle.Cost, p.Settle.First = func(*http.Request, guard.Served) int { return cost }, true
		return p
	}
	handle := f.handleOf(settling(7))
	h := f.serve(site{inside: []middleware{f.use(handle)}, handler: func(w http.ResponseWriter, r *http.Request) {
		f.swap(handle, settling(20))
		f.handle(w, r)
	}})
	for i, want := range []int{7, 20} {
		f.events = nil
		get(h)
		if len(f.events) != 2 || f.events[1].Outcomes[0].Cost != want {
			t.Errorf("request %d is told as %+v, want a settlement at %d", i+1, f.events, want)
		}
	}
}

func testNoHandle(t *testing.T, s *suite) {
	expectPanic(t, func() { s.use(nil) }, "", "Guard is nil")
}
