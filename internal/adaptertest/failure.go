package adaptertest

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
)

var errDown = errors.New("the store is down")

var failureCases = []testCase{
	{"fail-open serves without invented numbers, and says why", testFailOpen},
	{"fail-closed answers 503 for a few seconds", testFailClosed},
	{"the fallback keeps this process's share, from what was seen last", testFallback},
	{"the fallback goes on from what requests have really cost", testFallbackSettled},
	{"the fallback holds shaped requests until their turn", testFallbackShaping},
	{"what a store cannot answer in part is up to each policy", testPartialFailure},
	{"a request that is denied by what a store can answer leaves the fallback as it was", testPartialDenial},
	{"a store that fails bit by bit is asked about what is left", testFailureBitByBit},
	{"a client that goes away while a store fails in part does not reach the handler", testGoneInPartialFailure},
	{"a client that went away is no failure of the store", testClientGone},
	{"a request whose deadline has passed is answered 503 and not let through, whatever the error mode", testDeadline},
	{"a request whose deadline passes while a store fails in part is not let through", testDeadlineInPartialFailure},
	{"a key that cannot be read answers 500, whatever the error mode", testKeyError},
	{"a negative cost answers 500", testNegativeCost},
	{"a limit for one request that makes no sense answers 500", testLimitForInvalid},
}

func testFailOpen(t *testing.T, s *suite) {
	f := s.fixture(t)
	f.store.failure = errDown
	decided := false
	h := f.serve(site{
		around: []middleware{f.limited(guard.Policy{Limit: one()})},
		handler: func(w http.ResponseWriter, r *http.Request) {
			decided = guard.DecisionFrom(r.Context()) != nil
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
	options.OnError = guard.FailClosed
	h := f.around(f.new(f.limiter, options, guard.Policy{Limit: one()}))
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
	expect(t, "in words", text(r), s.inWords(`
503
Cache-Control: no-store
Content-Type: text/plain; charset=utf-8
Retry-After: ?

Request cannot be satisfied due to temporary server capacity constraints, retry after `+wait+` s
`, unavailable))
	f.expectRan(0)
}

func testFallback(t *testing.T, s *suite) {
	f := s.fixture(t)
	options := f.options()
	options.OnError, options.Replicas = guard.Fallback, 2
	hourly := core.Leaky(10, core.PerHour(10)).Named("hourly")
	h := f.around(f.new(f.limiter, options, guard.Policy{Limit: hourly}))
	for range 4 {
		expectStatus(t, "the store is up", h, ask(http.MethodGet, "/"), http.StatusOK)
		f.event()
	}
	f.store.failure = errDown
	// Of the share of 5, half of the 4 that were used is gone.
	for range 3 {
		expect(t, "the store is down", get(h), "200\n"+served+"\nserved\n")
		e := f.event()
		if !errors.Is(e.Err, errDown) || e.Status != 0 || len(e.Outcomes) != 1 || !e.Outcomes[0].Decision.Degraded || !e.Outcomes[0].Decision.Allowed {
			t.Fatalf("observed %+v, want the error and a degraded decision", e)
		}
	}
	r := answer(h, ask(http.MethodGet, "/"))
	if wait := r.Header.Get("Retry-After"); len(wait) != 3 { // a sixth of an hour for one of 5 in an hour
		t.Errorf("Retry-After %q, want about 720", wait)
	}
	r.Header.Set("Retry-After", "?")
	expect(t, "the share is used up", text(r), `
429
Cache-Control: no-store
Content-Type: application/problem+json
Retry-After: ?

{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Request cannot be satisfied as assigned quota has been exceeded","status":429,"violated-policies":["hourly"]}
`)
	if e := f.event(); !errors.Is(e.Err, errDown) || e.Status != http.StatusTooManyRequests {
		t.Errorf("observed %+v, want 429 and the error", e)
	}
	f.store.failure = nil
	expectStatus(t, "the store is back", h, ask(http.MethodGet, "/"), http.StatusOK)
	f.expectRan(8)
}

// Of 100, each request reserves 60 and uses 10.
func testFallbackSettled(t *testing.T, s *suite) {
	f := s.fixture(t)
	options := f.options()
	options.OnError = guard.Fallback
	h := f.serve(site{
		around: []middleware{f.new(f.limiter, options, guard.Policy{
			Limit: hundred(), Cost: func(*http.Request) int { return 60 },
			Settle: func(_ *http.Request, served guard.Served) int { return int(served.Bytes) },
		})},
		handler: func(w http.ResponseWriter, _ *http.Request) {
			f.ran++
			_, _ = io.WriteString(w, "ten bytes\n")
		},
	})
	expectStatus(t, "the store is up", h, ask(http.MethodGet, "/"), http.StatusOK)
	f.store.failure = errDown
	for range 4 {
		f.events = nil
		expectStatus(t, "the store is down", h, ask(http.MethodGet, "/"), http.StatusOK)
		if len(f.events) != 2 || !f.events[1].Settled || f.events[1].Err != nil || f.events[1].Outcomes[0].Cost != 10 {
			t.Errorf("observed %+v, want what was decided and then what was settled", f.events)
		}
	}
	expectStatus(t, "50 are used", h, ask(http.MethodGet, "/"), http.StatusTooManyRequests)
	f.expectRan(5)
}

func testFallbackShaping(t *testing.T, s *suite) {
	synctest.Test(t, func(t *testing.T) {
		f := s.fixture(t)
		options := f.options()
		options.OnError = guard.Fallback
		h := f.around(f.new(f.limiter, options, guard.Policy{Limit: core.Shaping(2, core.PerMinute(1)).Named("queue")}))
		f.store.failure = errDown
		get(h)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		send(h, ask(http.MethodGet, "/").WithContext(ctx))
		synctest.Wait() // what was charged is given back beside those who leave
		f.expectRan(1)
		start := time.Now()
		expectStatus(t, "in the place of who has left", h, ask(http.MethodGet, "/"), http.StatusOK)
		if held := time.Since(start); held != 59*time.Second {
			t.Errorf("held for %v, want 59s", held)
		}
		f.expectRan(2)
	})
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

func (p *partly) Decide(ctx context.Context, checks []core.Check, decisions []core.Decision) error {
	if err := p.without(checks); err != nil {
		return err
	}
	return p.Store.Decide(ctx, checks, decisions)
}

func (p *partly) Reserve(ctx context.Context, checks []core.Check, decisions []core.Decision, moments []core.Moment) error {
	if err := p.without(checks); err != nil {
		return err
	}
	return p.Store.Reserve(ctx, checks, decisions, moments)
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
				guard.Policy{Limit: core.Leaky(3, core.PerHour(1)).Named("lost"), OnError: guard.Fallback, Settle: settle},
				guard.Policy{Limit: one(), Settle: settle}))
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
		modes [2]guard.ErrorMode // of what is lost first and of what is lost then
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

func testClientGone(t *testing.T, s *suite) {
	for _, mode := range []guard.ErrorMode{guard.FailOpen, guard.FailClosed} {
		f := s.fixture(t)
		options := f.options()
		options.OnError = mode
		h := f.around(f.new(f.limiter, options, guard.Policy{Limit: one()}))
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
	errCause := errors.New("the handler's time is up")
	for _, mode := range []guard.ErrorMode{guard.FailOpen, guard.FailClosed, guard.Fallback} {
		for name, expiring := range map[string]func(context.Context) (context.Context, context.CancelFunc){
			"now":  func(ctx context.Context) (context.Context, context.CancelFunc) { return context.WithTimeout(ctx, 0) },
			"soon": func(ctx context.Context) (context.Context, context.CancelFunc) { return context.WithTimeout(ctx, 1) },
			"with a cause": func(ctx context.Context) (context.Context, context.CancelFunc) {
				return context.WithTimeoutCause(ctx, 0, errCause)
			},
		} {
			for _, settle := range []func(*http.Request, guard.Served) int{nil, says(1)} {
				f := s.fixture(t)
				options := f.options()
				options.OnError = mode
				two := core.FixedWindow(2, time.Hour)
				h := f.around(f.new(f.limiter, options, guard.Policy{Limit: two, By: keyfuncs.Global, Settle: settle}))
				for range 5 {
					ctx, cancel := expiring(t.Context())
					<-ctx.Done()
					r := answer(h, ask(http.MethodGet, "/").WithContext(ctx))
					r.Header.Set("Retry-After", "?")
					expect(t, mode.String()+" "+name, text(r), unavailable)
					e := f.event()
					if !errors.Is(e.Err, context.DeadlineExceeded) || e.Status != http.StatusServiceUnavailable || len(e.Outcomes) != 0 || len(e.Unanswered) != 1 {
						t.Errorf("%v, %s: observed %+v, want 503 and DeadlineExceeded", mode, name, e)
					}
					cancel()
				}
				f.expectRan(0)
				f.expectUsed(two, 0)
			}
		}
	}
}

func testDeadlineInPartialFailure(t *testing.T, s *suite) {
	synctest.Test(t, func(t *testing.T) {
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

func testLimitForInvalid(t *testing.T, s *suite) {
	f := s.fixture(t)
	h := f.around(f.limited(guard.Policy{LimitFor: func(*http.Request) core.Limit { return core.FixedWindow(0, time.Second) }}))
	f.expectFault(h, "ratelimit: policy 0: core: ")
}
