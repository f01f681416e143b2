package guard_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
)

// perHour returns a limit of n requests an hour for everybody together, always of one name.
func perHour(n int) guard.Policy {
	return guard.Policy{Limit: core.FixedWindow(n, time.Hour).Named("hourly"), By: keyfuncs.Global}
}

func TestASwapKeepsWhatANamedLimitHasUsed(t *testing.T) {
	limiter := memory()
	handle := guard.Must(guard.New(limiter, guard.Options{}, perHour(2)))
	h := ratelimit.FromGuard(handle)(fine)
	if got := statuses(h, 3, "/"); got[http.StatusOK] != 2 {
		t.Fatalf("statuses %v, want 2 of 200", got)
	}
	if err := handle.Swap(limiter, guard.Options{}, perHour(5)); err != nil {
		t.Fatal(err)
	}
	if got := statuses(h, 4, "/"); got[http.StatusOK] != 3 || got[http.StatusTooManyRequests] != 1 {
		t.Errorf("statuses %v, want the 3 of 200 that are left of 5", got)
	}
}

func TestASwapThatFailsChangesNothing(t *testing.T) {
	limiter := memory()
	handle := guard.Must(guard.New(limiter, guard.Options{}, perHour(1)))
	err := handle.Swap(limiter, guard.Options{}, perHour(0))
	if err == nil || !strings.HasPrefix(err.Error(), "ratelimit: policy 0: ") {
		t.Errorf("error %v, want one about policy 0", err)
	}
	if got := statuses(ratelimit.FromGuard(handle)(fine), 2, "/"); got[http.StatusOK] != 1 || got[http.StatusTooManyRequests] != 1 {
		t.Errorf("statuses %v, want one of 200 and one of 429", got)
	}
	if h, err := guard.New(limiter, guard.Options{}); h != nil || err == nil {
		t.Errorf("New without a policy returns %v, %v", h, err)
	}
}

// A request under way is settled by the guard that has let it pass, with that guard's policies.
func TestARequestIsSettledByTheGuardThatBeganIt(t *testing.T) {
	limiter := memory()
	var events []string
	version := func(name string, cost int) (guard.Options, guard.Policy) {
		p := perHour(100)
		p.Cost, p.Settle.Cost = costs(cost), settles(cost*2)
		return guard.Options{Observe: func(e guard.Event) {
			events = append(events, fmt.Sprint(name, " ", e.Settled, " ", e.Outcomes[0].Cost))
		}}, p
	}
	options, policy := version("old", 1)
	handle := guard.Must(guard.New(limiter, options, policy))
	limit := ratelimit.FromGuard(handle)
	swap := sync.OnceFunc(func() {
		options, policy := version("new", 10)
		if err := handle.Swap(limiter, options, policy); err != nil {
			t.Error(err)
		}
	})
	h := limit(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { swap() }))
	statuses(h, 2, "/")
	if got, want := fmt.Sprint(events), "[old false 1 old true 2 new false 10 new true 20]"; got != want {
		t.Errorf("events %v, want %v", got, want)
	}
}

// A limit that a request meets twice is charged once, also when the guard is swapped in between.
func TestASwapBetweenNestedMiddlewaresChargesOnce(t *testing.T) {
	limiter := memory()
	handle := guard.Must(guard.New(limiter, guard.Options{}, perHour(5)))
	limit := ratelimit.FromGuard(handle)
	swapping := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if err := handle.Swap(limiter, guard.Options{}, perHour(5)); err != nil {
				t.Error(err)
			}
			next.ServeHTTP(w, r)
		})
	}
	statuses(limit(swapping(limit(fine))), 1, "/")
	d, err := limiter.Peek(t.Context(), "global", perHour(5).Limit)
	if err != nil || d.Remaining != 4 {
		t.Errorf("%d of 5 remain, want 4: %v", d.Remaining, err)
	}
}

// Swaps and requests come at the same time. What one guard has reserved, the same one settles.
func TestSwapsWhileRequestsRun(t *testing.T) {
	limiter, policy := memory(), perHour(1_000_000)
	version := func(n int) (guard.Options, guard.Policy) {
		p := policy
		p.Cost, p.Settle.Cost = costs(n), func(_ *http.Request, s guard.Served) int {
			if s.Cost != n {
				t.Errorf("a cost of %d is settled by a policy that reserves %d", s.Cost, n)
			}
			return 1
		}
		return guard.Options{}, p
	}
	options, p := version(1)
	handle := guard.Must(guard.New(limiter, options, p))
	h := ratelimit.FromGuard(handle)(fine)
	const clients, each = 8, 100
	var all sync.WaitGroup
	for range clients {
		all.Go(func() { statuses(h, each, "/") })
	}
	for n := range 100 {
		options, p := version(n + 2)
		if err := handle.Swap(limiter, options, p); err != nil {
			t.Error(err)
		}
	}
	all.Wait()
	d, err := limiter.Peek(t.Context(), "global", policy.Limit)
	if used := 1_000_000 - d.Remaining; err != nil || used != clients*each {
		t.Errorf("%d are used, want %d: %v", used, clients*each, err)
	}
}

// The fallback goes on from what it knows, so that a swap in an outage is no fresh start.
func TestASwapKeepsTheFallback(t *testing.T) {
	limiter := core.New(silent{})
	options := guard.Options{OnError: guard.Fallback}
	handle := guard.Must(guard.New(limiter, options, perHour(2)))
	h := ratelimit.FromGuard(handle)(fine)
	statuses(h, 2, "/")
	if err := handle.Swap(limiter, options, perHour(2)); err != nil {
		t.Fatal(err)
	}
	if got := statuses(h, 1, "/"); got[http.StatusTooManyRequests] != 1 {
		t.Errorf("statuses %v, want 429 for the third of two", got)
	}
	if err := handle.Swap(core.New(silent{}), options, perHour(2)); err != nil {
		t.Fatal(err)
	}
	if got := statuses(h, 1, "/"); got[http.StatusOK] != 1 {
		t.Errorf("statuses %v, want 200 under another limiter", got)
	}
}

// What takes the place of a limit is not a second one beside it.
func TestASwapDoesNotWarnOfEqualLimits(t *testing.T) {
	var log journal
	limiter, policy := memory(), guard.Policy{Limit: core.Leaky(10, core.PerSecond(1))}
	handle := guard.Must(guard.New(limiter, log.options(), policy))
	if err := handle.Swap(limiter, log.options(), policy); err != nil {
		t.Fatal(err)
	}
	log.expectNothing(t)
}

// A program that swaps often does not repeat its warnings.
func TestASwapDoesNotRepeatAWarning(t *testing.T) {
	var proxy, route journal
	limiter := memory()
	peer := guard.PolicyFor(core.Leaky(10_000, core.PerSecond(1)).Named("peer"))
	byRoute := guard.PolicyFor(core.Leaky(10_000, core.PerSecond(1)).Named("route"), keyfuncs.Route)
	for _, test := range []struct {
		log    *journal
		policy guard.Policy
		warn   func(http.Handler)
	}{
		{&proxy, peer, func(h http.Handler) { serveOnce(h, forwarded("X-Forwarded-For: 203.0.113.9")) }},
		{&route, byRoute, func(h http.Handler) { statuses(h, 200, "/") }},
	} {
		options := test.log.options()
		handle := guard.Must(guard.New(limiter, options, test.policy))
		h := ratelimit.FromGuard(handle)(fine)
		test.warn(h)
		test.log.expectWarning(t)
		for range 3 {
			if err := handle.Swap(limiter, options, test.policy); err != nil {
				t.Fatal(err)
			}
			test.warn(h)
		}
		test.log.expectNothing(t)
	}
}

// Whatever a policy or an option calls may swap the guard that calls it. Each request is
// charged and settled as if nobody had.
func TestASwapFromWithinARequest(t *testing.T) {
	limiter := memory()
	var handle *guard.Guard
	var options guard.Options
	var policy guard.Policy
	swap := func() {
		if err := handle.Swap(limiter, options, policy); err != nil {
			t.Error(err)
		}
	}
	options = guard.Options{
		Observe: func(guard.Event) { swap() },
		Denied:  func(http.ResponseWriter, *http.Request, *guard.Denial) { swap() },
	}
	policy = guard.Policy{
		LimitFor: func(*http.Request) core.Limit { swap(); return perHour(10).Limit },
		By:       func(*http.Request) (string, error) { swap(); return "key", nil },
		Cost:     func(*http.Request) int { swap(); return 1 },
		Skip:     func(*http.Request) bool { swap(); return false },
		Settle:   guard.SettlePolicy{Cost: func(*http.Request, guard.Served) int { swap(); return 2 }},
	}
	handle = guard.Must(guard.New(limiter, options, policy))
	h := ratelimit.FromGuard(handle)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { swap() }))
	if got := statuses(h, 7, "/"); got[http.StatusOK] != 5 || got[http.StatusTooManyRequests] != 2 {
		t.Errorf("statuses %v, want 5 of 200, which cost 2 each, and 2 of 429", got)
	}
}

func TestAZeroHandleSaysWhatToWrite(t *testing.T) {
	defer func() {
		if message, _ := recover().(string); message != "ratelimit: the Guard has no policies: make it with New" {
			t.Errorf("panic %q, want one that names New", message)
		}
	}()
	statuses(ratelimit.FromGuard(new(guard.Guard))(fine), 1, "/")
}

// A verdict knows its guard, so an adapter cannot mix them up.
func TestAVerdictOutlivesASwap(t *testing.T) {
	limiter := memory()
	handle := guard.Must(guard.New(limiter, guard.Options{}, perHour(5)))
	verdict := handle.Decide(httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/", nil), nil)
	if err := handle.Swap(limiter, guard.Options{}, perHour(9)); err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	verdict.WriteHeader(w.Header())
	if got, want := w.Header().Get("RateLimit-Policy"), `"hourly";q=5;w=3600`; got != want {
		t.Errorf("RateLimit-Policy is %q, want %q, as it was decided", got, want)
	}
}
