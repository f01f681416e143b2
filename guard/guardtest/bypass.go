package guardtest

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
	"github.com/weir-go/ratelimit/policies"
)

var bypassCases = []testCase{
	{"no way to write a request makes it somebody else's", testBypass},
	{"a further line of a header chooses neither the key nor the policy", testFurtherLines},
	{"a flood of other keys does not reset anybody's limit", testFlood},
}

func testBypass(t *testing.T, s *suite) {
	from := func(peer string, r *http.Request) *http.Request {
		r.RemoteAddr = peer
		return r
	}
	each := func(build func(int) *http.Request) []*http.Request {
		var requests []*http.Request
		for i := range 20 {
			requests = append(requests, build(i))
		}
		return requests
	}
	for _, row := range []struct {
		name, advisories string
		by               keyfuncs.Func
		requests         []*http.Request // that are one client's, on one route
	}{
		{"addresses in one /64", "CVE-2026-45364 express-rate-limit 8.0.0", keyfuncs.RemoteIP, each(func(i int) *http.Request {
			return from(fmt.Sprintf("[2001:db8::%x:1]:%d", i, i), ask(http.MethodGet, "/"))
		})},
		{"ports", "", keyfuncs.RemoteIP, each(func(i int) *http.Request { return from(fmt.Sprintf("203.0.113.9:%d", i), ask(http.MethodGet, "/")) })},
		{"zones", "", keyfuncs.RemoteIP, each(func(i int) *http.Request { return from(fmt.Sprintf("[fe80::1%%eth%d]:1", i), ask(http.MethodGet, "/")) })},
		{"values in the body and in the query", "CVE-2025-64526", keyfuncs.RemoteIP, each(func(i int) *http.Request {
			return ask(http.MethodGet, fmt.Sprintf("/?email=%d@example.com", i))
		})},
		{"paths of one route", "CVE-2025-54879", keyfuncs.Join(keyfuncs.RemoteIP, keyfuncs.Route), each(func(i int) *http.Request {
			return ask(http.MethodGet, fmt.Sprintf("/items/%d", i))
		})},
		{"paths of no route: case, slashes, dots, encodings, prefixes", "CVE-2023-38507 CVE-2026-33807 CVE-2026-33808", keyfuncs.Join(keyfuncs.RemoteIP, keyfuncs.Route), []*http.Request{
			ask(http.MethodGet, "/nowhere"), ask(http.MethodGet, "/Items/7"), ask(http.MethodGet, "/ITEMS/7"), ask(http.MethodGet, "/api/items/7"),
			ask(http.MethodGet, "/items"), ask(http.MethodGet, "/%49tems/7"), ask(http.MethodPost, "/items/7"), ask("BREW", "/items/7"), ask(http.MethodGet, "/x/../y"),
		}},
		{"methods", "", keyfuncs.Join(keyfuncs.RemoteIP, keyfuncs.Method), []*http.Request{ask(http.MethodGet, "/"), ask(http.MethodHead, "/")}},
		{"methods that are none", "", keyfuncs.Join(keyfuncs.RemoteIP, keyfuncs.Method), []*http.Request{ask("BREW", "/"), ask("brew", "/"), ask("get", "/"), ask("PROPFIND", "/")}},
		{"white space around a secret, and the case of its name", "CVE-2025-6015 CVE-2025-55003", keyfuncs.Header("X-Api-Key"), []*http.Request{
			ask(http.MethodGet, "/", "X-Api-Key: secret"), ask(http.MethodGet, "/", "x-api-key:  secret\t"), ask(http.MethodGet, "/", "X-API-KEY: secret "),
		}},
		{"the scheme of a bearer token, and the space around it", "CVE-2025-6015 CVE-2025-55003", keyfuncs.Bearer(), []*http.Request{
			ask(http.MethodGet, "/", "Authorization: Bearer secret"), ask(http.MethodGet, "/", "Authorization: bearer secret"),
			ask(http.MethodGet, "/", "authorization: BEARER \t secret "), ask(http.MethodGet, "/", "Authorization: Bearer secret again"),
			ask(http.MethodGet, "/", "Authorization: Bearer secret", "Authorization: Bearer another"),
		}},
		{"further lines of a header", "", keyfuncs.Header("X-Api-Key"), each(func(i int) *http.Request {
			return ask(http.MethodGet, "/", "X-Api-Key: secret", fmt.Sprintf("X-Api-Key: %d", i), fmt.Sprintf("x-api-key: %d", i))
		})},
		{"further cookies of a name, and the encoding of the first", "", keyfuncs.Cookie("session"), each(func(i int) *http.Request {
			value := []string{"secret", "%73ecret", "s%65cret", "%73%65%63ret", `"secret"`}[i%5]
			return ask(http.MethodGet, "/", fmt.Sprintf("Cookie: session=%s; session=%d", value, i), fmt.Sprintf("Cookie: session=%d", i))
		})},
		{"spellings of basic credentials", "", keyfuncs.Header("Authorization"), each(func(i int) *http.Request {
			credentials := []string{"Basic dXNlcjpwYXM=", "bAsIc dXNlcjpwYXM=", "BASIC  dXNlcjpwYXN=", "Basic dXNlcjpwYXO="}[i%4]
			return ask(http.MethodGet, "/", "Authorization: "+credentials, fmt.Sprintf("Authorization: Basic %d", i))
		})},
		{"no user", "", keyfuncs.User(func(*http.Request) string { return "" }), each(func(i int) *http.Request {
			return ask(http.MethodGet, "/", fmt.Sprintf("Authorization: Bearer %d", i), fmt.Sprintf("Cookie: user=%d", i))
		})},
		{"an empty key", "", keyfuncs.Header("X-Api-Key"), []*http.Request{ask(http.MethodGet, "/"), ask(http.MethodGet, "/", "X-Api-Key: "), ask(http.MethodGet, "/", "X-Api-Key:  ", "X-Api-Key: ")}},
	} {
		t.Run(row.name, func(t *testing.T) {
			f := s.fixture(t)
			h := f.around(f.limited(guard.Policy{Limit: one(), By: row.by}))
			for i, r := range s.passed(row.requests) {
				denied := answer(h, r).StatusCode == http.StatusTooManyRequests
				if denied != (i > 0) {
					t.Errorf("request %d, %s %s of %s: denied is %v; observed %+v", i+1, r.Method, r.URL, r.RemoteAddr, denied, f.events)
				}
			}
		})
	}

	for _, row := range []struct {
		name     string
		by       keyfuncs.Func
		requests []*http.Request // that are as many clients
	}{
		{"mapped addresses are not one bucket (CVE-2026-30827)", keyfuncs.RemoteIP, each(func(i int) *http.Request {
			return from(fmt.Sprintf("[::ffff:203.0.113.%d]:1", i+1), ask(http.MethodGet, "/"))
		})},
		{"a user who is called like an address", keyfuncs.Or(keyfuncs.User(func(r *http.Request) string { return r.Header.Get("X-User") }), keyfuncs.RemoteIP), []*http.Request{
			ask(http.MethodGet, "/"), ask(http.MethodGet, "/", "X-User: 203.0.113.9"), ask(http.MethodGet, "/", "X-User: ip:203.0.113.9"),
		}},
		{"parts that run into each other", keyfuncs.Join(
			keyfuncs.User(func(r *http.Request) string { return r.Header.Get("X-User") }), keyfuncs.User(func(r *http.Request) string { return r.Header.Get("X-Team") }),
		), []*http.Request{
			ask(http.MethodGet, "/", "X-User: a", "X-Team: b|user:c"), ask(http.MethodGet, "/", "X-User: a|user:b", "X-Team: c"), ask(http.MethodGet, "/", `X-User: a\`, "X-Team: |user:b"),
		}},
		{"long values and control bytes", keyfuncs.User(func(r *http.Request) string { return r.Header.Get("X-User") }), []*http.Request{
			ask(http.MethodGet, "/", "X-User: "+strings.Repeat("x", 1<<20)), ask(http.MethodGet, "/", "X-User: "+strings.Repeat("x", 1<<20)+"y"),
			ask(http.MethodGet, "/", "X-User: {a}"), ask(http.MethodGet, "/", "X-User: a\x00"), ask(http.MethodGet, "/", "X-User: a"),
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			f := s.fixture(t)
			h := f.around(f.limited(guard.Policy{Limit: one(), By: row.by}))
			for i, r := range row.requests {
				expectStatus(t, fmt.Sprintf("request %d", i+1), h, r, http.StatusOK)
			}
			for i, r := range row.requests {
				expectStatus(t, fmt.Sprintf("request %d again", i+1), h, r, http.StatusTooManyRequests)
			}
		})
	}
}

func testFurtherLines(t *testing.T, s *suite) {
	d, err := policies.Parse([]byte(`policies:
  - {match: {pattern: /, header: {X-Tier: premium}}, limit: "leaky 100, 1/h", key: header X-API-Key}
  - {match: /, limit: "leaky 1, 1/h", key: header X-API-Key}`))
	if err != nil {
		t.Fatal(err)
	}
	set, err := d.Set(policies.Options{})
	if err != nil {
		t.Fatal(err)
	}
	f := s.fixture(t)
	h := f.around(f.use(guard.Must(guard.Follow(f.limiter, guard.Options{}, set))))
	for i := range 20 {
		want := http.StatusTooManyRequests
		if i == 0 {
			want = http.StatusOK
		}
		lines := []string{"X-Api-Key: secret", fmt.Sprintf("X-Api-Key: %d", i), "X-Tier: basic", "X-Tier: premium"}
		expectStatus(t, fmt.Sprintf("request %d", i+1), h, ask(http.MethodGet, "/", lines[:2+i%3]...), want)
	}
	f.expectRan(1)
}

// CVE-2024-21662: a bounded table of counters that overflows must not forget.
func testFlood(t *testing.T, s *suite) {
	f := s.fixture(t)
	h := f.around(f.new(f.limiter, guard.Options{}, guard.Policy{Limit: core.FixedWindow(1, 3600e9)}))
	expectStatus(t, "the victim", h, ask(http.MethodGet, "/"), http.StatusOK)
	for i := range 5000 {
		r := ask(http.MethodGet, "/")
		r.RemoteAddr = fmt.Sprintf("10.1.%d.%d:1", i/256, i%256)
		send(h, r)
	}
	expectStatus(t, "the victim after the flood", h, ask(http.MethodGet, "/"), http.StatusTooManyRequests)
}
