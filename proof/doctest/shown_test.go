package doctest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
)

// What follows stands word for word in the pages of docs: see TestSnippetsAreRun.

// newAPI returns the service's handler with its limits.
func newAPI(limiter *core.Limiter, options ratelimit.Options) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /items/{id}", func(http.ResponseWriter, *http.Request) {})
	limit := ratelimit.New(limiter, options, ratelimit.Policy{Limit: core.Leaky(10, core.PerSecond(1)), By: keyfuncs.RemoteIP})
	return limit(mux)
}

// get sends a request from an address to a handler.
func get(h http.Handler, address string) *http.Response {
	r := httptest.NewRequest(http.MethodGet, "/items/7", nil)
	r.RemoteAddr = address + ":1234"
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func TestEleventhRequestIsDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := core.New(core.NewMemory())
		api := newAPI(limiter, ratelimit.Options{})
		for i := range 10 {
			if answer := get(api, "203.0.113.9"); answer.StatusCode != http.StatusOK {
				t.Fatalf("request %d: %s", i+1, answer.Status)
			}
		}
		answer := get(api, "203.0.113.9")
		if answer.StatusCode != http.StatusTooManyRequests {
			t.Fatalf("the eleventh request: %s", answer.Status)
		}
		if other := get(api, "203.0.113.10"); other.StatusCode != http.StatusOK {
			t.Errorf("another client: %s", other.Status)
		}

		wait, err := strconv.Atoi(answer.Header.Get("Retry-After"))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(wait) * time.Second) // takes no time in synctest
		if again := get(api, "203.0.113.9"); again.StatusCode != http.StatusOK {
			t.Errorf("after Retry-After: %s", again.Status)
		}
	})
}

func TestWorkerKeepsThePace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := core.New(core.NewMemory())
		defer limiter.Close()
		partner := core.Leaky(1, core.PerSecond(5)).Named("partner")
		start := time.Now()
		for range 10 {
			if err := limiter.Wait(t.Context(), "partner", partner); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(start); took != 1800*time.Millisecond {
			t.Errorf("ten calls took %v", took)
		}
	})
}

func TestQuotaStartsAnewAfterADay(t *testing.T) {
	now := time.Date(2026, time.May, 1, 12, 0, 0, 0, time.UTC)
	limiter := core.New(core.NewMemory(core.WithClock(func() time.Time { return now })))
	quota := core.FixedWindow(2, 24*time.Hour).Named("exports")
	for _, step := range []struct {
		after   time.Duration
		allowed bool
	}{
		{0, true},
		{time.Hour, true},
		{time.Hour, false},
		{22 * time.Hour, true}, // a day after the first
	} {
		now = now.Add(step.after)
		decision, err := limiter.Allow(t.Context(), "user:42", quota)
		if err != nil {
			t.Fatal(err)
		}
		if decision.Allowed != step.allowed {
			t.Errorf("%v: allowed: %t; retry after %v", now, decision.Allowed, decision.RetryAfter)
		}
	}
}

// down is a store that does not answer.
type down struct{ core.Store }

func (down) Decide(context.Context, []core.Call) (answered int, err error) {
	return 0, core.TimedOut
}

func TestOutage(t *testing.T) {
	limiter := core.New(down{core.NewMemory()})
	for mode, status := range map[guard.ErrorMode]int{
		guard.FailOpen:   http.StatusOK,
		guard.FailClosed: http.StatusServiceUnavailable,
	} {
		var failure core.Failure
		api := newAPI(limiter, ratelimit.Options{
			OnError: mode,
			Observe: func(e ratelimit.Event) { failure = core.FailureOf(e.Err) },
		})
		if answer := get(api, "203.0.113.9"); answer.StatusCode != status {
			t.Errorf("%v: %s", mode, answer.Status)
		}
		if failure != core.TimedOut {
			t.Errorf("%v: observed %q", mode, failure)
		}
	}
}

func TestRedisIsLoading(t *testing.T) {
	server := miniredis.RunT(t)
	limiter, err := core.Open("redis://"+server.Addr(), core.WithBudget(30*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer limiter.Close()
	api := newAPI(limiter, ratelimit.Options{OnError: guard.FailClosed})
	if answer := get(api, "203.0.113.9"); answer.StatusCode != http.StatusOK {
		t.Fatalf("while all is well: %s", answer.Status)
	}
	server.SetError("LOADING Redis is loading the dataset in memory")
	if answer := get(api, "203.0.113.9"); answer.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("while it is loading: %s", answer.Status)
	}
}

// sideBySide returns the old middleware, and counts how its verdicts compare with those of
// the shadow policies in front of it.
func sideBySide(old func(http.Handler) http.Handler, counted *guard.Comparison) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			passed := false
			old(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				passed = true
				next.ServeHTTP(w, r)
			})).ServeHTTP(w, r)
			for _, outcome := range guard.OutcomesFrom(r.Context()) {
				counted.Count(passed, outcome.Decision.Allowed)
			}
		})
	}
}

func TestSideBySide(t *testing.T) {
	limiter := core.New(core.NewMemory())
	old := ratelimit.FixedWindow(core.New(core.NewMemory()), 4, time.Hour)
	var counted guard.Comparison
	shadow := ratelimit.New(limiter, ratelimit.Options{}, ratelimit.Policy{
		Limit: core.FixedWindow(2, time.Hour).Named("api"), Shadow: true,
	})
	handler := shadow(sideBySide(old, &counted)(http.NotFoundHandler()))
	for range 5 {
		get(handler, "203.0.113.9")
	}
	if got, want := counted.Counts(), (guard.ComparisonCounts{BothAllow: 2, OnlyCandidateDenies: 2, BothDeny: 1}); got != want {
		t.Errorf("counted %v, want %v", got, want)
	}
}
