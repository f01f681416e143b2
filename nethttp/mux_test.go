package ratelimit_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
)

func memory() *core.Limiter { return core.New(core.NewMemory()) }

var fine = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})

func visit(h http.Handler, urls ...string) {
	for _, url := range urls {
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, url, nil))
	}
}

// by returns a policy that nobody exceeds.
func by(funcs ...keyfuncs.Func) ratelimit.Policy {
	return guard.PolicyFor(core.Leaky(1000, core.PerSecond(1)), funcs...)
}

// byRoute is a limiter by route, and the routes that it has seen.
func byRoute(l *core.Limiter) (limiter ratelimit.Middleware, routes *[]string) {
	routes = new([]string)
	observe := func(e ratelimit.Event) {
		for _, o := range e.Outcomes {
			*routes = append(*routes, strings.TrimPrefix(o.Key, "route:"))
		}
	}
	policy := ratelimit.Policy{Limit: core.Leaky(1000, core.PerSecond(1)), By: keyfuncs.Route}
	return ratelimit.New(l, ratelimit.Options{Observe: observe}, policy), routes
}

// hiding is a wrapper that hides what it wraps, such as one that logs.
func hiding(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(w, r) })
}

func twoPatterns(h http.Handler) *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle("GET /items/{id}", h)
	mux.Handle("GET /users/{id}", h)
	return mux
}

func TestRouteOfPatternsThatOnlyServeMuxHas(t *testing.T) {
	mux := http.NewServeMux()
	for _, pattern := range []string{"/static/", "GET api.example/items/{id}", "/exact/{$}", "/a%20b/{id}"} {
		mux.Handle(pattern, fine)
	}
	for url, want := range map[string]string{
		"/static/":                     "/static/{...}",
		"/static/css/site.css":         "/static/{...}",
		"/static":                      "/static/{...}", // redirected to /static/
		"http://api.example/items/7":   "api.example/items/{id}",
		"http://other.example/items/7": "(unmatched)",
		"/exact/":                      "/exact/",
		"/exact/more":                  "(unmatched)",
		"/a%20b/7":                     "/a%2520b/{id}",
	} {
		limiter, routes := byRoute(memory())
		visit(limiter(mux), url)
		if !slices.Equal(*routes, []string{want}) {
			t.Errorf("%s: routes %q, want %q", url, *routes, want)
		}
	}
}

func TestRouteInsideOfNestedMuxes(t *testing.T) {
	l := memory()
	outside, outer := byRoute(l)
	inside, inner := byRoute(l)
	api := http.NewServeMux()
	api.Handle("/items/{id}", inside(fine))
	mux := http.NewServeMux()
	mux.Handle("/api/", http.StripPrefix("/api", api))
	visit(outside(mux), "/api/items/7")
	if !slices.Equal(*outer, []string{"/api/{...}"}) || !slices.Equal(*inner, []string{"/items/{id}"}) {
		t.Errorf("routes %q outside and %q inside, want the pattern of each mux", *outer, *inner)
	}
}

func TestRouteAroundSomethingAroundTheMuxIsUnmatched(t *testing.T) {
	limiter, routes := byRoute(memory())
	mux := http.NewServeMux()
	mux.Handle("/items/{id}", fine)
	visit(limiter(http.HandlerFunc(mux.ServeHTTP)), "/items/7")
	if !slices.Equal(*routes, []string{"(unmatched)"}) {
		t.Errorf("routes %q, want one that is unmatched", *routes)
	}
}

// router is another framework's knowledge of a route.
type router struct{ keyfuncs.Matched }

func (router) Route() string { return "/items/{id}" }

func TestRouteOfAnotherFrameworkIsKept(t *testing.T) {
	limiter, routes := byRoute(memory())
	r := httptest.NewRequest(http.MethodGet, "/items/7", nil)
	r = r.WithContext(keyfuncs.WithMatched(r.Context(), router{}))
	limiter(fine).ServeHTTP(httptest.NewRecorder(), r)
	if !slices.Equal(*routes, []string{"/items/{id}"}) {
		t.Errorf("routes %q, want what the framework says", *routes)
	}
}
