package guard_test

import (
	"context"
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

// site builds a handler with a limiter somewhere in it.
type site = func(limit ratelimit.Middleware) http.Handler

// chiRouter does what chi does with a request: it copies it, runs the middleware of Use,
// and only then looks for a handler, whose pattern and path values it tells by the request
// that the middleware passes on. The module examples/chi tests chi itself.
type chiRouter struct {
	use    ratelimit.Middleware    // or nil
	routes map[string]http.Handler // by a prefix of the path
}

func (c *chiRouter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	type contextKey struct{}
	r = r.WithContext(context.WithValue(r.Context(), contextKey{}, c))
	if c.use == nil {
		c.route(w, r)
		return
	}
	c.use(http.HandlerFunc(c.route)).ServeHTTP(w, r)
}

func (c *chiRouter) route(w http.ResponseWriter, r *http.Request) {
	for prefix, handler := range c.routes {
		if id, found := strings.CutPrefix(r.URL.Path, prefix); found {
			r.Pattern = prefix + "{id}"
			r.SetPathValue("id", id)
			handler.ServeHTTP(w, r)
			return
		}
	}
	http.NotFound(w, r)
}

func twoRoutes(h http.Handler) map[string]http.Handler {
	return map[string]http.Handler{"/items/": h, "/users/": h}
}

func twoPatterns(h http.Handler) *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle("GET /items/{id}", h)
	mux.Handle("GET /users/{id}", h)
	return mux
}

// hiding is a wrapper that hides what it wraps, such as one that logs.
func hiding(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(w, r) })
}

// copying is a wrapper that passes on another request, such as one that sets a timeout.
func copying(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(w, r.WithContext(r.Context())) })
}

func visit(h http.Handler, paths ...string) {
	for _, path := range paths {
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, nil))
	}
}

// by returns a policy that nobody exceeds.
func by(funcs ...keyfuncs.Func) guard.Policy {
	return guard.PolicyFor(core.Leaky(1000, core.PerSecond(1)), funcs...)
}

// mostUntold is after how many requests without a route that is noticed.
const mostUntold = 100

func TestARouteThatIsAskedForTooEarlyIsNoticed(t *testing.T) {
	byRoute := by(keyfuncs.RemoteIP, keyfuncs.Route)
	settled := byRoute
	settled.Settle.Cost = func(*http.Request, guard.Served) int { return 0 }
	underUse := func(limit ratelimit.Middleware) http.Handler { return &chiRouter{limit, twoRoutes(fine)} }
	aroundWrapper := func(limit ratelimit.Middleware) http.Handler { return limit(hiding(twoPatterns(fine))) }
	for name, test := range map[string]struct {
		policy guard.Policy
		site   site
		asked  string
	}{
		"Use of a router":              {byRoute, underUse, "(unmatched)"},
		"Use of a router, with Settle": {settled, underUse, "(unmatched)"},
		"a path value under Use":       {by(keyfuncs.PathValue("id")), underUse, "(unmatched)"},
		"a wrapper that hides a mux":   {byRoute, aroundWrapper, "(unmatched)"},
		"where there is no other key":  {by(keyfuncs.Or(keyfuncs.Header("X-Api-Key"), keyfuncs.Route)), aroundWrapper, "(unmatched)"},
		"inside of another limiter": {byRoute, func(limit ratelimit.Middleware) http.Handler {
			return ratelimit.Leaky(memory(), 1000, core.PerSecond(1))(aroundWrapper(limit))
		}, "(unmatched)"},
		"between two routers": {byRoute, func(limit ratelimit.Middleware) http.Handler {
			mux := http.NewServeMux()
			mux.Handle("/", aroundWrapper(limit))
			return mux
		}, "/{...}"},
	} {
		t.Run(name, func(t *testing.T) {
			var log journal
			h := test.site(ratelimit.New(memory(), log.options(), test.policy))
			visit(h, "/nowhere")
			log.expectNothing(t)
			visit(h, "/items/secret", "/users/secret", "/items/secret")
			log.expectWarning(t, "before the router", test.asked, "/items/{id}", "r.With(limit)", "limit(mux)")
		})
	}
}

func TestARouteThatIsKnownInTimeIsNoMistake(t *testing.T) {
	byRoute, byAddress := by(keyfuncs.RemoteIP, keyfuncs.Route), by(keyfuncs.RemoteIP)
	underUse := func(limit ratelimit.Middleware) http.Handler { return &chiRouter{limit, twoRoutes(fine)} }
	for name, test := range map[string]struct {
		policy guard.Policy
		site   site
	}{
		"a mux":                    {byRoute, func(limit ratelimit.Middleware) http.Handler { return limit(twoPatterns(fine)) }},
		"each handler of a mux":    {byRoute, func(limit ratelimit.Middleware) http.Handler { return hiding(twoPatterns(limit(fine))) }},
		"each handler of a router": {byRoute, func(limit ratelimit.Middleware) http.Handler { return &chiRouter{nil, twoRoutes(limit(fine))} }},
		"another key under Use":    {byAddress, underUse},
		"a pattern that keys write otherwise": {byRoute, func(limit ratelimit.Middleware) http.Handler {
			return &chiRouter{nil, map[string]http.Handler{"/items|%": limit(fine), "/items/": limit(fine)}}
		}},
		"a handler that asks for it": {byAddress, func(limit ratelimit.Middleware) http.Handler {
			return limit(hiding(twoPatterns(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = keyfuncs.Route(r) }))))
		}},
		"a limiter further inside that asks for it": {byAddress, func(limit ratelimit.Middleware) http.Handler {
			return limit(hiding(twoPatterns(ratelimit.New(memory(), guard.Options{}, byRoute)(fine))))
		}},
		"a limiter further outside that asks for it": {byAddress, func(limit ratelimit.Middleware) http.Handler {
			return ratelimit.New(memory(), guard.Options{}, byRoute)(twoPatterns(limit(fine)))
		}},
		"a limiter that denies": {guard.Policy{
			Limit: core.FixedWindow(1, time.Minute), By: byRoute.By, Cost: func(*http.Request) int { return 2 },
		}, underUse},
	} {
		t.Run(name, func(t *testing.T) {
			var log journal
			h := test.site(ratelimit.New(memory(), log.options(), test.policy))
			for range mostUntold/4 - 1 {
				visit(h, "/items/7", "/users/7", "/nowhere", "/items%7C%25/7")
			}
			log.expectNothing(t)
		})
	}
}

// A router may tell nothing, and what it tells may get lost on the way.
func TestThatNoRouterTellsARouteIsNoticed(t *testing.T) {
	for name, site := range map[string]site{
		"no router":       func(limit ratelimit.Middleware) http.Handler { return limit(fine) },
		"around a router": func(limit ratelimit.Middleware) http.Handler { return limit(&chiRouter{nil, twoRoutes(fine)}) },
		"a wrapper that copies": func(limit ratelimit.Middleware) http.Handler {
			return limit(copying(twoPatterns(fine)))
		},
		"a wrapper that copies under Use": func(limit ratelimit.Middleware) http.Handler {
			return &chiRouter{func(h http.Handler) http.Handler { return limit(copying(h)) }, twoRoutes(fine)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			var log journal
			h := site(ratelimit.New(memory(), log.options(), by(keyfuncs.RemoteIP, keyfuncs.Route)))
			var group sync.WaitGroup
			for range 3 {
				group.Go(func() {
					for range mostUntold / 3 {
						visit(h, "/items/secret")
					}
				})
			}
			group.Wait()
			log.expectNothing(t)
			visit(h, "/items/secret", "/users/secret")
			log.expectWarning(t, "no router", "limit(mux)", "keyfuncs.WithMatched")
		})
	}
}

// What a router does not find has no route. That says nothing against the limiter's place.
func TestRequestsThatNoPatternMatchesAreNoMistake(t *testing.T) {
	byRoute := by(keyfuncs.RemoteIP, keyfuncs.Route)
	var log journal
	h := ratelimit.New(memory(), log.options(), byRoute)(twoPatterns(fine))
	for range 2 * mostUntold {
		visit(h, "/nowhere")
	}
	log.expectNothing(t)

	limit := ratelimit.New(memory(), log.options(), byRoute)
	visit(&chiRouter{nil, twoRoutes(limit(fine))}, "/items/7")
	for range 2 * mostUntold {
		visit(limit(http.NotFoundHandler()), "/nowhere") // as a router runs it for what it does not find
	}
	log.expectNothing(t)
}

// nothing is a handler for Verdict.Serve.
func nothing(http.ResponseWriter, *http.Request) int { return 0 }

// An adapter that has no router of its own to ask leaves it to the request.
func TestAPatternIsEnoughForAGuard(t *testing.T) {
	var log journal
	g := guard.Must(guard.New(memory(), log.options(), by(keyfuncs.RemoteIP, keyfuncs.Route)))
	r := httptest.NewRequest(http.MethodGet, "/items/7", nil)
	r.Pattern = "GET /items/{id}"
	for range 2 * mostUntold {
		verdict := g.Decide(r, nil)
		if verdict.Denial != nil {
			t.Fatalf("denied with %d", verdict.Denial.Status)
		}
		verdict.Serve(httptest.NewRecorder(), nothing)
	}
	log.expectNothing(t)
}

// A handler may ask for the route from many goroutines, while nobody counts that.
func TestAHandlerMayAskForTheRouteAsItLikes(t *testing.T) {
	var log journal
	h := ratelimit.New(memory(), log.options(), by(keyfuncs.RemoteIP))(hiding(twoPatterns(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var group sync.WaitGroup
		for range 4 {
			group.Go(func() {
				if route, _ := keyfuncs.Route(r); route != "route:/items/{id}" {
					t.Errorf("the handler is told %q", route)
				}
			})
		}
		group.Wait()
	}))))
	visit(h, "/items/7")
	log.expectNothing(t)
}

// Where a limiter stands well, the route is soon no longer asked for twice.
func TestRoutesAreComparedOnlyForAWhile(t *testing.T) {
	asked := 0
	g := guard.Must(guard.New(memory(), guard.Options{}, guard.Policy{Limit: core.Leaky(100_000, core.PerSecond(1)), By: keyfuncs.Route}))
	request := func() int {
		asked = 0
		if denial := g.Decide(httptest.NewRequest(http.MethodGet, "/", nil), counting{&asked}).Denial; denial != nil {
			t.Fatalf("denied with %d", denial.Status)
		}
		return asked
	}
	if n := request(); n != 2 {
		t.Errorf("the first request has the route asked for %d times, want by the key and by who looks after it", n)
	}
	for range 9_999 {
		request()
	}
	if n := request(); n != 1 {
		t.Errorf("after 10,000 requests the route is asked for %d times, want once", n)
	}
}

// counting is a router that counts how often it is asked.
type counting struct{ asked *int }

func (c counting) Route() string {
	*c.asked++
	return "/items/{id}"
}

func (counting) PathValue(string) string { return "" }
