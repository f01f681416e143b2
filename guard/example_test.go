package guard_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
)

// framework is a handler of a framework whose handlers return the status of an error, for
// the framework to answer, or 0.
type framework func(w http.ResponseWriter, r *http.Request) (failed int)

func (f framework) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if failed := f(w, r); failed != 0 {
		http.Error(w, http.StatusText(failed), failed)
	}
}

// An adapter for a framework has the Guard decide, and puts the verdict into the framework's
// idiom. Whoever answers the error has to use the writer that Serve gives to the handler:
// where a policy has Settle, that writer notices the answer.
func ExampleGuard() {
	limiter, err := core.Open("memory:")
	if err != nil {
		log.Fatal(err)
	}
	g := guard.Must(guard.New(limiter, guard.Options{}, guard.Policy{
		Limit: core.GCRA(2, core.PerMinute(1)),
	}))

	adapter := func(next framework) framework {
		return func(w http.ResponseWriter, r *http.Request) (failed int) {
			verdict := g.Decide(r, nil)
			verdict.WriteHeader(w.Header())
			if verdict.Denial != nil {
				verdict.Denial.ServeHTTP(w, verdict.Request)
				return 0
			}
			verdict.Serve(w, func(w http.ResponseWriter, r *http.Request) int {
				failed = next(w, r)
				return failed
			})
			return failed
		}
	}

	limited := adapter(func(_ http.ResponseWriter, r *http.Request) int {
		if r.URL.Path != "/" {
			return http.StatusNotFound
		}
		return 0
	})
	for _, path := range []string{"/", "/nowhere", "/"} {
		w := httptest.NewRecorder()
		limited.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		fmt.Println(path, w.Code)
	}
	// Output:
	// / 200
	// /nowhere 404
	// / 429
}

// down is a store that does not answer.
type down struct{ core.Store }

func (down) Decide(context.Context, []core.Call) (int, error) { return 0, core.Unreachable }

// While the store is down, each of two processes lets half of the limit pass.
func ExampleErrorMode() {
	limit := ratelimit.New(core.New(down{}), guard.Options{
		OnError: guard.Fallback, Replicas: 2, Logger: slog.New(slog.DiscardHandler),
	}, guard.Policy{Limit: core.FixedWindow(4, time.Hour)})
	h := limit(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for range 3 {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		fmt.Println(w.Code)
	}
	// Output:
	// 200
	// 200
	// 429
}

// The limits change while the server runs: a signal or a watcher of a file would call Swap.
// Each request has the limits that it began with, and a named limit keeps what was used.
func ExampleGuard_Swap() {
	limiter, err := core.Open("memory:")
	if err != nil {
		log.Fatal(err)
	}
	daily := func(n int) guard.Policy {
		return guard.Policy{Limit: core.FixedWindow(n, 24*time.Hour).Named("daily")}
	}
	handle := guard.Must(guard.New(limiter, guard.Options{}, daily(1)))
	limit := ratelimit.FromGuard(handle) // of an adapter: nethttp, gin, echo or echo/v5
	h := limit(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))

	get := func() {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		fmt.Println(w.Code, w.Header().Get("RateLimit-Policy"))
	}
	get()
	get()
	fmt.Println(handle.Swap(limiter, guard.Options{}, daily(0)))
	get()
	fmt.Println(handle.Swap(limiter, guard.Options{}, daily(2)))
	get()
	// Output:
	// 200 "daily";q=1;w=86400
	// 429 "daily";q=1;w=86400
	// ratelimit: policy 0: core: daily: fixed-window 0, 1d: capacity 0 is less than 1
	// 429 "daily";q=1;w=86400
	// <nil>
	// 200 "daily";q=2;w=86400
}
