package guardtest

import (
	"encoding/binary"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
	"github.com/weir-go/ratelimit/lists"
)

// That real clients understand all this is tested in proof/rpctest, which has them.
var rpcCases = []testCase{
	{"a denied call of gRPC gets RESOURCE_EXHAUSTED, and no body", testGRPC},
	{"a denied call of Connect gets resource_exhausted in a JSON document", testConnect},
	{"a denied stream of Connect ends with resource_exhausted", testConnectStream},
	{"what is no remote procedure call gets a problem", testNoRPC},
	{"a call that cannot be decided about gets UNAVAILABLE, or INTERNAL", testRPCFaults},
	{"a call is told to wait as exactly as it is known", testRPCWait},
	{"limiters in front learn of a denial that is answered as 200", testDenialIsTold},
	{"whoever fails is not let off by a part of the answer that an inner limiter has denied", testDeniedPart},
	{"over HTTP/2, a denied call of gRPC is one frame of headers", testGRPCOverTheWire},
}

// call is a call of gRPC over HTTP/2, or something like it.
func call(contentType string, lines ...string) *http.Request {
	r := ask(http.MethodPost, "/nowhere", append([]string{"Content-Type: " + contentType, "Te: trailers", "Accept: text/plain"}, lines...)...)
	r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/2.0", 2, 0
	return r
}

// overHTTP1 is the same request over HTTP/1.1.
func overHTTP1(r *http.Request) *http.Request {
	r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/1.1", 1, 1
	return r
}

// denied sends a request that a limit of one in a minute denies.
func (s *suite) denied(t *testing.T, r *http.Request) *http.Response {
	t.Helper()
	f := s.fixture(t)
	h := f.around(f.limited(guard.Policy{Limit: one()}))
	get(h)
	f.event()
	response := answer(h, r)
	f.expectRan(1)
	if e := f.event(); e.Status != http.StatusTooManyRequests {
		t.Errorf("observed status %d, want 429", e.Status)
	}
	return response
}

const reason = "Request cannot be satisfied as assigned quota has been exceeded"

func testGRPC(t *testing.T, s *suite) {
	s.need(t, HTTP2)
	for contentType, want := range map[string]string{
		"application/grpc":                      "application/grpc",
		"application/grpc+proto":                "application/grpc+proto",
		"Application/GRPC+json ; charset=utf-8": "application/grpc+json",
		"application/grpc-web":                  "application/grpc-web",
		"application/grpc-web+proto":            "application/grpc-web+proto",
		"application/grpc-web-text":             "application/grpc-web-text",
		"application/grpc-web-text+proto":       "application/grpc-web-text+proto",
	} {
		requests := []*http.Request{call(contentType)}
		if strings.Contains(want, "-web") {
			requests = append(requests, overHTTP1(call(contentType)))
		}
		for _, r := range requests {
			expect(t, r.Proto+" "+want, text(s.denied(t, r)), `
200
Cache-Control: no-store
Content-Type: `+want+`
Grpc-Message: `+reason+`, retry after 60 s
Grpc-Retry-Pushback-Ms: -1
Grpc-Status: 8
Grpc-Status-Details-Bin: CAgSUVJlcXVlc3QgY2Fubm90IGJlIHNhdGlzZmllZCBhcyBhc3NpZ25lZCBxdW90YSBoYXMgYmVlbiBleGNlZWRlZCwgcmV0cnkgYWZ0ZXIgNjAgcxowCih0eXBlLmdvb2dsZWFwaXMuY29tL2dvb2dsZS5ycGMuUmV0cnlJbmZvEgQKAgg8
Ratelimit: "one";r=0;t=60
Ratelimit-Policy: "one";q=1;w=60
Retry-After: 60

`)
		}
	}

	f := s.fixture(t)
	h := f.around(f.limited(guard.Policy{Limit: ten(), Cost: func(*http.Request) int { return 11 }}))
	expect(t, "no wait can help", send(h, call("application/grpc")), `
200
Cache-Control: no-store
Content-Type: application/grpc
Grpc-Message: `+reason+`
Grpc-Retry-Pushback-Ms: -1
Grpc-Status: 8
Ratelimit: "leaky:10:1/s";r=10
Ratelimit-Policy: "leaky:10:1/s";q=1;w=1;weir-burst=10

`)
}

const (
	connectVersion = "Connect-Protocol-Version: 1"
	// exhausted is an error of Connect.
	exhausted = `{"code":"resource_exhausted","message":"` + reason + `, retry after 60 s","details":[{"type":"google.rpc.RetryInfo","value":"CgIIPA"}]}`
)

func testConnect(t *testing.T, s *suite) {
	for name, r := range map[string]*http.Request{
		"proto":     call("application/proto", connectVersion),
		"JSON":      overHTTP1(call("application/json; charset=utf-8", connectVersion)),
		"GET":       ask(http.MethodGet, "/items/7?encoding=proto&base64=1&connect=v1&message="),
		"GET alone": ask(http.MethodGet, "/nowhere?connect=v1"),
	} {
		expect(t, name, text(s.denied(t, r)), `
429
Cache-Control: no-store
Content-Type: application/json
Ratelimit: "one";r=0;t=60
Ratelimit-Policy: "one";q=1;w=60
Retry-After: 60

`+exhausted+"\n")
	}

	f := s.fixture(t)
	h := f.around(f.limited(guard.Policy{Limit: ten(), Cost: func(*http.Request) int { return 11 }}))
	expect(t, "no wait can help", send(h, call("application/proto", connectVersion)), `
429
Cache-Control: no-store
Content-Type: application/json
Ratelimit: "leaky:10:1/s";r=10
Ratelimit-Policy: "leaky:10:1/s";q=1;w=1;weir-burst=10

{"code":"resource_exhausted","message":"`+reason+`"}
`)
}

func testConnectStream(t *testing.T, s *suite) {
	for _, r := range []*http.Request{call("application/connect+proto"), overHTTP1(call("Application/Connect+json", connectVersion))} {
		end := `{"error":` + exhausted + `}`
		expect(t, r.Header.Get("Content-Type"), text(s.denied(t, r)), `
200
Cache-Control: no-store
Content-Type: `+strings.ToLower(r.Header.Get("Content-Type"))+`
Ratelimit: "one";r=0;t=60
Ratelimit-Policy: "one";q=1;w=60
Retry-After: 60

`+string(binary.BigEndian.AppendUint32([]byte{2}, uint32(len(end))))+end)
	}
}

// Only a client that understands it is answered in a protocol of its own. Any other
// one would take a 200 for success.
func testNoRPC(t *testing.T, s *suite) {
	as := func(method string, r *http.Request) *http.Request {
		r.Method = method
		return r
	}
	for name, r := range map[string]*http.Request{
		"no type":                        call(""),
		"JSON":                           call("application/json"),
		"Protocol Buffers":               call("application/proto"),
		"another subtype":                call("application/grpcx"),
		"an unknown kind of gRPC":        call("application/grpc-next"),
		"half a type":                    call("application/grp"),
		"no subtype":                     call("application/"),
		"gRPC in a parameter":            call("text/plain; x=application/grpc"),
		"an experimental type":           call("application/x-grpc"),
		"a type that goes on and on":     call("application/grpc+" + strings.Repeat("x", 1<<20)),
		"gRPC over HTTP/1.1":             overHTTP1(call("application/grpc")),
		"gRPC by GET":                    as(http.MethodGet, call("application/grpc")),
		"gRPC by GET over HTTP/1.1":      as(http.MethodGet, overHTTP1(call("application/grpc+proto"))),
		"gRPC-Web by GET":                as(http.MethodGet, call("application/grpc-web")),
		"Connect of another version":     call("application/proto", "Connect-Protocol-Version: 2"),
		"Connect with a page of text":    call("text/plain", connectVersion),
		"Connect by PUT":                 as(http.MethodPut, call("application/proto", connectVersion)),
		"a stream by GET":                as(http.MethodGet, call("application/connect+proto", connectVersion)),
		"a stream without a codec":       call("application/connect"),
		"another query":                  ask(http.MethodGet, "/items/7?connect=v2&reconnect=v1&connect=v1x"),
		"the query of Connect by POST":   ask(http.MethodPost, "/items/7?connect=v1"),
		"the query of Connect by DELETE": ask(http.MethodDelete, "/items/7?connect=v1"),
	} {
		r.Header.Del("Accept")
		response := s.denied(t, r)
		if got := response.Header.Get("Content-Type"); response.StatusCode != http.StatusTooManyRequests || got != guard.ProblemType || response.Header.Get("Grpc-Status") != "" {
			t.Errorf("%s: answered %d with %v, want 429 with a problem", name, response.StatusCode, response.Header)
		}
	}
}

func testRPCFaults(t *testing.T, s *suite) {
	s.need(t, HTTP2)
	f := s.fixture(t)
	f.store.failure = errDown
	options := f.options()
	options.OnError = guard.FailClosed
	h := f.around(f.new(f.limiter, options, guard.Policy{Limit: one()}))
	r := answer(h, call("application/grpc"))
	if h := r.Header; r.StatusCode != http.StatusOK || h.Get("Grpc-Status") != "14" || h.Get("Grpc-Retry-Pushback-Ms") != h.Get("Retry-After")+"000" || h.Get("Ratelimit") != "" {
		t.Errorf("answered %d with %v, want UNAVAILABLE and when to come back", r.StatusCode, h)
	}
	expectError(t, answer(h, call("application/proto", connectVersion)), http.StatusServiceUnavailable, "unavailable")

	f = s.fixture(t)
	h = f.around(f.limited(guard.Policy{LimitFor: func(*http.Request) core.Limit { return core.Leaky(0, core.PerSecond(1)) }}))
	r = answer(h, call("application/grpc"))
	if h := r.Header; r.StatusCode != http.StatusOK || h.Get("Grpc-Status") != "13" || h.Get("Grpc-Message") != "Internal Server Error" ||
		h.Get("Grpc-Retry-Pushback-Ms") != "" || h.Get("Grpc-Status-Details-Bin") != "" {
		t.Errorf("answered %d with %v, want INTERNAL and nothing about the reason", r.StatusCode, h)
	}
	expectError(t, answer(h, call("application/proto", connectVersion)), http.StatusInternalServerError, "internal")
}

// expectError wants an error of Connect.
func expectError(t *testing.T, response *http.Response, status int, code string) {
	t.Helper()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != status || response.Header.Get("Content-Type") != "application/json" || !strings.HasPrefix(string(body), `{"code":"`+code+`",`) {
		t.Errorf("answered %d with %v and %q, %v, want %d with %s", response.StatusCode, response.Header, body, err, status, code)
	}
}

func testRPCWait(t *testing.T, s *suite) {
	s.need(t, HTTP2)
	f := s.fixture(t)
	h := f.around(f.limited(guard.Policy{Limit: core.Leaky(1, core.Per(1, 1500*time.Millisecond))}))
	get(h)
	for after, want := range map[time.Duration]int{0: 1500, time.Microsecond: 1500, 499_999 * time.Microsecond: 1001, 1_499_999 * time.Microsecond: 1} {
		f.clock.advance(after)
		if got := answer(h, call("application/grpc")).Header.Get("Grpc-Retry-Pushback-Ms"); got != strconv.Itoa(want) {
			t.Errorf("after %v: pushed back for %s ms, want %d", after, got, want)
		}
		f.clock.advance(-after)
	}

	// Longer than a client should sleep, it is told not to retry by itself.
	for every, want := range map[time.Duration]string{5 * time.Second: "5000", 5*time.Second + time.Microsecond: "-1", 24 * time.Hour: "-1"} {
		f := s.fixture(t)
		h := f.around(f.limited(guard.Policy{Limit: core.Leaky(1, core.Per(1, every))}))
		get(h)
		if got := answer(h, call("application/grpc")).Header.Get("Grpc-Retry-Pushback-Ms"); got != want {
			t.Errorf("with a wait of %v: pushed back for %s ms, want %s", every, got, want)
		}
	}
}

func testGRPCOverTheWire(t *testing.T, s *suite) {
	s.need(t, HTTP2)
	f := s.fixture(t)
	server := httptest.NewUnstartedServer(f.around(f.limited(guard.Policy{Limit: one()})))
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

func testDenialIsTold(t *testing.T, s *suite) {
	deny := core.FixedWindow(1, time.Hour).Named("deny")
	full := func() int { return 1 }
	for name, inner := range map[string]struct {
		limiter func(*fixture) middleware
		want    int
	}{
		"a policy": {func(f *fixture) middleware {
			return f.limited(guard.Policy{Limit: deny, By: keyfuncs.Global, Cost: func(*http.Request) int { return 2 }})
		}, http.StatusTooManyRequests},
		"a hook that gives the usual answer": {func(f *fixture) middleware {
			return f.new(f.limiter, guard.Options{Denied: func(w http.ResponseWriter, r *http.Request, d *guard.Denial) { d.ServeHTTP(w, r) }},
				guard.Policy{Limit: deny, By: keyfuncs.Global, Cost: func(*http.Request) int { return 2 }})
		}, http.StatusTooManyRequests},
		"a list": {func(f *fixture) middleware {
			return f.new(f.limiter, guard.Options{Lists: guard.Lists{Deny: lists.Of("0.0.0.0/0")}}, guard.Policy{Limit: deny})
		}, http.StatusForbidden},
		"a policy that cannot say": {func(f *fixture) middleware {
			return f.limited(guard.Policy{Limit: deny, Cost: func(*http.Request) int { return -1 }})
		}, http.StatusInternalServerError},
		"a server that is full": {func(f *fixture) middleware {
			adaptive, inside := f.adaptive(full), make(chan struct{})
			server := listen(f.t, f.serve(site{around: []middleware{adaptive}, handler: func(_ http.ResponseWriter, r *http.Request) { close(inside); <-r.Context().Done() }}))
			go func() { // it stays inside
				if response, err := http.Get(server.URL + "/"); err == nil {
					response.Body.Close()
				}
			}()
			f.t.Cleanup(server.CloseClientConnections)
			<-inside
			return adaptive
		}, http.StatusServiceUnavailable},
	} {
		for _, r := range []*http.Request{overHTTP1(call("application/grpc-web+proto")), call("application/grpc"), call("application/connect+json"), call("application/proto", connectVersion), call("text/plain")} {
			f := s.fixture(t)
			var outermost, outer, event int
			tell := func(into *int) func(*http.Request, guard.Served) int {
				return func(_ *http.Request, served guard.Served) int { *into = served.Status; return 1 }
			}
			options := guard.Options{Observe: func(e guard.Event) {
				if e.Settled {
					event = e.Status
				}
			}}
			h := f.around(
				f.new(f.limiter, options, guard.Policy{Limit: hundred(), By: keyfuncs.Global, Settle: guard.SettlePolicy{Cost: tell(&outermost)}}),
				f.new(f.limiter, options, guard.Policy{Ban: guard.BanPolicy{Ban: brute(), Strike: tell(&outer)}, By: keyfuncs.RemoteIP}),
				inner.limiter(f),
			)
			r.RemoteAddr = "203.0.113.9:1"
			answer(h, r)
			if outermost != inner.want || outer != inner.want || event != inner.want {
				t.Errorf("%s denies a call of %s, and those in front are told %d, %d and %d, want %d", name, r.Header.Get("Content-Type"), outermost, outer, event, inner.want)
			}
		}
	}

	// A client that fails to log in, and is denied further inside in between, is not forgiven.
	f := s.fixture(t)
	h := f.serve(site{
		around:  []middleware{f.limited(guard.Policy{Ban: guard.BanPolicy{Ban: brute(), Strike: unauthorized, Forgive: succeeded}, By: keyfuncs.RemoteIP}), f.limited(guard.Policy{Limit: one(), By: keyfuncs.Global})},
		handler: f.login,
	})
	for range 3 {
		expectStatus(t, "a wrong password", h, ask(http.MethodGet, "/items/7"), http.StatusUnauthorized)
		expectStatus(t, "a call in between", h, overHTTP1(call("application/grpc-web")), http.StatusOK)
		f.clock.advance(15 * time.Second)
		if err := f.limiter.Reset(t.Context(), globalKey, one()); err != nil {
			t.Fatal(err)
		}
	}
	expectStatus(t, "the fourth password", h, ask(http.MethodGet, "/items/7"), http.StatusForbidden)
}

// The handler asks for a part of its page, does without it where that is denied, and answers itself.
func testDeniedPart(t *testing.T, s *suite) {
	for _, contentType := range []string{"application/grpc-web", "application/connect+json", "text/plain"} {
		for answered, want := range map[int]int{
			http.StatusUnauthorized: http.StatusUnauthorized, http.StatusServiceUnavailable: http.StatusServiceUnavailable,
			http.StatusNoContent: http.StatusNoContent,
		} {
			f := s.fixture(t)
			var told []int
			part := f.around(f.limited(guard.Policy{Limit: one(), By: keyfuncs.Global, Cost: func(*http.Request) int { return 2 }}))
			h := f.serve(site{
				around: []middleware{f.limited(guard.Policy{Ban: guard.BanPolicy{
					Ban: brute(),
					Strike: func(r *http.Request, served guard.Served) int {
						told = append(told, served.Status)
						return unauthorized(r, served)
					},
				}, By: keyfuncs.RemoteIP})},
				handler: func(w http.ResponseWriter, r *http.Request) {
					f.ran++
					inner := overHTTP1(call(contentType)).WithContext(r.Context())
					inner.RequestURI, inner.URL = r.RequestURI, r.URL // it is the same request
					answer(part, inner)
					w.WriteHeader(answered)
				},
			})
			for range 4 {
				answer(h, ask(http.MethodGet, "/items/7"))
			}
			if len(told) == 0 || told[0] != want {
				t.Errorf("%s: a handler has answered %d, and those in front are told %v", contentType, answered, told)
			}
			if banned := f.left() > 0; banned != (answered == http.StatusUnauthorized) {
				t.Errorf("%s: after four answers of %d, banned: %t", contentType, answered, banned)
			}
		}
	}
}
