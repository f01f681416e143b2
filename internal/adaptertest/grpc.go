package adaptertest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weir-go/ratelimit/core"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
)

var grpcCases = []testCase{
	{"a refused call of gRPC gets RESOURCE_EXHAUSTED, and no body", testGRPC},
	{"what is no call of gRPC gets a problem", testNoGRPC},
	{"a call of gRPC that cannot be decided about gets UNAVAILABLE, or INTERNAL", testGRPCFaults},
	{"a Denied handler answers calls of gRPC, too", testGRPCDenied},
	{"over HTTP/2, a refused call is one frame of headers", testGRPCOverTheWire},
}

// call is a call of gRPC, or something like it.
func call(contentType string) *http.Request {
	return ask(http.MethodPost, "/nowhere", "Content-Type: "+contentType, "Te: trailers", "Accept: text/plain")
}

func testGRPC(t *testing.T, s *suite) {
	for contentType, want := range map[string]string{
		"application/grpc":                               "application/grpc",
		"application/grpc+proto":                         "application/grpc+proto",
		"Application/GRPC+json ; charset=utf-8":          "application/grpc+json",
		"application/grpc-web":                           "application/grpc-web",
		"application/grpc-web-text+proto":                "application/grpc-web-text+proto",
		"application/grpc+" + strings.Repeat("x", 1<<20): "application/grpc",
	} {
		f := s.fixture(t)
		h := f.around(f.limited(ratelimit.Policy{Limit: one()}))
		get(h)
		f.event()
		expect(t, want, send(h, call(contentType)), `
200
Cache-Control: no-store
Content-Type: `+want+`
Grpc-Message: Request cannot be satisfied as assigned quota has been exceeded, retry after 60 s
Grpc-Retry-Pushback-Ms: 60000
Grpc-Status: 8
Ratelimit: "one";r=0;t=60
Ratelimit-Policy: "one";q=1;w=60
Retry-After: 60

`)
		f.expectRan(1)
		if e := f.event(); e.Status != http.StatusTooManyRequests {
			t.Errorf("observed status %d, want 429", e.Status)
		}
	}

	f := s.fixture(t)
	h := f.around(f.limited(ratelimit.Policy{Limit: ten(), Cost: func(*http.Request) int { return 11 }}))
	expect(t, "no wait can help", send(h, call("application/grpc")), `
200
Cache-Control: no-store
Content-Type: application/grpc
Grpc-Message: Request cannot be satisfied as assigned quota has been exceeded
Grpc-Retry-Pushback-Ms: -1
Grpc-Status: 8
Ratelimit: "leaky:10:1/s";r=10
Ratelimit-Policy: "leaky:10:1/s";q=1;w=1;weir-burst=10

`)
}

func testNoGRPC(t *testing.T, s *suite) {
	for _, contentType := range []string{"", "application/json", "application/grpcx", "application/grp", "application/", "text/plain; x=application/grpc", "application/x-grpc"} {
		f := s.fixture(t)
		h := f.around(f.limited(ratelimit.Policy{Limit: one()}))
		get(h)
		r := call(contentType)
		r.Header.Del("Accept")
		expectStatus(t, contentType, h, r, http.StatusTooManyRequests)
	}
}

func testGRPCFaults(t *testing.T, s *suite) {
	f := s.fixture(t)
	f.store.failure = errDown
	options := f.options()
	options.OnError = ratelimit.FailClosed
	r := answer(f.around(f.new(f.limiter, options, ratelimit.Policy{Limit: one()})), call("application/grpc"))
	h := r.Header
	if r.StatusCode != http.StatusOK || h.Get("Grpc-Status") != "14" || h.Get("Grpc-Retry-Pushback-Ms") != h.Get("Retry-After")+"000" || h.Get("Ratelimit") != "" {
		t.Errorf("answered %d with %v, want UNAVAILABLE and when to come back", r.StatusCode, h)
	}

	f = s.fixture(t)
	r = answer(f.around(f.limited(ratelimit.Policy{LimitFor: func(*http.Request) core.Limit { return core.Leaky(0, core.PerSecond(1)) }})), call("application/grpc"))
	if h := r.Header; r.StatusCode != http.StatusOK || h.Get("Grpc-Status") != "13" || h.Get("Grpc-Message") != "Internal Server Error" || h.Get("Grpc-Retry-Pushback-Ms") != "" {
		t.Errorf("answered %d with %v, want INTERNAL and nothing about the reason", r.StatusCode, h)
	}
}

func testGRPCDenied(t *testing.T, s *suite) {
	f := s.fixture(t)
	options := f.options()
	options.Denied = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	h := f.around(f.new(f.limiter, options, ratelimit.Policy{Limit: one()}))
	get(h)
	expectStatus(t, "denied", h, call("application/grpc"), http.StatusTeapot)
}

func testGRPCOverTheWire(t *testing.T, s *suite) {
	f := s.fixture(t)
	server := httptest.NewUnstartedServer(f.around(f.limited(ratelimit.Policy{Limit: one()})))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	var response *http.Response
	for range 2 {
		var err error
		response, err = server.Client().Post(server.URL+"/items/7", "application/grpc", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
	}
	body, err := io.ReadAll(response.Body)
	if response.ProtoMajor != 2 || response.StatusCode != http.StatusOK || len(body) != 0 || err != nil || len(response.Trailer) != 0 {
		t.Errorf("HTTP/%d status %d, body %q, %v, trailer %v, want headers alone", response.ProtoMajor, response.StatusCode, body, err, response.Trailer)
	}
	if got := response.Header.Get("Grpc-Status"); got != "8" {
		t.Errorf("grpc-status %q, want 8", got)
	}
}
