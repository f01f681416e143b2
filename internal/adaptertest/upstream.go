package adaptertest

import (
	"bufio"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/headers"
	"github.com/weir-go/ratelimit/keyfuncs"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
)

var upstreamCases = []testCase{
	{"behind a reverse proxy, our limits and upstream's are one set", testUpstream},
	{"behind a reverse proxy, what upstream says in another dialect is left alone", testUpstreamOtherDialect},
	{"behind a reverse proxy, an informational response does not cost the headers", testUpstreamInformational},
	{"behind a reverse proxy, upstream's refusal is passed on", testUpstreamRefusal},
	{"behind a reverse proxy, a connection is upgraded", testUpstreamUpgrade},
	{"behind a reverse proxy, where no limiter has decided upstream's headers stay", testUpstreamAlone},
}

// proxied starts an upstream server with a handler, and a server of a site that
// passes everything on to it, behind limiters.
func (f *fixture) proxied(upstream http.Handler, around, inside []middleware) (server *httptest.Server) {
	behind := httptest.NewServer(upstream)
	f.t.Cleanup(behind.Close)
	target, err := url.Parse(behind.URL)
	if err != nil {
		f.t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, ModifyResponse: f.merge}
	server = httptest.NewServer(f.serve(site{around: around, inside: inside, handler: proxy.ServeHTTP}))
	f.t.Cleanup(server.Close)
	return server
}

// read returns all that a client of a server sees of an item.
func read(t *testing.T, server *httptest.Server) string {
	t.Helper()
	response, err := server.Client().Get(server.URL + "/items/7")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	response.Header.Del("Date")
	response.Header.Del("Content-Length")
	return text(response)
}

// limitedUpstream is an upstream server that has limits of its own.
func (f *fixture) limitedUpstream(writer headers.Writer, policies ...ratelimit.Policy) http.Handler {
	limiter := core.New(core.NewMemory(core.WithClock(f.clock.now)))
	return ratelimit.New(limiter, ratelimit.Options{Headers: writer}, policies...)(http.HandlerFunc(f.handle))
}

func testUpstream(t *testing.T, s *suite) {
	f := s.fixture(t)
	upstream := f.limitedUpstream(headers.Draft,
		ratelimit.Policy{Limit: ten()},
		ratelimit.Policy{Limit: core.FixedWindow(100, time.Hour).Named("hour"), By: keyfuncs.Global},
	)
	around := []middleware{f.limited(ratelimit.Policy{Limit: ten()})}
	inside := []middleware{f.limited(ratelimit.Policy{Limit: core.FixedWindow(5, time.Minute).Named("five")})}
	expect(t, "lists", read(t, f.proxied(upstream, around, inside)), `
200
Content-Type: text/plain; charset=utf-8
Ratelimit: "leaky:10:1/s";r=9;t=9, "five";r=4;t=60, "leaky:10:1/s-2";r=9;t=9, "hour";r=99;t=3600
Ratelimit-Policy: "leaky:10:1/s";q=1;w=1;weir-burst=10, "five";q=5;w=60, "leaky:10:1/s-2";q=1;w=1;weir-burst=10, "hour";q=100;w=3600

served
`)

	tight, loose := ratelimit.Policy{Limit: core.FixedWindow(3, time.Minute)}, ratelimit.Policy{Limit: core.FixedWindow(9, time.Minute)}
	for _, order := range [][2]ratelimit.Policy{{tight, loose}, {loose, tight}} {
		f := s.fixture(t)
		options := ratelimit.Options{Headers: headers.Legacy}
		server := f.proxied(f.limitedUpstream(headers.Legacy, order[1]), []middleware{f.new(f.limiter, options, order[0])}, nil)
		expect(t, "single values", read(t, server), `
200
Content-Type: text/plain; charset=utf-8
X-Ratelimit-Limit: 3
X-Ratelimit-Remaining: 2
X-Ratelimit-Reset: 60

served
`)
	}
}

func testUpstreamOtherDialect(t *testing.T, s *suite) {
	f := s.fixture(t)
	around := []middleware{f.limited(ratelimit.Policy{Limit: ten()}), f.new(f.limiter, ratelimit.Options{Headers: headers.Legacy}, ratelimit.Policy{Limit: one()})}
	server := f.proxied(f.limitedUpstream(headers.Draft7, ratelimit.Policy{Limit: ten()}), around, nil)
	expect(t, "draft 7", read(t, server), `
200
Content-Type: text/plain; charset=utf-8
Ratelimit: "leaky:10:1/s";r=9;t=9
Ratelimit-Policy: "leaky:10:1/s";q=1;w=1;weir-burst=10
X-Ratelimit-Limit: 1
X-Ratelimit-Remaining: 0
X-Ratelimit-Reset: 60

served
`)

	f = s.fixture(t)
	server = f.proxied(f.limitedUpstream(headers.Legacy, ratelimit.Policy{Limit: ten()}), []middleware{f.limited(ratelimit.Policy{Limit: one()})}, nil)
	expect(t, "legacy", read(t, server), `
200
Content-Type: text/plain; charset=utf-8
Ratelimit: "one";r=0;t=60
Ratelimit-Policy: "one";q=1;w=60
X-Ratelimit-Limit: 10
X-Ratelimit-Remaining: 9
X-Ratelimit-Reset: 1

served
`)
}

func testUpstreamInformational(t *testing.T, s *suite) {
	f := s.fixture(t)
	upstream := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusEarlyHints)
		f.handle(w, r)
	})
	behind := httptest.NewServer(upstream)
	defer behind.Close()
	target, err := url.Parse(behind.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, ModifyResponse: f.merge}
	server := httptest.NewServer(f.serve(site{
		around:  []middleware{f.limited(ratelimit.Policy{Limit: one()})},
		handler: func(w http.ResponseWriter, r *http.Request) { proxy.ServeHTTP(innermost(w), r) },
	}))
	defer server.Close()
	expect(t, "after early hints", read(t, server), `
200
Content-Type: text/plain; charset=utf-8
Ratelimit: "one";r=0;t=60
Ratelimit-Policy: "one";q=1;w=60

served
`)
}

func testUpstreamRefusal(t *testing.T, s *suite) {
	f := s.fixture(t)
	upstream := f.limitedUpstream(headers.Draft, ratelimit.Policy{Limit: core.FixedWindow(1, time.Hour).Named("hour")})
	server := f.proxied(upstream, []middleware{f.limited(ratelimit.Policy{Limit: ten()})}, nil)
	read(t, server)
	expect(t, "upstream refuses", read(t, server), `
429
Cache-Control: no-store
Content-Type: application/problem+json
Ratelimit: "leaky:10:1/s";r=8;t=8, "hour";r=0;t=3600
Ratelimit-Policy: "leaky:10:1/s";q=1;w=1;weir-burst=10, "hour";q=1;w=3600
Retry-After: 3600

`+quotaExceeded+`["hour"]}
`)
}

func testUpstreamUpgrade(t *testing.T, s *suite) {
	f := s.fixture(t)
	server := f.proxied(shout(t), []middleware{f.limited(ratelimit.Policy{Limit: one()})}, nil)
	connection, reader, response := upgrade(t, server)
	if response.StatusCode != http.StatusSwitchingProtocols || response.Header.Get("Ratelimit") != `"one";r=0;t=60` {
		t.Fatalf("answered %d with %v, want 101 with limit headers", response.StatusCode, response.Header)
	}
	_, _ = io.WriteString(connection, "hello\n")
	if line, err := bufio.NewReader(reader).ReadString('\n'); line != "HELLO\n" || err != nil {
		t.Errorf("read %q, %v, want HELLO", line, err)
	}
	if _, _, response = upgrade(t, server); response.StatusCode != http.StatusTooManyRequests {
		t.Errorf("answered %d, want 429", response.StatusCode)
	}
}

func testUpstreamAlone(t *testing.T, s *suite) {
	f := s.fixture(t)
	f.store.failure = errDown
	upstream := f.limitedUpstream(headers.Draft, ratelimit.Policy{Limit: one()})
	server := f.proxied(upstream, []middleware{f.limited(ratelimit.Policy{Limit: ten()})}, nil)
	expect(t, "failed open", read(t, server), `
200
Content-Type: text/plain; charset=utf-8
Ratelimit: "one";r=0;t=60
Ratelimit-Policy: "one";q=1;w=60

served
`)
	if err := f.merge(&http.Response{}); err != nil {
		t.Errorf("a response to no request: error %v, want none", err)
	}
}
