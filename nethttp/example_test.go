package ratelimit_test

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
)

// request sends a GET to a handler and returns its answer.
func request(h http.Handler, path string) *http.Response {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Result()
}

func item(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "item %s", r.PathValue("id"))
}

func Example() {
	limiter, err := core.Open("memory:") // or "redis://localhost:6379", for a whole fleet
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /items/{id}", item)
	limit := ratelimit.Leaky(limiter, 10, core.PerSecond(1))
	handler := limit(mux) // 10 at once, then one a second, for each address

	for range 10 {
		request(handler, "/items/7")
	}
	answer := request(handler, "/items/7")
	fmt.Println(answer.Status)
	fmt.Println("Retry-After:", answer.Header.Get("Retry-After"))
	fmt.Println("RateLimit-Policy:", answer.Header.Get("RateLimit-Policy"))
	// Output:
	// 429 Too Many Requests
	// Retry-After: 1
	// RateLimit-Policy: "leaky:10:1/s";q=1;w=1;weir-burst=10
}

// Several key functions are joined: each client has a limit on each route. The
// client's address is what your own proxies say it is.
func ExampleSlidingLog() {
	limiter, err := core.Open("memory:")
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/items/{id}", item)
	mux.HandleFunc("/login", func(http.ResponseWriter, *http.Request) {})
	client := keyfuncs.IP(keyfuncs.TrustedProxies("10.0.0.0/8"))
	handler := ratelimit.SlidingLog(limiter, 1, time.Minute, client, keyfuncs.Route)(mux)

	for _, path := range []string{"/items/7", "/items/8", "/login"} {
		fmt.Println(path, request(handler, path).StatusCode)
	}
	// Output:
	// /items/7 200
	// /items/8 429
	// /login 200
}

// Each tenant runs one export at once. Another one is denied until it has ended.
func ExampleConcurrent() {
	limiter, err := core.Open("memory:")
	if err != nil {
		log.Fatal(err)
	}
	defer limiter.Close()
	tenant := keyfuncs.User(func(r *http.Request) string { return r.URL.Query().Get("tenant") })
	running, finish := make(chan bool), make(chan bool)
	handler := ratelimit.Concurrent(limiter, 1, 30*time.Second, tenant)(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("slow") {
			running <- true
			<-finish
		}
	}))
	var slow sync.WaitGroup
	slow.Go(func() { request(handler, "/export?tenant=acme&slow") })
	<-running
	fmt.Println("acme", request(handler, "/export?tenant=acme").StatusCode)
	fmt.Println("globex", request(handler, "/export?tenant=globex").StatusCode)
	finish <- true
	slow.Wait()
	// Output:
	// acme 429
	// globex 200
}

// Two policies are one call, in one round trip: a request passes if both
// allow it, and only then is it charged.
func ExampleNew() {
	limiter, err := core.Open("memory:")
	if err != nil {
		log.Fatal(err)
	}
	limit := ratelimit.New(limiter, ratelimit.Options{OnError: guard.FailClosed},
		ratelimit.Policy{Limit: core.TokenBucket(10, core.PerSecond(1)).Named("client")},
		ratelimit.Policy{Limit: core.FixedWindow(1000, time.Hour).Named("everyone"), By: keyfuncs.Global},
	)
	handler := limit(http.HandlerFunc(item))

	answer := request(handler, "/")
	fmt.Println(answer.Status)
	fmt.Println("RateLimit:", answer.Header.Get("RateLimit"))
	fmt.Println("RateLimit-Policy:", answer.Header.Get("RateLimit-Policy"))
	// Output:
	// 200 OK
	// RateLimit: "client";r=9;t=9, "everyone";r=999;t=3600
	// RateLimit-Policy: "client";q=1;w=1;weir-burst=10, "everyone";q=1000;w=3600
}

// A service with a format of its own for errors answers denials in it, too.
func ExampleOptions_denied() {
	limiter, err := core.Open("memory:")
	if err != nil {
		log.Fatal(err)
	}
	limit := ratelimit.New(limiter, ratelimit.Options{
		Denied: func(w http.ResponseWriter, r *http.Request, denial *ratelimit.Denial) {
			if !denial.Native(r) { // a remote procedure call, or a client that prefers plain text
				denial.ServeHTTP(w, r)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(denial.Status)
			fmt.Fprintf(w, `{"error": %q, "limits": %q}`, http.StatusText(denial.Status), denial.ViolatedPolicies)
		},
	}, ratelimit.Policy{Limit: core.FixedWindow(1, time.Minute).Named("per-minute")})
	handler := limit(http.HandlerFunc(item))

	request(handler, "/")
	answer := request(handler, "/")
	body, _ := io.ReadAll(answer.Body)
	fmt.Println(answer.Status, string(body))
	// Output:
	// 429 Too Many Requests {"error": "Too Many Requests", "limits": ["per-minute"]}
}

// API keys are the client's to make up, so there is a limit by address around the
// one by API key. Whoever tries keys gets no further than his address, and leaves no
// more behind.
func Example_layers() {
	limiter, err := core.Open("memory:")
	if err != nil {
		log.Fatal(err)
	}
	client := keyfuncs.IP(keyfuncs.TrustedProxies("10.0.0.0/8"))
	limit := ratelimit.New(limiter, ratelimit.Options{}, guard.Layers(
		ratelimit.Policy{Limit: core.Leaky(3, core.PerSecond(1)).Named("address"), By: client},
		ratelimit.Policy{Limit: core.FixedWindow(2, time.Minute).Named("user"), By: keyfuncs.Header("X-API-Key")},
	)...)
	handler := limit(http.HandlerFunc(item))

	for _, key := range []string{"ann", "ann", "ann", "guess-1", "guess-2"} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("X-API-Key", key)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Println(key, w.Code, w.Header().Get("RateLimit"))
	}
	// Output:
	// ann 200 "address";r=2;t=2, "user";r=1;t=60
	// ann 200 "address";r=1;t=1, "user";r=0;t=60
	// ann 429 "address";r=1;t=1, "user";r=0;t=60
	// guess-1 200 "address";r=0;t=1, "user";r=1;t=60
	// guess-2 429 "address";r=0;t=1, "user";r=2
}

// A proxy with a limit for each address, in front of a server that has one for
// everybody.
func Example_mergeUpstream() {
	limiter, err := core.Open("memory:")
	if err != nil {
		log.Fatal(err)
	}
	upstream := httptest.NewServer(ratelimit.FixedWindow(limiter, 1000, time.Hour, keyfuncs.Global)(http.HandlerFunc(item)))
	defer upstream.Close()

	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: upstream.Listener.Addr().String()})
		},
	}
	handler := ratelimit.Leaky(limiter, 10, core.PerSecond(1))(guard.MergeUpstream(proxy))

	fmt.Println(request(handler, "/").Header["Ratelimit"])
	// Output:
	// ["leaky:10:1/s";r=9;t=9, "fixed-window:1000:1h";r=999;t=3600]
}

func Example_outcomesFrom() {
	limiter, err := core.Open("memory:")
	if err != nil {
		log.Fatal(err)
	}
	handler := ratelimit.Leaky(limiter, 10, core.PerSecond(1))(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		for _, outcome := range guard.OutcomesFrom(r.Context()) {
			fmt.Println(outcome.Policy, outcome.Decision.Remaining)
		}
	}))
	request(handler, "/")
	request(handler, "/")
	// Output:
	// leaky:10:1/s 9
	// leaky:10:1/s 8
}
