package guardtest

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
	"github.com/weir-go/ratelimit/lists"
)

var admissionCases = []testCase{
	{"ten are served with less and less remaining, and the eleventh is denied until the next drip", testEleventh},
	{"each short form makes the limit it is named after, by address or by what it is told", testShortForms},
	{"the handler can read what was decided", testOutcomesFrom},
	{"a HEAD is charged as a GET, and its denial has the same header and no body", testHead},
	{"a preflight is charged and denied like any other request", testPreflight},
	{"no preflight goes past a ban", testBannedPreflight},
	{"a preflight is neither charged nor denied where it is exempt, and then only if it has no body", testPreflightExempt},
	{"a preflight that is exempt goes past no place beside a ban by response", testPreflightPlaces},
	{"a preflight that is exempt goes past no list", testPreflightListed},
	{"over the wire, a preflight with a body of any kind is not exempt", testPreflightOverTheWire},
	{"an OPTIONS that is no preflight is charged", testOptions},
}

func testEleventh(t *testing.T, s *suite) {
	f := s.fixture(t)
	h := f.around(f.meters["leaky"](f.limiter, 10, core.PerSecond(1)))
	expectEleventh(t, h, f.clock)
	f.expectRan(11)
	f.expectAsked(12)
}

// expectEleventh wants a fresh limit of ten to serve ten requests, to deny the
// eleventh, and to serve one more after a second.
func expectEleventh(t *testing.T, h http.Handler, c *clock) {
	t.Helper()
	for left := 9; left >= 0; left-- {
		expect(t, fmt.Sprintf("request %d", 10-left), get(h), fmt.Sprintf(`
200
Content-Type: text/plain; charset=utf-8
Ratelimit: "leaky:10:1/s";r=%d;t=%d
Ratelimit-Policy: "leaky:10:1/s";q=1;w=1;weir-burst=10

served
`, left, max(left, 1)))
	}
	expect(t, "the eleventh", get(h), `
429
Cache-Control: no-store
Content-Type: application/problem+json
Ratelimit: "leaky:10:1/s";r=0;t=1
Ratelimit-Policy: "leaky:10:1/s";q=1;w=1;weir-burst=10
Retry-After: 1

`+quotaExceeded+`["leaky:10:1/s"]}
`)
	c.advance(time.Second)
	expect(t, "a second later", get(h), `
200
Content-Type: text/plain; charset=utf-8
Ratelimit: "leaky:10:1/s";r=0;t=1
Ratelimit-Policy: "leaky:10:1/s";q=1;w=1;weir-burst=10

served
`)
}

// thirdOfMinute is a period that begins when the clock of a fixture does.
var thirdOfMinute = core.Every(20 * time.Second)

func testShortForms(t *testing.T, s *suite) {
	for name, want := range map[string]struct {
		limit       core.Limit
		policy, now string // as the client is told of them at the first request
	}{
		"leaky":          {core.Leaky(3, core.PerMinute(6)), `"leaky:3:6/m";q=6;w=60;weir-burst=3`, `"leaky:3:6/m";r=2;t=20`},
		"shaping":        {core.Shaping(3, core.PerMinute(6)), `"shaping:3:6/m";q=6;w=60;weir-burst=3`, `"shaping:3:6/m";r=2;t=20`},
		"token-bucket":   {core.TokenBucket(3, core.PerMinute(6)), `"token-bucket:3:6/m";q=6;w=60;weir-burst=3`, `"token-bucket:3:6/m";r=2;t=20`},
		"gcra":           {core.GCRA(3, core.PerMinute(6)), `"gcra:3:6/m";q=6;w=60;weir-burst=3`, `"gcra:3:6/m";r=2;t=20`},
		"fixed-window":   {core.FixedWindow(3, time.Minute), `"fixed-window:3:1m";q=3;w=60`, `"fixed-window:3:1m";r=2;t=60`},
		"sliding-window": {core.SlidingWindow(3, time.Minute), `"sliding-window:3:1m";q=3;w=60`, `"sliding-window:3:1m";r=2;t=120`},
		"sliding-log":    {core.SlidingLog(3, time.Minute), `"sliding-log:3:1m";q=3;w=60`, `"sliding-log:3:1m";r=2;t=60`},
		"calendar":       {core.Calendar(3, thirdOfMinute), `"calendar:3:every:20s";q=3;w=20`, `"calendar:3:every:20s";r=2;t=20`},
	} {
		t.Run(name, func(t *testing.T) {
			f := s.fixture(t)
			build := func(by ...keyfuncs.Func) middleware {
				if meter, ok := s.meters[name]; ok {
					return meter(f.limiter, 3, core.PerMinute(6), by...)
				}
				if name == "calendar" {
					return s.calendar(f.limiter, 3, thirdOfMinute, by...)
				}
				return s.windows[name](f.limiter, 3, time.Minute, by...)
			}
			answer := "200\n" + served + "Ratelimit: " + want.now + "\nRatelimit-Policy: " + want.policy + "\n\nserved\n"
			expect(t, "by address", get(f.around(build())), answer)
			expect(t, "by functions", get(f.around(build(keyfuncs.Global, keyfuncs.Method))), answer)
			for i, key := range []string{"ip:203.0.113.9", "global|method:GET"} {
				if got, want := f.store.calls[i], (core.Check{Key: key, Limit: want.limit, Cost: 1}); len(got) != 1 || got[0] != want {
					t.Errorf("asked %+v, want %+v", got, want)
				}
			}
		})
	}
}

func testOutcomesFrom(t *testing.T, s *suite) {
	f := s.fixture(t)
	var got []guard.Outcome
	h := f.serve(site{
		around: []middleware{f.limited(guard.Policy{Limit: ten()})},
		inside: []middleware{f.limited(guard.Policy{Limit: one()})},
		handler: func(w http.ResponseWriter, r *http.Request) {
			got = guard.OutcomesFrom(r.Context())
			f.handle(w, r)
		},
	})
	get(h)
	if len(got) != 2 || got[0].Decision.Limit != ten() || got[0].Decision.Remaining != 9 ||
		got[1].Policy != "one" || got[1].Decision.Remaining != 0 || !got[1].Decision.Allowed {
		t.Errorf("OutcomesFrom said %+v, want 9 of ten and then 0 of one", got)
	}
	if got := guard.OutcomesFrom(t.Context()); got != nil {
		t.Errorf("without a limiter, OutcomesFrom said %+v, want nil", got)
	}
}

func testHead(t *testing.T, s *suite) {
	f := s.fixture(t)
	h := f.around(f.limited(guard.Policy{Limit: one()}))
	expectStatus(t, "HEAD", h, ask(http.MethodHead, "/items/7"), http.StatusOK)
	denial := get(h)
	bodyless := send(h, ask(http.MethodHead, "/items/7"))
	expect(t, "a denied HEAD", bodyless, `
429
Cache-Control: no-store
Content-Type: application/problem+json
Ratelimit: "one";r=0;t=60
Ratelimit-Policy: "one";q=1;w=60
Retry-After: 60

`)
	expect(t, "a denied GET", denial, bodyless+quotaExceeded+`["one"]}
`)
	plain := send(h, ask(http.MethodHead, "/items/7", "Accept: text/plain"))
	expect(t, "a denied HEAD for text", plain, s.inWords(`
429
Cache-Control: no-store
Content-Type: text/plain; charset=utf-8
Ratelimit: "one";r=0;t=60
Ratelimit-Policy: "one";q=1;w=60
Retry-After: 60

`, bodyless))
	f.expectRan(1)
}

// preflight is the request of a browser before it sends one of another site's page.
func preflight(lines ...string) *http.Request {
	return ask(http.MethodOptions, "/items/7", append([]string{"Origin: https://app.example", "Access-Control-Request-Method: POST"}, lines...)...)
}

// withBody is a preflight as no browser sends it: an API that does not look at the method would read the body.
func withBody(length int64, encoding ...string) *http.Request {
	r := preflight("Content-Type: application/json")
	r.Body, r.ContentLength, r.TransferEncoding = io.NopCloser(strings.NewReader(`{"password":"guess"}`)), length, encoding
	return r
}

func testPreflight(t *testing.T, s *suite) {
	f := s.fixture(t)
	h := f.around(f.limited(guard.Policy{Limit: ten()}))
	for i := range 200 {
		want := http.StatusTooManyRequests
		if i < 10 {
			want = http.StatusOK
		}
		expectStatus(t, fmt.Sprintf("preflight %d", i+1), h, preflight(), want)
	}
	f.expectAsked(200)
	f.expectRan(10)
}

func testBannedPreflight(t *testing.T, s *suite) {
	for _, exempt := range []bool{false, true} {
		f := s.fixture(t)
		options := f.options()
		options.ExemptPreflights = exempt
		ban := guard.Policy{Ban: guard.BanPolicy{Ban: brute(), Strike: unauthorized, Forgive: succeeded}, By: keyfuncs.RemoteIP}
		h := f.serve(site{around: []middleware{f.new(f.limiter, options, guard.Policy{Limit: core.Leaky(1000, core.PerSecond(1))}, ban)}, handler: f.login})
		for _, r := range []*http.Request{preflight(), withBody(20), withBody(-1, "chunked")} {
			expectStatus(t, "a wrong password", h, r, http.StatusUnauthorized)
		}
		for range 100 {
			expectStatus(t, "a guess under the ban", h, withBody(20), http.StatusForbidden)
			expectStatus(t, "a preflight under the ban", h, preflight("Password: guess"), http.StatusForbidden)
		}
		f.expectRan(3)
	}
}

func testPreflightExempt(t *testing.T, s *suite) {
	f := s.fixture(t)
	options := f.options()
	options.ExemptPreflights = true
	h := f.around(f.new(f.limiter, options, guard.Policy{Limit: one()}, guard.Policy{Limit: ten(), Shadow: true}))
	expect(t, "a preflight", send(h, preflight()), "200\n"+served+"\nserved\n")
	f.expectAsked(0)
	expectStatus(t, "the only one", h, ask(http.MethodGet, "/items/7"), http.StatusOK)
	expectStatus(t, "one too many", h, ask(http.MethodGet, "/items/7"), http.StatusTooManyRequests)
	expect(t, "a preflight when nothing is left", send(h, preflight()), "200\n"+served+"\nserved\n")
	if len(f.events) != 2 {
		t.Errorf("%d events, want none for preflights: %+v", len(f.events), f.events)
	}
	f.ran = 0
	for _, r := range s.passed([]*http.Request{
		withBody(20), withBody(-1), withBody(-1, "chunked"), withBody(0, "chunked"),
		ask(http.MethodOptions, "/items/7"), ask(http.MethodOptions, "/items/7", "Origin: https://app.example"),
		ask(http.MethodOptions, "/items/7", "Access-Control-Request-Method: POST"),
		ask(http.MethodOptions, "/items/7", "Origin: ", "Origin: https://app.example", "Access-Control-Request-Method: POST"),
		ask(http.MethodPost, "/items/7", "Origin: https://app.example", "Access-Control-Request-Method: POST"),
		ask("options", "/items/7", "Origin: https://app.example", "Access-Control-Request-Method: POST"),
	}) {
		expectStatus(t, "what no browser asks", h, r, http.StatusTooManyRequests)
	}
	f.expectRan(0)
}

func testPreflightPlaces(t *testing.T, s *suite) {
	places := guard.Policy{Limit: desk(1), By: keyfuncs.RemoteIP}
	byPlan := guard.Policy{By: keyfuncs.RemoteIP, LimitFor: func(*http.Request) core.Limit { return desk(1) }}
	rates := guard.Policy{By: keyfuncs.RemoteIP, LimitFor: func(*http.Request) core.Limit { return one() }}
	byResponse := guard.Policy{Ban: guard.BanPolicy{Ban: brute(), Strike: unauthorized, Forgive: succeeded}, By: keyfuncs.RemoteIP}
	byDenial := guard.Policy{Ban: guard.BanPolicy{Ban: brute(), StrikeOnDenial: true}, By: keyfuncs.RemoteIP}
	for name, c := range map[string]struct {
		policies []guard.Policy
		second   int // the answer to a preflight while another one is in progress
	}{
		"places":                                {[]guard.Policy{places, {Limit: one()}}, http.StatusUnauthorized},
		"places beside a ban by response":       {[]guard.Policy{byResponse, places, {Limit: one()}}, http.StatusTooManyRequests},
		"places by plan beside one":             {[]guard.Policy{byPlan, byResponse, {Limit: one()}}, http.StatusTooManyRequests},
		"a rate by plan beside one":             {[]guard.Policy{rates, byResponse, {Limit: one()}}, http.StatusUnauthorized},
		"places beside a ban that denials make": {[]guard.Policy{places, byDenial}, http.StatusUnauthorized},
	} {
		f := s.fixture(t)
		options := f.options()
		options.ExemptPreflights = true
		var h http.Handler
		h = f.serve(site{around: []middleware{f.new(f.limiter, options, c.policies...)}, handler: func(w http.ResponseWriter, r *http.Request) {
			if f.ran == 0 {
				f.ran++
				expectStatus(t, name, h, preflight(), c.second)
			}
			f.login(w, r)
		}})
		for range 2 { // none of them is charged
			f.ran = 0
			expectStatus(t, name, h, preflight(), http.StatusUnauthorized)
		}
	}
}

func testPreflightListed(t *testing.T, s *suite) {
	f := s.fixture(t)
	options := f.options()
	options.ExemptPreflights = true
	options.Lists = guard.Lists{
		Allow: lists.Of("198.51.100.1"), Deny: lists.Of("198.51.100.0/24", "key:user:eve"),
		By: keyfuncs.User(func(r *http.Request) string { return r.Header.Get("X-User") }),
	}
	h := f.around(f.new(f.limiter, options, guard.Policy{Limit: one()}))
	for _, c := range []struct {
		address, user string
		want          int
	}{
		{"198.51.100.1", "", http.StatusOK},
		{"198.51.100.1", "eve", http.StatusOK},
		{"198.51.100.2", "", http.StatusForbidden},
		{"192.0.2.1", "eve", http.StatusForbidden},
		{"192.0.2.1", "ann", http.StatusOK},
		{"192.0.2.1", "ann", http.StatusOK},
	} {
		r := preflight("X-User: " + c.user)
		r.RemoteAddr = c.address + ":1"
		expectStatus(t, fmt.Sprintf("the preflight of %q at %s", c.user, c.address), h, r, c.want)
	}
	f.expectAsked(0)
}

func testPreflightOverTheWire(t *testing.T, s *suite) {
	for _, http2 := range []bool{false, true} {
		f := s.fixture(t)
		options := f.options()
		options.ExemptPreflights = true
		server := httptest.NewUnstartedServer(f.around(f.new(f.limiter, options, guard.Policy{Limit: core.Leaky(1, core.PerHour(1)), By: keyfuncs.Global})))
		server.EnableHTTP2 = http2
		server.StartTLS()
		defer server.Close()
		send := func(method string, body io.Reader) int {
			t.Helper()
			r, err := http.NewRequestWithContext(t.Context(), method, server.URL+"/items/7", body)
			if err != nil {
				t.Fatal(err)
			}
			r.Header = http.Header{"Origin": {"https://app.example"}, "Access-Control-Request-Method": {"POST"}}
			got, err := server.Client().Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer got.Body.Close()
			return got.StatusCode
		}
		if got := send(http.MethodGet, nil); got != http.StatusOK {
			t.Errorf("HTTP/2 %t: the only one: %d", http2, got)
		}
		if got := send(http.MethodOptions, nil); got != http.StatusOK {
			t.Errorf("HTTP/2 %t: a preflight: %d", http2, got)
		}
		for name, body := range map[string]io.Reader{
			"of a known length": strings.NewReader("guess"), "of an unknown length": io.MultiReader(strings.NewReader("guess")),
		} {
			if got := send(http.MethodOptions, body); got != http.StatusTooManyRequests {
				t.Errorf("HTTP/2 %t: a body %s: %d, want 429", http2, name, got)
			}
		}
	}
}

func testOptions(t *testing.T, s *suite) {
	for _, lines := range [][]string{nil, {"Origin: https://app.example"}, {"Access-Control-Request-Method: GET"}} {
		f := s.fixture(t)
		h := f.around(f.limited(guard.Policy{Limit: one()}))
		expectStatus(t, "OPTIONS", h, ask(http.MethodOptions, "/items/7", lines...), http.StatusOK)
		f.expectAsked(1)
	}
	f := s.fixture(t)
	h := f.around(f.limited(guard.Policy{Limit: one()}))
	expectStatus(t, "GET", h, ask(http.MethodGet, "/items/7", "Origin: https://app.example", "Access-Control-Request-Method: GET"), http.StatusOK)
	f.expectAsked(1)
}
