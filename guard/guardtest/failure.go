package guardtest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"

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
	{"a client that went away is no failure of the store", testClientGone},
	{"a request whose deadline has passed is answered 503 and not let through, whatever the error mode", testDeadline},
}

func testFailOpen(t *testing.T, s *suite) {
	f := s.fixture(t)
	f.store.failure = errDown
	decided := false
	h := f.serve(site{
		around: []middleware{f.limited(guard.Policy{Limit: one()})},
		handler: func(w http.ResponseWriter, r *http.Request) {
			decided = guard.OutcomesFrom(r.Context()) != nil
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
		t.Error("OutcomesFrom has decisions, want none")
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
			Settle: guard.SettlePolicy{Cost: func(_ *http.Request, served guard.Served) int { return int(served.Bytes) }, First: true},
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
	bubbletest.Run(t, func(t *testing.T) {
		f := s.fixture(t)
		options := f.options()
		options.OnError = guard.Fallback
		h := f.around(f.new(f.limiter, options, guard.Policy{Limit: core.Shaping(2, core.PerMinute(1)).Named("queue")}))
		f.store.failure = errDown
		get(h)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		send(h, ask(http.MethodGet, "/").WithContext(ctx))
		synctest.Wait() // the charged units are given back beside clients who leave
		f.expectRan(1)
		start := time.Now()
		expectStatus(t, "in the place of who has left", h, ask(http.MethodGet, "/"), http.StatusOK)
		if held := time.Since(start); held != 59*time.Second {
			t.Errorf("held for %v, want 59s", held)
		}
		f.expectRan(2)
	})
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
				h := f.around(f.new(f.limiter, options, guard.Policy{Limit: two, By: keyfuncs.Global, Settle: guard.SettlePolicy{Cost: settle, First: settle != nil}}))
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
