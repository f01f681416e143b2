package adaptertest

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/keyfuncs"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
)

var errDown = errors.New("the store is down")

var failureCases = []testCase{
	{"fail-open serves without invented numbers, and says why", testFailOpen},
	{"fail-closed answers 503 for a few seconds", testFailClosed},
	{"a client that went away is no failure of the store", testClientGone},
	{"a deadline of the server's own that passes is a failure of the store", testDeadline},
	{"a key that cannot be read answers 500, whatever the error mode", testKeyError},
	{"a negative cost answers 500", testNegativeCost},
	{"a limit for one request that makes no sense answers 500", testLimitForInvalid},
}

func testFailOpen(t *testing.T, s *suite) {
	f := s.fixture(t)
	f.store.failure = errDown
	decided := false
	h := f.serve(site{
		around: []middleware{f.limited(ratelimit.Policy{Limit: one()})},
		handler: func(w http.ResponseWriter, r *http.Request) {
			decided = ratelimit.DecisionFrom(r.Context()) != nil
			f.handle(w, r)
		},
	})
	expect(t, "the store is down", get(h), "200\n"+served+"\nserved\n")
	f.expectRan(1)
	e := f.event()
	if !errors.Is(e.Err, errDown) || e.Status != 0 || len(e.Outcomes) != 0 || e.Elapsed < 0 {
		t.Errorf("observed %+v, want status 0 and the store's error", e)
	}
	if decided {
		t.Error("DecisionFrom has decisions, want none")
	}
	f.store.failure = nil
	expectStatus(t, "the store is back", h, ask(http.MethodGet, "/"), http.StatusOK)
	expectStatus(t, "the second", h, ask(http.MethodGet, "/"), http.StatusTooManyRequests)
}

// unavailable is the answer of 503, with "?" for its Retry-After.
const unavailable = `
503
Cache-Control: no-store
Content-Type: application/problem+json
Retry-After: ?

{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity","title":"Request cannot be satisfied due to temporary server capacity constraints","status":503}
`

func testFailClosed(t *testing.T, s *suite) {
	f := s.fixture(t)
	f.store.failure = errDown
	options := f.options()
	options.OnError = ratelimit.FailClosed
	h := f.around(f.new(f.limiter, options, ratelimit.Policy{Limit: one()}))
	seen := make(map[string]bool)
	for range 200 {
		r := answer(h, ask(http.MethodGet, "/items/7"))
		wait := r.Header.Get("Retry-After")
		seen[wait] = true
		r.Header.Set("Retry-After", "?")
		expect(t, "the store is down", text(r), unavailable)
		e := f.event()
		if !errors.Is(e.Err, errDown) || e.Status != http.StatusServiceUnavailable || len(e.Outcomes) != 0 {
			t.Fatalf("observed %+v, want 503 and the store's error", e)
		}
	}
	if len(seen) != 3 || !seen["1"] || !seen["2"] || !seen["3"] {
		t.Errorf("Retry-After was one of %v, want 1 to 3, all of them sometimes", seen)
	}
	r := answer(h, ask(http.MethodGet, "/", "Accept: text/plain"))
	wait := r.Header.Get("Retry-After")
	r.Header.Set("Retry-After", "?")
	expect(t, "in words", text(r), `
503
Cache-Control: no-store
Content-Type: text/plain; charset=utf-8
Retry-After: ?

Request cannot be satisfied due to temporary server capacity constraints, retry after `+wait+` s
`)
	f.expectRan(0)
}

func testClientGone(t *testing.T, s *suite) {
	for _, mode := range []ratelimit.ErrorMode{ratelimit.FailOpen, ratelimit.FailClosed} {
		f := s.fixture(t)
		options := f.options()
		options.OnError = mode
		h := f.around(f.new(f.limiter, options, ratelimit.Policy{Limit: one()}))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		send(h, ask(http.MethodGet, "/items/7").WithContext(ctx))
		f.expectRan(0)
		if e := f.event(); e.Status != 499 || !errors.Is(e.Err, context.Canceled) || len(e.Outcomes) != 0 {
			t.Errorf("%v: observed %+v, want 499 and context.Canceled", mode, e)
		}
		expectStatus(t, "the next client", h, ask(http.MethodGet, "/"), http.StatusOK)
	}
}

func testDeadline(t *testing.T, s *suite) {
	for mode, status := range map[ratelimit.ErrorMode]int{ratelimit.FailOpen: http.StatusOK, ratelimit.FailClosed: http.StatusServiceUnavailable} {
		f := s.fixture(t)
		options := f.options()
		options.OnError = mode
		h := f.around(f.new(f.limiter, options, ratelimit.Policy{Limit: one()}))
		ctx, cancel := context.WithTimeout(t.Context(), 0)
		defer cancel()
		expectStatus(t, mode.String(), h, ask(http.MethodGet, "/").WithContext(ctx), status)
		if e := f.event(); !errors.Is(e.Err, context.DeadlineExceeded) {
			t.Errorf("%v: observed %+v, want DeadlineExceeded", mode, e)
		}
	}
}

// expectFault wants the only answer to be 500, and the reason observed.
func (f *fixture) expectFault(h http.Handler, reason string) {
	f.t.Helper()
	expect(f.t, "the answer", get(h), `
500
Cache-Control: no-store
Content-Type: application/problem+json

{"type":"about:blank","title":"Internal Server Error","status":500}
`)
	f.expectRan(0)
	f.expectAsked(0)
	e := f.event()
	if e.Status != http.StatusInternalServerError || e.Err == nil || !strings.Contains(e.Err.Error(), reason) || len(e.Outcomes) != 0 {
		f.t.Errorf("observed %+v, want 500 and %q", e, reason)
	}
}

func testKeyError(t *testing.T, s *suite) {
	errKey := errors.New("the session is unreadable")
	for _, mode := range []ratelimit.ErrorMode{ratelimit.FailOpen, ratelimit.FailClosed} {
		f := s.fixture(t)
		options := f.options()
		options.OnError = mode
		h := f.around(f.new(f.limiter, options,
			ratelimit.Policy{Limit: ten()},
			ratelimit.Policy{Limit: one(), By: func(*http.Request) (string, error) { return "", errKey }},
		))
		f.expectFault(h, "ratelimit: policy 1: the session is unreadable")
	}
	f := s.fixture(t)
	joined := keyfuncs.Join(keyfuncs.RemoteIP, func(*http.Request) (string, error) { return "", errKey })
	f.expectFault(f.around(f.limited(ratelimit.Policy{Limit: one(), By: joined})), errKey.Error())
}

func testNegativeCost(t *testing.T, s *suite) {
	f := s.fixture(t)
	h := f.around(f.limited(ratelimit.Policy{Limit: one(), Cost: func(*http.Request) int { return -1 }}))
	f.expectFault(h, "ratelimit: policy 0: cost -1 is negative")
}

func testLimitForInvalid(t *testing.T, s *suite) {
	f := s.fixture(t)
	h := f.around(f.limited(ratelimit.Policy{LimitFor: func(*http.Request) core.Limit { return core.FixedWindow(0, time.Second) }}))
	f.expectFault(h, "ratelimit: policy 0: core: ")
}
