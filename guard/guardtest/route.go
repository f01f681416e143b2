package guardtest

import (
	"bytes"
	"log/slog"
	"net/http"
	"testing"

	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
)

var routeCases = []testCase{
	{"a route is the matched pattern, around the router and inside", testRoute},
	{"what matches no route is limited, too, and is one route", testUnmatched},
	{"a limiter by route in its place is no mistake", testRouteIsNoMistake},
	{"an allowed answer of 404 and 405 is the framework's own, with limit headers", testUnmatchedAnswer},
}

func (f *fixture) byRoute() middleware {
	return f.limited(guard.Policy{Limit: ten(), By: keyfuncs.Route})
}

func testRoute(t *testing.T, s *suite) {
	for _, c := range []struct{ path, want string }{
		{"/", "route:/"},
		{"/items/7", "route:/items/{id}"},
		{"/items/8?id=9", "route:/items/{id}"},
		{"/items/a%20b", "route:/items/{id}"},
		{"/files/a", "route:" + s.catchAll},
		{"/files/a/b.txt", "route:" + s.catchAll},
	} {
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodOptions} {
			f := s.fixture(t)
			for _, place := range s.routed() {
				expectStatus(t, c.path, place(f, f.byRoute()), ask(method, c.path), http.StatusOK)
				f.expectKeys(c.want)
			}
		}
	}
}

func testRouteIsNoMistake(t *testing.T, s *suite) {
	for _, place := range s.routed() {
		f := s.fixture(t)
		var log bytes.Buffer
		options := guard.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}
		h := place(f, f.new(f.limiter, options, guard.Policy{Limit: many(), By: keyfuncs.Join(keyfuncs.RemoteIP, keyfuncs.Route)}))
		for range 150 {
			for _, path := range []string{"/nowhere", "/", "/items/7", "/files/a/b.txt"} {
				send(h, ask(http.MethodGet, path))
			}
		}
		if log.Len() > 0 {
			t.Errorf("logged %s", &log)
		}
	}
}

func testUnmatched(t *testing.T, s *suite) {
	s.need(t, RouteAround)
	f := s.fixture(t)
	h := f.around(f.limited(guard.Policy{Limit: ten(), By: keyfuncs.Join(keyfuncs.RemoteIP, keyfuncs.Route)}))
	for _, c := range []struct {
		method, path string
		want         int
	}{
		{http.MethodGet, "/nowhere", http.StatusNotFound},
		{http.MethodGet, "/nowhere/else", http.StatusNotFound},
		{http.MethodGet, "/items", http.StatusNotFound},
		{http.MethodGet, "/itemsandmore/7", http.StatusNotFound},
		{http.MethodPost, "/nowhere", http.StatusNotFound},
		{http.MethodPost, "/items/7", http.StatusMethodNotAllowed},
		{http.MethodDelete, "/", http.StatusMethodNotAllowed},
	} {
		expectStatus(t, c.method+" "+c.path, h, ask(c.method, c.path), c.want)
		f.expectKeys("ip:203.0.113.9|route:(unmatched)")
	}
	for range 3 {
		expectStatus(t, "three more", h, ask(http.MethodGet, "/nowhere"), http.StatusNotFound)
	}
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		expect(t, "the eleventh", send(h, ask(method, "/nowhere/at/all")), `
429
Cache-Control: no-store
Content-Type: application/problem+json
Ratelimit: "leaky:10:1/s";r=0;t=1
Ratelimit-Policy: "leaky:10:1/s";q=1;w=1;weir-burst=10
Retry-After: 1

`+quotaExceeded+`["leaky:10:1/s"]}
`)
	}
	expectStatus(t, "a route", h, ask(http.MethodGet, "/items/7"), http.StatusOK)
	f.expectRan(1)
}

func testUnmatchedAnswer(t *testing.T, s *suite) {
	f := s.fixture(t)
	bare, limited := f.serve(site{handler: f.handle}), f.around(f.byRoute())
	for _, r := range []*http.Request{ask(http.MethodGet, "/nowhere"), ask(http.MethodPost, "/items/7")} {
		want, got := answer(bare, r), answer(limited, r)
		if got.Header.Get("Ratelimit") == "" || got.Header.Get("Ratelimit-Policy") == "" {
			t.Errorf("%s %s has no limit headers", r.Method, r.URL)
		}
		got.Header.Del("Ratelimit")
		got.Header.Del("Ratelimit-Policy")
		expect(t, r.Method+" "+r.URL.Path, text(got), text(want))
	}
}
