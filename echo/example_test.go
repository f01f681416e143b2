package ratelimit_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/weir-go/ratelimit/core"
	ratelimit "github.com/weir-go/ratelimit/echo"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
)

// request sends a GET to a handler and returns its answer.
func request(h http.Handler, path string) *http.Response {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Result()
}

func item(c echo.Context) error { return c.String(http.StatusOK, "item "+c.Param("id")) }

func Example() {
	limiter, err := core.Open("memory:") // or "redis://localhost:6379", for a whole fleet
	if err != nil {
		log.Fatal(err)
	}
	e := echo.New()
	e.Use(ratelimit.Leaky(limiter, 10, core.PerSecond(1))) // 10 at once, then one a second, for each address
	e.GET("/items/:id", item)

	for range 10 {
		request(e, "/items/7")
	}
	answer := request(e, "/items/7")
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
	client := keyfuncs.IP(keyfuncs.TrustedProxies("10.0.0.0/8"))
	e := echo.New()
	e.Use(ratelimit.SlidingLog(limiter, 1, time.Minute, client, keyfuncs.Route))
	e.GET("/items/:id", item)
	e.GET("/login", func(echo.Context) error { return nil })

	for _, path := range []string{"/items/7", "/items/8", "/login"} {
		fmt.Println(path, request(e, path).StatusCode)
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
	handler := echo.New()
	handler.Use(ratelimit.Concurrent(limiter, 1, 30*time.Second, tenant))
	handler.GET("/export", func(c echo.Context) error {
		if c.QueryParams().Has("slow") {
			running <- true
			<-finish
		}
		return nil
	})
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
	e := echo.New()
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			c.Set("user_id", 42) // the authentication
			return next(c)
		}
	})
	e.Use(ratelimit.New(limiter, ratelimit.Options{OnError: guard.FailClosed},
		ratelimit.Policy{Limit: core.TokenBucket(10, core.PerSecond(1)).Named("user"), By: ratelimit.User("user_id")},
		ratelimit.Policy{Limit: core.FixedWindow(1000, time.Hour).Named("everyone"), By: keyfuncs.Global},
	))
	e.GET("/items/:id", item)

	answer := request(e, "/items/7")
	fmt.Println(answer.Status)
	fmt.Println("RateLimit:", answer.Header.Get("RateLimit"))
	// Output:
	// 200 OK
	// RateLimit: "user";r=9;t=9, "everyone";r=999;t=3600
}

// A plan that the authentication has found, and an exemption by the route, come from the
// framework's own context.
func ExampleWith() {
	limiter, err := core.Open("memory:")
	if err != nil {
		log.Fatal(err)
	}
	plans := map[string]core.Limit{
		"free": core.FixedWindow(10, time.Hour).Named("plan"),
		"gold": core.FixedWindow(1000, time.Hour).Named("plan"),
	}
	e := echo.New()
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			c.Set("plan", c.QueryParam("plan")) // the authentication
			return next(c)
		}
	})
	e.Use(ratelimit.New(limiter, ratelimit.Options{}, ratelimit.Policy{
		LimitFor: ratelimit.With(func(c echo.Context) core.Limit {
			plan, _ := c.Get("plan").(string)
			return plans[plan]
		}),
		Skip: ratelimit.With(func(c echo.Context) bool { return c.Path() == "/health" }),
	}))
	e.GET("/items/:id", item)
	e.GET("/health", func(echo.Context) error { return nil })

	for _, path := range []string{"/items/7?plan=free", "/items/7?plan=gold", "/health"} {
		answer := request(e, path)
		fmt.Println(path, answer.StatusCode, answer.Header.Get("RateLimit-Policy"))
	}
	// Output:
	// /items/7?plan=free 200 "plan";q=10;w=3600
	// /items/7?plan=gold 200 "plan";q=1000;w=3600
	// /health 200
}
