package ratelimit_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/keyfuncs"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
)

// pathPatterns have wildcards of every kind, at every place.
var pathPatterns = []string{
	"GET /items/{id}", "/items/{id}/parts/{part}", "POST api.example/items/{id}", "/files/{rest...}", "/users/{id}/files/{rest...}",
	"/tenants/{x}/home", "/exact/{id}/{$}", "/static/{id}/", "/a%20b/{id}", "/three/{x}/{y}/{id}/{$}",
}

var pathNames = []string{"id", "part", "rest", "x", "y", "none"}

// expectMuxsOwn wants a limiter around a mux to know the path values that the mux tells
// its handlers.
func expectMuxsOwn(t *testing.T, r *http.Request) {
	t.Helper()
	var pattern string
	var want, got []string
	mux := http.NewServeMux()
	for _, p := range pathPatterns {
		mux.HandleFunc(p, func(_ http.ResponseWriter, r *http.Request) {
			pattern = r.Pattern
			for _, name := range pathNames {
				plain := new(http.Request) // which knows nothing of the limiter
				plain.SetPathValue(name, r.PathValue(name))
				key, err := keyfuncs.PathValue(name)(plain)
				if err != nil {
					key = "anonymous:192.0.2.1"
				}
				want = append(want, key)
			}
		})
	}
	var policies []ratelimit.Policy
	for i, name := range pathNames {
		policies = append(policies, ratelimit.Policy{Limit: core.Leaky(100+i, core.PerSecond(1)), By: keyfuncs.PathValue(name)})
	}
	limit := ratelimit.New(memory(), ratelimit.Options{Observe: func(e ratelimit.Event) {
		for _, o := range e.Outcomes {
			got = append(got, o.Key)
		}
	}}, policies...)
	limit(mux).ServeHTTP(httptest.NewRecorder(), r)
	for i := range want { // if a handler has run
		if got[i] != want[i] {
			t.Errorf("%s %s by %q: the key of %s is %q, want %q", r.Method, r.URL, pattern, pathNames[i], got[i], want[i])
		}
	}
}

var pathTargets = []string{
	"/items/7", "/items/a%20b", "/items/a%2Fb", "/items/7/parts/8", "/items/%7Bid%7D", "http://api.example/items/7", "/files/", "/files/a/b.txt",
	"/files/a%2Fb/c%20d", "/users/7/files/", "/users/7/files/a//b", "/users/7/files/a/b", "/tenants/acme/home", "/exact/7/", "/exact/7/8", "/static/7/",
	"/static/7/css/site.css", "/static/7", "/a%20b/7", "/a b/7", "/three/1/2/3/", "/nowhere", "/", "//items/7", "/items/../items/7", "/items/", "*",
	"/items/%", "/items/%zz", "/items/7?id=8",
}

func TestPathValuesAroundAMuxAreTheMuxsOwn(t *testing.T) {
	for _, target := range pathTargets {
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodHead, http.MethodConnect, http.MethodOptions} {
			if address, err := url.Parse(target); err == nil {
				r := httptest.NewRequest(method, "/", nil)
				r.URL = address
				if address.Host != "" {
					r.Host = address.Host
				}
				expectMuxsOwn(t, r)
			}
		}
	}
}

// What an outer router has found is kept.
func TestPathValuesOfAnOuterRouterAreKept(t *testing.T) {
	var got string
	limit := ratelimit.New(memory(), ratelimit.Options{Observe: func(e ratelimit.Event) { got = e.Outcomes[0].Key }}, by(keyfuncs.PathValue("tenant")))
	mux := http.NewServeMux()
	mux.Handle("/{tenant}/items/{id}", limit(twoPatterns(fine)))
	visit(mux, "/acme/items/7")
	if got != "path:tenant=acme" {
		t.Errorf("the key is %q, want that of the outer pattern", got)
	}
}

// A handler in the mux is told the value of the mux.
func TestPathValuesOfTheMuxComeBeforeThoseOfAnOuterRouter(t *testing.T) {
	var got, told string
	limit := ratelimit.New(memory(), ratelimit.Options{Observe: func(e ratelimit.Event) { got = e.Outcomes[0].Key }}, by(keyfuncs.PathValue("id")))
	inner := http.NewServeMux()
	inner.HandleFunc("/{tenant}/items/{id}", func(_ http.ResponseWriter, r *http.Request) { told = r.PathValue("id") })
	mux := http.NewServeMux()
	mux.Handle("/{id}/", limit(inner))
	visit(mux, "/acme/items/7")
	if got != "path:id=7" || told != "7" {
		t.Errorf("the key is %q and the handler is told %q, want 7 for both", got, told)
	}
}

func FuzzPathValuesAroundAMux(f *testing.F) {
	for _, target := range pathTargets {
		f.Add(http.MethodGet, "", target)
	}
	f.Add(http.MethodPost, "api.example", "/items/7")
	f.Fuzz(func(t *testing.T, method, host, target string) {
		address, err := url.ParseRequestURI(target)
		if err != nil {
			return
		}
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Method, r.Host, r.URL = method, host, address
		expectMuxsOwn(t, r)
	})
}
