package guardtest

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/headers"
	"github.com/weir-go/ratelimit/keyfuncs"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
)

var upstreamCases = []testCase{
	{"behind a reverse proxy, our limits and upstream's are one set", testUpstream},
	{"behind a reverse proxy, what upstream says in another dialect is left alone", testUpstreamOtherDialect},
	{"behind a reverse proxy, an informational response does not cost the headers", testUpstreamInformational},
	{"behind a reverse proxy, upstream's denial is passed on", testUpstreamDenial},
	{"behind a reverse proxy, a connection is upgraded", testUpstreamUpgrade},
	{"behind a reverse proxy, a connection is upgraded with upstream's limits, too", testUpstreamLimitedUpgrade},
	{"behind a reverse proxy, what is streamed arrives piece by piece, with its trailers", testUpstreamStream},
	{"behind a reverse proxy whose time is limited, our limits and upstream's are one set", testUpstreamTimeout},
	{"behind a reverse proxy whose upstream is gone, ours are told", testUpstreamGone},
	{"behind a reverse proxy, where no limiter has decided upstream's headers stay", testUpstreamAlone},
}

// proxied starts an upstream server with a handler, and a server of a site that
// passes everything on to it, behind limiters.
func (f *fixture) proxied(upstream http.Handler, around, inside []middleware) (server *httptest.Server) {
	return f.proxiedBy(f.proxy(upstream), around, inside)
}

// proxiedBy starts a server of a site that passes everything on to a proxy, behind
// limiters.
func (f *fixture) proxiedBy(proxy http.Handler, around, inside []middleware) (server *httptest.Server) {
	server = httptest.NewServer(f.serve(site{around: around, inside: inside, handler: proxy.ServeHTTP}))
	f.t.Cleanup(server.Close)
	return server
}

// proxy starts an upstream server with a handler and returns a reverse proxy to it.
func (f *fixture) proxy(upstream http.Handler) http.Handler {
	behind := httptest.NewServer(upstream)
	f.t.Cleanup(behind.Close)
	target, err := url.Parse(behind.URL)
	if err != nil {
		f.t.Fatal(err)
	}
	return guard.MergeUpstream(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }})
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
func (f *fixture) limitedUpstream(writer headers.Writer, policies ...guard.Policy) http.Handler {
	limiter := core.New(core.NewMemory(core.WithClock(f.clock.now)))
	return ratelimit.New(limiter, guard.Options{Headers: writer}, policies...)(http.HandlerFunc(f.handle))
}

func testUpstream(t *testing.T, s *suite) {
	f := s.fixture(t)
	upstream := f.limitedUpstream(headers.Draft,
		guard.Policy{Limit: ten()},
		guard.Policy{Limit: core.FixedWindow(100, time.Hour).Named("hour"), By: keyfuncs.Global},
	)
	around := []middleware{f.limited(guard.Policy{Limit: ten()})}
	inside := []middleware{f.limited(guard.Policy{Limit: core.FixedWindow(5, time.Minute).Named("five")})}
	expect(t, "lists", read(t, f.proxied(upstream, around, inside)), `
200
Content-Type: text/plain; charset=utf-8
Ratelimit: "leaky:10:1/s";r=9;t=9, "five";r=4;t=60, "leaky:10:1/s-2";r=9;t=9, "hour";r=99;t=3600
Ratelimit-Policy: "leaky:10:1/s";q=1;w=1;weir-burst=10, "five";q=5;w=60, "leaky:10:1/s-2";q=1;w=1;weir-burst=10, "hour";q=100;w=3600

served
`)

	tight, loose := guard.Policy{Limit: core.FixedWindow(3, time.Minute)}, guard.Policy{Limit: core.FixedWindow(9, time.Minute)}
	for _, order := range [][2]guard.Policy{{tight, loose}, {loose, tight}} {
		f := s.fixture(t)
		options := guard.Options{Headers: headers.Legacy}
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
	around := []middleware{f.limited(guard.Policy{Limit: ten()}), f.new(f.limiter, guard.Options{Headers: headers.Legacy}, guard.Policy{Limit: one()})}
	server := f.proxied(f.limitedUpstream(headers.Draft7, guard.Policy{Limit: ten()}), around, nil)
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
	server = f.proxied(f.limitedUpstream(headers.Legacy, guard.Policy{Limit: ten()}), []middleware{f.limited(guard.Policy{Limit: one()})}, nil)
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
	proxy := f.proxy(upstream)
	server := f.proxiedBy(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { proxy.ServeHTTP(innermost(w), r) }),
		[]middleware{f.limited(guard.Policy{Limit: one()})}, nil)
	expect(t, "after early hints", read(t, server), `
200
Content-Type: text/plain; charset=utf-8
Ratelimit: "one";r=0;t=60
Ratelimit-Policy: "one";q=1;w=60

served
`)
}

func testUpstreamDenial(t *testing.T, s *suite) {
	f := s.fixture(t)
	upstream := f.limitedUpstream(headers.Draft, guard.Policy{Limit: core.FixedWindow(1, time.Hour).Named("hour")})
	server := f.proxied(upstream, []middleware{f.limited(guard.Policy{Limit: ten()})}, nil)
	read(t, server)
	expect(t, "upstream denies", read(t, server), `
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
	s.need(t, Hijacking)
	f := s.fixture(t)
	server := f.proxied(shout(t), []middleware{f.limited(guard.Policy{Limit: one()})}, nil)
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

func testUpstreamLimitedUpgrade(t *testing.T, s *suite) {
	s.need(t, Hijacking)
	f := s.fixture(t)
	limiter := ratelimit.New(core.New(core.NewMemory(core.WithClock(f.clock.now))), guard.Options{}, guard.Policy{Limit: core.FixedWindow(9, time.Hour).Named("hour")})
	server := f.proxied(limiter(shout(t)), []middleware{f.limited(guard.Policy{Limit: one()})}, nil)
	connection, reader, response := upgrade(t, server)
	quotas, limits := response.Header["Ratelimit-Policy"], response.Header["Ratelimit"]
	if response.StatusCode != http.StatusSwitchingProtocols || !slices.Equal(limits, []string{`"one";r=0;t=60, "hour";r=8;t=3600`}) || len(quotas) != 1 {
		t.Errorf("answered %d with %q and %q, want 101 with one set of fields", response.StatusCode, limits, quotas)
	}
	_, _ = io.WriteString(connection, "hello\n")
	if line, err := bufio.NewReader(reader).ReadString('\n'); line != "HELLO\n" || err != nil {
		t.Errorf("read %q, %v, want HELLO", line, err)
	}
}

func testUpstreamStream(t *testing.T, s *suite) {
	s.need(t, Streaming)
	f := s.fixture(t)
	read := make(chan struct{})
	upstream := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("RateLimit", `"day";r=4;t=60`)
		w.Header().Set("Trailer", "X-Announced")
		for range 3 {
			_, _ = io.WriteString(w, "piece\n")
			_ = http.NewResponseController(w).Flush()
			select {
			case <-read: // so nothing is sent before the client has the pieces before
			case <-r.Context().Done():
				return
			}
		}
		w.Header().Set("X-Announced", "yes")
		w.Header().Set(http.TrailerPrefix+"X-Late", "yes")
	})
	server := f.proxied(upstream, []middleware{f.limited(guard.Policy{Limit: one()})}, nil)
	response, err := server.Client().Get(server.URL + "/items/7")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if got := response.Header["Ratelimit"]; !slices.Equal(got, []string{`"one";r=0;t=60, "day";r=4;t=60`}) {
		t.Errorf("RateLimit is %q, want both limits", got)
	}
	lines := bufio.NewReader(response.Body)
	for range 3 {
		if line, err := lines.ReadString('\n'); line != "piece\n" || err != nil {
			t.Fatalf("read %q, %v, want a piece", line, err)
		}
		read <- struct{}{}
	}
	if _, err := lines.ReadByte(); !errors.Is(err, io.EOF) || response.Trailer.Get("X-Announced") != "yes" || response.Trailer.Get("X-Late") != "yes" {
		t.Errorf("ends with %v and the trailer %v, want both fields", err, response.Trailer)
	}
}

// http.TimeoutHandler gives the proxy a header of its own and copies it over the one that
// our fields are in. Of ours nothing is left that upstream's have taken the place of.
func testUpstreamTimeout(t *testing.T, s *suite) {
	f := s.fixture(t)
	proxy := http.TimeoutHandler(f.proxy(f.limitedUpstream(headers.Draft, guard.Policy{Limit: ten()})), time.Hour, "")
	expect(t, "lists", read(t, f.proxiedBy(proxy, []middleware{f.limited(guard.Policy{Limit: ten()})}, nil)), `
200
Content-Type: text/plain; charset=utf-8
Ratelimit: "leaky:10:1/s";r=9;t=9, "leaky:10:1/s-2";r=9;t=9
Ratelimit-Policy: "leaky:10:1/s";q=1;w=1;weir-burst=10, "leaky:10:1/s-2";q=1;w=1;weir-burst=10

served
`)

	f = s.fixture(t)
	proxy = http.TimeoutHandler(f.proxy(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-RateLimit-Remaining", "1")
		f.handle(w, r)
	})), time.Hour, "")
	limiter := f.new(f.limiter, guard.Options{Headers: headers.Legacy}, guard.Policy{Limit: ten()})
	expect(t, "single values", read(t, f.proxiedBy(proxy, []middleware{limiter}, nil)), `
200
Content-Type: text/plain; charset=utf-8
X-Ratelimit-Remaining: 1

served
`)
}

func testUpstreamGone(t *testing.T, s *suite) {
	f := s.fixture(t)
	proxy := guard.MergeUpstream(&httputil.ReverseProxy{
		Rewrite:      func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: "127.0.0.1:1"}) },
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	})
	expect(t, "upstream is gone", read(t, f.proxiedBy(proxy, []middleware{f.limited(guard.Policy{Limit: one()})}, nil)), `
502
Ratelimit: "one";r=0;t=60
Ratelimit-Policy: "one";q=1;w=60

`)
}

func testUpstreamAlone(t *testing.T, s *suite) {
	f := s.fixture(t)
	f.store.failure = errDown
	upstream := f.limitedUpstream(headers.Draft, guard.Policy{Limit: one()})
	server := f.proxied(upstream, []middleware{f.limited(guard.Policy{Limit: ten()})}, nil)
	expect(t, "failed open", read(t, server), `
200
Content-Type: text/plain; charset=utf-8
Ratelimit: "one";r=0;t=60
Ratelimit-Policy: "one";q=1;w=60

served
`)
}
