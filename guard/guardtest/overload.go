package guardtest

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
)

var errOverloaded = fmt.Errorf("too many wait: %w", core.Overloaded)

var overloadCases = []testCase{
	{"a crowd that overloads this process is answered with 503, and is not let through", testOverloadIsClosed},
	{"OnOverload decides when this process is overloaded, and OnError when the store fails", testOnOverload},
	{"a part that was not asked for lack of room is up to OnOverload", testPartialOverload},
	{"of servers of which one is down and one is overloaded, the stricter of OnError and OnOverload decides", testOverloadBesideAnOutage},
}

func testOverloadIsClosed(t *testing.T, s *suite) {
	for _, onError := range []guard.ErrorMode{0, guard.FailOpen, guard.Fallback} {
		f := s.fixture(t)
		f.store.failure = errOverloaded
		options := f.options()
		options.OnError = onError
		h := f.around(f.new(f.limiter, options, guard.Policy{Limit: one()}))
		expectStatus(t, fmt.Sprintf("overloaded, OnError %v", onError), h, ask(http.MethodGet, "/"), http.StatusServiceUnavailable)
		f.expectRan(0)
		if e := f.event(); !errors.Is(e.Err, core.Overloaded) || len(e.Unanswered) != 1 || e.Unanswered[0].Mode != guard.FailClosed {
			t.Errorf("observed %+v, want the failure and the mode FailClosed", e)
		}
	}
}

func testOnOverload(t *testing.T, s *suite) {
	f := s.fixture(t)
	options := f.options()
	options.OnOverload = guard.Fallback
	options.OnError = guard.FailClosed
	h := f.around(f.new(f.limiter, options, guard.Policy{Limit: one()}))
	f.store.failure = errOverloaded
	expectStatus(t, "overloaded, by this process", h, ask(http.MethodGet, "/"), http.StatusOK)
	expectStatus(t, "overloaded, one too many", h, ask(http.MethodGet, "/"), http.StatusTooManyRequests)
	f.store.failure = errDown
	expectStatus(t, "down", h, ask(http.MethodGet, "/"), http.StatusServiceUnavailable)
	f.expectRan(1)
}

func testPartialOverload(t *testing.T, s *suite) {
	f := s.fixture(t)
	lost := one().Named("lost")
	f.limiter = core.New(&partly{Store: core.NewMemory(), lost: map[string]bool{"lost": true}, err: errOverloaded})
	h := f.around(f.limited(guard.Policy{Limit: ten(), By: keyfuncs.Global}, guard.Policy{Limit: lost}))
	expectStatus(t, "half of it is overloaded", h, ask(http.MethodGet, "/"), http.StatusServiceUnavailable)
	f.expectRan(0)
	f.expectUsed(ten(), 0)
}

func testOverloadBesideAnOutage(t *testing.T, s *suite) {
	for _, c := range []struct {
		onError, onOverload guard.ErrorMode
		want                int
	}{
		{0, 0, http.StatusServiceUnavailable},
		{guard.Fallback, guard.FailClosed, http.StatusServiceUnavailable},
		{guard.FailClosed, guard.FailOpen, http.StatusServiceUnavailable},
		{guard.FailOpen, guard.FailOpen, http.StatusOK},
	} {
		for _, failure := range []error{errors.Join(errDown, errOverloaded), errors.Join(errOverloaded, errDown)} {
			f := s.fixture(t)
			options := f.options()
			options.OnError, options.OnOverload = c.onError, c.onOverload
			f.limiter = core.New(&partly{Store: core.NewMemory(), lost: map[string]bool{"one": true, "other": true}, err: failure})
			h := f.around(f.new(f.limiter, options,
				guard.Policy{Limit: one().Named("one"), By: keyfuncs.Global}, guard.Policy{Limit: one().Named("other")}))
			expectStatus(t, fmt.Sprintf("OnError %v, OnOverload %v, after %q", c.onError, c.onOverload, failure), h, ask(http.MethodGet, "/"), c.want)
		}
	}
}
