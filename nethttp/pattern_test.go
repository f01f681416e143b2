package ratelimit_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	ratelimit "github.com/weir-go/ratelimit/nethttp"
)

// Whoever counts requests by route does so around everything else.
func TestThePatternThatAMuxHasFoundIsKnownOutsideOfTheLimiters(t *testing.T) {
	plain := ratelimit.New(memory(), ratelimit.Options{}, by())
	settled := by()
	settled.Settle = func(*http.Request, ratelimit.Served) int { return 0 }
	settling := ratelimit.New(memory(), ratelimit.Options{}, settled)
	skipping := by()
	skipping.Skip = func(*http.Request) bool { return true }
	panicking := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	for name, h := range map[string]http.Handler{
		"no limiter":                  twoPatterns(fine),
		"a limiter":                   plain(twoPatterns(fine)),
		"a limiter that settles":      settling(twoPatterns(fine)),
		"one that skips the request":  ratelimit.New(memory(), ratelimit.Options{}, skipping)(twoPatterns(fine)),
		"several limiters":            plain(settling(plain(twoPatterns(fine)))),
		"a handler that panics":       plain(twoPatterns(panicking)),
		"and is settled":              settling(plain(twoPatterns(panicking))),
		"something between that adds": plain(hiding(twoPatterns(fine))),
	} {
		r := httptest.NewRequest(http.MethodGet, "/items/7", nil)
		func() {
			defer func() { _ = recover() }()
			h.ServeHTTP(httptest.NewRecorder(), r)
		}()
		if r.Pattern != "GET /items/{id}" {
			t.Errorf("%s: the pattern is %q outside, want GET /items/{id}", name, r.Pattern)
		}
	}
}

func TestAPatternThatWasToldMeanwhileIsKept(t *testing.T) {
	r := httptest.NewRequest(http.MethodGet, "/items/7", nil)
	h := ratelimit.New(memory(), ratelimit.Options{}, by())(http.HandlerFunc(func(w http.ResponseWriter, inner *http.Request) {
		r.Pattern = "/told/{id}"
		twoPatterns(fine).ServeHTTP(w, inner)
	}))
	if h.ServeHTTP(httptest.NewRecorder(), r); r.Pattern != "/told/{id}" {
		t.Errorf("the pattern is %q, want the one that was told", r.Pattern)
	}
}
