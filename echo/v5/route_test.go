package ratelimit_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v5"

	"github.com/weir-go/ratelimit/core"
	ratelimit "github.com/weir-go/ratelimit/echo/v5"
	"github.com/weir-go/ratelimit/internal/given"
	"github.com/weir-go/ratelimit/keyfuncs"
)

func TestGroupsAndRoutesNest(t *testing.T) {
	l := memory()
	e := echo.New()
	api := e.Group("/api", ratelimit.Leaky(l, 10, core.PerSecond(1)))
	api.GET("/items/:id", ok, ratelimit.FixedWindow(l, 5, time.Minute, keyfuncs.Route))
	e.GET("/free", ok)
	got := get(e, "/api/items/7").Header().Get("RateLimit")
	if want := `"leaky:10:1/s";r=9;t=9, "fixed-window:5:1m";r=4;t=60`; got != want {
		t.Errorf("RateLimit is %s, want %s", got, want)
	}
	if got := get(e, "/free").Header().Get("RateLimit"); got != "" {
		t.Errorf("outside of the group RateLimit is %s, want none", got)
	}
}

// routes sends a GET to each path of a site and returns the routes that a limiter
// by route has seen.
func routes(build func(ratelimit.Middleware) http.Handler, paths ...string) []string {
	var seen []string
	options := ratelimit.Options{Observe: func(e ratelimit.Event) {
		seen = append(seen, strings.TrimPrefix(e.Outcomes[0].Key, "route:"))
	}}
	policy := ratelimit.Policy{Limit: core.Leaky(100, core.PerSecond(1)), By: keyfuncs.Route}
	h := build(ratelimit.New(memory(), options, policy))
	for _, path := range paths {
		get(h, path)
	}
	return seen
}

func TestWhatMatchesNothingInAGroupIsUnmatched(t *testing.T) {
	got := routes(func(limiter ratelimit.Middleware) http.Handler {
		e := echo.New()
		api := e.Group("/api", limiter)
		api.GET("/items/:id", ok)
		api.GET("/files/*", ok)
		return e
	}, "/api/items/7", "/api/nowhere", "/api/no/where", "/api/files/a")
	if want := []string{"/api/items/{id}", "(unmatched)", "(unmatched)", "/api/files/{...}"}; !slices.Equal(got, want) {
		t.Errorf("routes %q, want %q", got, want)
	}
}

func TestBeforeRoutingThereIsNoRoute(t *testing.T) {
	got := routes(func(limiter ratelimit.Middleware) http.Handler {
		e := echo.New()
		e.Pre(limiter)
		e.GET("/items/:id", ok)
		return e
	}, "/items/7", "/nowhere")
	if want := []string{"(unmatched)", "(unmatched)"}; !slices.Equal(got, want) {
		t.Errorf("routes %q, want %q", got, want)
	}
}

func TestALimiterByRouteBeforeRoutingIsNoticed(t *testing.T) {
	for place, warnings := range map[string]int{"Pre": 1, "Use": 0, "the route": 0} {
		for _, settle := range []func(*http.Request, ratelimit.Served) int{nil, func(*http.Request, ratelimit.Served) int { return 1 }} {
			var log bytes.Buffer
			limit := ratelimit.New(memory(), ratelimit.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))},
				ratelimit.Policy{Limit: core.Leaky(1000, core.PerSecond(1)), By: keyfuncs.Join(keyfuncs.RemoteIP, keyfuncs.Route), Settle: ratelimit.SettlePolicy{Cost: settle}})
			e := echo.New()
			var inside []ratelimit.Middleware
			switch place {
			case "Pre":
				e.Pre(limit)
			case "Use":
				e.Use(limit)
			default:
				inside = append(inside, limit)
			}
			e.GET("/items/:id", ok, inside...)
			for range 60 {
				get(e, "/nowhere")
				get(e, "/items/secret")
			}
			got := log.String()
			if strings.Count(got, "\n") != warnings || strings.Contains(got, "secret") ||
				warnings > 0 && (!strings.Contains(got, "level=WARN") || !strings.Contains(got, "found=/items/{id}") || !strings.Contains(got, "echo: Use, not Pre")) {
				t.Errorf("%s: logged %q, want %d warnings", place, got, warnings)
			}
		}
	}
}

// A middleware that several echos use knows the routes of each.
func TestOneMiddlewareInTwoEchos(t *testing.T) {
	got := routes(func(limiter ratelimit.Middleware) http.Handler {
		one, two := echo.New(), echo.New()
		one.Use(limiter)
		one.GET("/files/*", ok)
		two.Use(limiter)
		two.GET("/images/*", ok)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			one.ServeHTTP(w, r)
			two.ServeHTTP(w, r)
		})
	}, "/files/a", "/images/a")
	if want := []string{"/files/{...}", given.Unmatched, given.Unmatched, "/images/{...}"}; !slices.Equal(got, want) {
		t.Errorf("routes %q, want %q", got, want)
	}
}

// The routes of a host are routes, catch-alls included.
func TestRoutesOfAHost(t *testing.T) {
	got := routes(func(limiter ratelimit.Middleware) http.Handler {
		e := echo.New()
		e.Use(limiter)
		e.GET("/files/*", ok)
		return echo.NewVirtualHostHandler(map[string]*echo.Echo{"example.com": e})
	}, "/files/a", "/nowhere")
	if want := []string{"/files/{...}", given.Unmatched}; !slices.Equal(got, want) {
		t.Errorf("routes %q, want %q", got, want)
	}
}

// What a handler for all that is not found serves, and one for any method.
func TestRoutesForAnything(t *testing.T) {
	got := routes(func(limiter ratelimit.Middleware) http.Handler {
		e := echo.New()
		e.Use(limiter)
		e.RouteNotFound("/*", ok)
		e.Any("/any/:id", ok)
		return e
	}, "/files/a", "/any/7")
	if want := []string{given.Unmatched, "/any/{id}"}; !slices.Equal(got, want) {
		t.Errorf("routes %q, want %q", got, want)
	}
}
