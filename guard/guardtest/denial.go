package guardtest

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/headers"
)

var denialCases = []testCase{
	{"Retry-After is in whole seconds, rounded up, and at least 1", testRetryAfter},
	{"a cost above the capacity gets no Retry-After", testNever},
	{"a denial is not stored, and takes back what was said of the page", testNoStore},
	{"a denial without a Retry-After and a Content-Type does not keep those of the page", testNothingKept},
	{"no cache on the way is told to store a denial", testTargetedCaches},
	{"plain text only for who ranks it strictly above JSON", testAccept},
	{"Headers picks the dialect", testDialect},
	{"headers.LLM tells SDKs the wait to the millisecond, and where none can help", testLLM},
}

func testRetryAfter(t *testing.T, s *suite) {
	limit := core.Leaky(1, core.Per(1, 1500*time.Millisecond)).Named("slow")
	for _, c := range []struct {
		after time.Duration
		want  int
	}{
		{0, 2}, {499_999 * time.Microsecond, 2}, {500 * time.Millisecond, 1}, {1499 * time.Millisecond, 1}, {1_499_999 * time.Microsecond, 1},
	} {
		f := s.fixture(t)
		h := f.around(f.limited(guard.Policy{Limit: limit}))
		expectStatus(t, "the first", h, ask(http.MethodGet, "/"), http.StatusOK)
		f.clock.advance(c.after)
		expect(t, fmt.Sprintf("after %v", c.after), get(h), fmt.Sprintf(`
429
Cache-Control: no-store
Content-Type: application/problem+json
Ratelimit: "slow";r=0;t=%d
Ratelimit-Policy: "slow";q=2;w=3;weir-burst=1
Retry-After: %d

`, c.want, c.want)+quotaExceeded+`["slow"]}
`)
		f.clock.advance(1500*time.Millisecond - c.after)
		expectStatus(t, "in time", h, ask(http.MethodGet, "/"), http.StatusOK)
	}
}

func testNever(t *testing.T, s *suite) {
	f := s.fixture(t)
	h := f.around(f.limited(guard.Policy{Limit: ten(), Cost: func(*http.Request) int { return 11 }}))
	document := `
429
Cache-Control: no-store
Content-Type: application/problem+json
Ratelimit: "leaky:10:1/s";r=10
Ratelimit-Policy: "leaky:10:1/s";q=1;w=1;weir-burst=10

` + quotaExceeded + `["leaky:10:1/s"]}
`
	expect(t, "eleven of ten", get(h), document)
	expect(t, "eleven of ten in words", get(h, "Accept: text/plain"), s.inWords(`
429
Cache-Control: no-store
Content-Type: text/plain; charset=utf-8
Ratelimit: "leaky:10:1/s";r=10
Ratelimit-Policy: "leaky:10:1/s";q=1;w=1;weir-burst=10

Request cannot be satisfied as assigned quota has been exceeded
`, document))
	if d := f.events[0].Outcomes[0].Decision; d.RetryAfter != core.Never {
		t.Errorf("RetryAfter %v, want Never", d.RetryAfter)
	}
}

// sayOfThePage sets the fields that outer code may set for a page before it is served. The
// encoding belongs to a middleware that compresses every response, so it stays.
func sayOfThePage(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Cache-Control", "public, max-age=3600")
	h.Set("Etag", `"v1"`)
	h.Set("Last-Modified", "Wed, 01 Jul 2026 12:00:00 GMT")
	h.Set("Expires", "Thu, 02 Jul 2026 12:00:00 GMT")
	h.Set("Age", "7")
	h.Set("Content-Encoding", "gzip")
	h.Set("Content-Length", "3")
	h.Set("Content-Type", "image/png")
	h.Set("Retry-After", "Thu, 02 Jul 2026 12:00:00 GMT")
	h.Set("Access-Control-Allow-Origin", "*")
	h.Add("Vary", "Origin")
}

func testNoStore(t *testing.T, s *suite) {
	f := s.fixture(t)
	h := f.serve(site{
		before:  sayOfThePage,
		around:  []middleware{f.limited(guard.Policy{Limit: one()})},
		handler: func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "png") },
	})
	expect(t, "served", get(h), `
200
Access-Control-Allow-Origin: *
Age: 7
Cache-Control: public, max-age=3600
Content-Encoding: gzip
Content-Length: 3
Content-Type: image/png
Etag: "v1"
Expires: Thu, 02 Jul 2026 12:00:00 GMT
Last-Modified: Wed, 01 Jul 2026 12:00:00 GMT
Ratelimit: "one";r=0;t=60
Ratelimit-Policy: "one";q=1;w=60
Retry-After: Thu, 02 Jul 2026 12:00:00 GMT
Vary: Origin

png`)
	expect(t, "denied", get(h), `
429
Access-Control-Allow-Origin: *
Cache-Control: no-store
Content-Encoding: gzip
Content-Type: application/problem+json
Ratelimit: "one";r=0;t=60
Ratelimit-Policy: "one";q=1;w=60
Retry-After: 60
Vary: Origin

`+quotaExceeded+`["one"]}
`)
}

// A denial that has neither a Retry-After nor a Content-Type of its own does not
// keep those of the page.
func testNothingKept(t *testing.T, s *suite) {
	f := s.fixture(t)
	options := f.options()
	options.Denied = func(http.ResponseWriter, *http.Request, *guard.Denial) {}
	never := guard.Policy{Limit: one(), Cost: func(*http.Request) int { return 2 }}
	h := f.serve(site{before: sayOfThePage, around: []middleware{f.new(f.limiter, options, never)}, handler: f.handle})
	expect(t, "denied for good and in silence", get(h), `
429
Access-Control-Allow-Origin: *
Cache-Control: no-store
Content-Encoding: gzip
Ratelimit: "one";r=1
Ratelimit-Policy: "one";q=1;w=60
Vary: Origin

`)
}

// Fields for some caches take the place of Cache-Control there (RFC 9213). None of
// them stays on a denial of any status, in any spelling.
func testTargetedCaches(t *testing.T, s *suite) {
	targeted := []string{
		"CDN-Cache-Control", "Cloudflare-CDN-Cache-Control", "Vercel-CDN-Cache-Control", "Netlify-CDN-Cache-Control",
		"X-Magento-Cache-Control", "Surrogate-Control", "Edge-Control", "X-Accel-Expires",
	}
	set := len(targeted)
	if s.without&AnyCase == 0 {
		set++
	}
	before := func(w http.ResponseWriter) {
		for _, name := range targeted {
			w.Header().Set(name, "max-age=3600")
		}
		if set > len(targeted) {
			w.Header()["cdn-cache-control"] = []string{"max-age=3600"}
		}
		w.Header().Set("Cache-Tag", "news")
		w.Header().Set("X-Accel-Buffering", "no")
	}
	kept := func(h http.Header) (names []string) {
		for name := range h {
			if strings.Contains(strings.ToLower(name), "-control") || name == "X-Accel-Expires" {
				names = append(names, name)
			}
		}
		return names
	}
	f := s.fixture(t)
	closed := f.options()
	closed.OnError = guard.FailClosed
	h := f.serve(site{before: before, around: []middleware{f.new(f.limiter, closed, guard.Policy{Limit: one()})}, handler: f.handle})
	if got := answer(h, ask(http.MethodGet, "/")).Header; len(kept(got)) != set {
		t.Errorf("served with %v, want all that was set", got)
	}
	for _, want := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
		got := answer(h, ask(http.MethodGet, "/"))
		if names := kept(got.Header); got.StatusCode != want || !slices.Equal(names, []string{"Cache-Control"}) {
			t.Errorf("answered %d, and %q are kept, want %d and Cache-Control alone", got.StatusCode, names, want)
		}
		if got.Header.Get("Cache-Tag") != "news" || got.Header.Get("X-Accel-Buffering") != "no" {
			t.Errorf("answered %v, want what says nothing of storing kept", got.Header)
		}
		f.store.failure = errDown
	}
}

func testAccept(t *testing.T, s *suite) {
	f := s.fixture(t)
	h := f.around(f.limited(guard.Policy{Limit: one()}))
	get(h)
	head := `
429
Cache-Control: no-store
Content-Type: %s
Ratelimit: "one";r=0;t=60
Ratelimit-Policy: "one";q=1;w=60
Retry-After: 60

`
	asProblem := fmt.Sprintf(head, "application/problem+json") + quotaExceeded + `["one"]}
`
	asText := s.inWords(fmt.Sprintf(head, "text/plain; charset=utf-8")+`Request cannot be satisfied as assigned quota has been exceeded, retry after 60 s
`, asProblem)
	for accept, want := range map[string]string{
		"*/*":                                    asProblem,
		"application/json":                       asProblem,
		"text/html":                              asProblem,
		"text/plain, application/json":           asProblem,
		"text/plain":                             asText,
		"text/plain, application/json;q=0.9":     asText,
		"text/plain;q=0.5, application/json;q=0": asText,
	} {
		expect(t, accept, get(h, "Accept: "+accept), want)
	}
	expect(t, "no Accept", get(h), asProblem)
}

func testDialect(t *testing.T, s *suite) {
	f := s.fixture(t)
	options := f.options()
	options.Headers = headers.Join(headers.Legacy, headers.RateLimitedFor)
	h := f.around(f.new(f.limiter, options, guard.Policy{Limit: core.Leaky(1, core.Per(1, 1500*time.Millisecond)).Named("slow")}))
	expect(t, "served", get(h), `
200
Content-Type: text/plain; charset=utf-8
X-Ratelimit-Limit: 1
X-Ratelimit-Remaining: 0
X-Ratelimit-Reset: 2

served
`)
	f.clock.advance(721 * time.Millisecond)
	expect(t, "denied", get(h), `
429
Cache-Control: no-store
Content-Type: application/problem+json
Retry-After: 1
X-Rate-Limited-For: 0.779
X-Ratelimit-Limit: 1
X-Ratelimit-Remaining: 0
X-Ratelimit-Reset: 1

`+quotaExceeded+`["slow"]}
`)
	options.Headers = headers.None
	h = f.around(f.new(f.limiter, options, guard.Policy{Limit: one()}))
	expect(t, "served without headers", get(h), "200\n"+served+"\nserved\n")
	expect(t, "denied without headers", get(h), strings.Join([]string{"429", "Cache-Control: no-store", problem + "Retry-After: 60", "", quotaExceeded + `["one"]}`, ""}, "\n"))
}

func testLLM(t *testing.T, s *suite) {
	f := s.fixture(t)
	options := f.options()
	options.Headers = headers.LLM
	h := f.around(f.new(f.limiter, options, guard.Policy{
		Limit: core.Leaky(2, core.Per(1, 1500*time.Millisecond)).Named("slow"), Unit: "tokens", Cost: func(r *http.Request) int {
			return 2 + len(r.URL.Query()["more"])
		},
	}))
	told := func(name, target, want string) {
		t.Helper()
		r := answer(h, ask(http.MethodGet, target))
		for _, field := range []string{"Limit", "Remaining", "Reset"} { // Reset is an instant of the real clock
			if r.Header.Get("Anthropic-Ratelimit-Tokens-"+field) == "" {
				t.Errorf("%s: Anthropic-Ratelimit-Tokens-%s is missing", name, field)
			}
			r.Header.Del("Anthropic-Ratelimit-Tokens-" + field)
		}
		expect(t, name, text(r), want)
	}
	told("served", "/items/7", `
200
Content-Type: text/plain; charset=utf-8
X-Ratelimit-Limit-Tokens: 2
X-Ratelimit-Remaining-Tokens: 0
X-Ratelimit-Reset-Tokens: 3s

served
`)
	f.clock.advance(2221 * time.Millisecond)
	told("denied", "/items/7", `
429
Cache-Control: no-store
Content-Type: application/problem+json
Retry-After: 1
Retry-After-Ms: 779
X-Ratelimit-Limit-Tokens: 2
X-Ratelimit-Remaining-Tokens: 1
X-Ratelimit-Reset-Tokens: 779ms

`+quotaExceeded+`["slow"]}
`)
	told("no wait can help", "/items/7?more", `
429
Cache-Control: no-store
Content-Type: application/problem+json
X-Ratelimit-Limit-Tokens: 2
X-Ratelimit-Remaining-Tokens: 1
X-Ratelimit-Reset-Tokens: 779ms
X-Should-Retry: false

`+quotaExceeded+`["slow"]}
`)
}
