package guardtest

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
)

var faultCases = []testCase{
	{"a key that cannot be read answers 500, whatever the error mode", testKeyError},
	{"a negative cost answers 500", testNegativeCost},
	{"a negative headroom answers 500", testNegativeHeadroom},
	{"a limit for one request that makes no sense answers 500", testLimitForInvalid},
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
	for _, mode := range []guard.ErrorMode{guard.FailOpen, guard.FailClosed} {
		f := s.fixture(t)
		options := f.options()
		options.OnError = mode
		h := f.around(f.new(f.limiter, options,
			guard.Policy{Limit: ten()},
			guard.Policy{Limit: one(), By: func(*http.Request) (string, error) { return "", errKey }},
		))
		f.expectFault(h, "ratelimit: policy 1: the session is unreadable")
	}
	f := s.fixture(t)
	joined := keyfuncs.Join(keyfuncs.RemoteIP, func(*http.Request) (string, error) { return "", errKey })
	f.expectFault(f.around(f.limited(guard.Policy{Limit: one(), By: joined})), errKey.Error())
}

func testNegativeCost(t *testing.T, s *suite) {
	f := s.fixture(t)
	h := f.around(f.limited(guard.Policy{Limit: one(), Cost: func(*http.Request) int { return -1 }}))
	f.expectFault(h, "ratelimit: policy 0: cost -1 is negative")
}

func testNegativeHeadroom(t *testing.T, s *suite) {
	f := s.fixture(t)
	h := f.around(f.limited(guard.Policy{Limit: one(), Headroom: func(*http.Request) int { return -1 }}))
	f.expectFault(h, "ratelimit: policy 0: headroom -1 is negative")
}

func testLimitForInvalid(t *testing.T, s *suite) {
	f := s.fixture(t)
	h := f.around(f.limited(guard.Policy{LimitFor: func(*http.Request) core.Limit { return core.FixedWindow(0, time.Second) }}))
	f.expectFault(h, "ratelimit: policy 0: core: ")
}
