package guardtest

import (
	"net/http"
	"testing"

	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
	"github.com/weir-go/ratelimit/lists"
)

var listCases = []testCase{
	{"who is in Deny gets 403 without limit fields, and the store is not asked", testDenyList},
	{"who is in Allow is exempt from every policy, in both lists, too", testAllowList},
	{"behind a proxy, lists look up whom the trust model believes", testListsBehindProxy},
	{"the user of the framework is a key to look up", testListsByUser},
	{"a denial by a list takes the limit fields of the limiters in front away", testListInside},
	{"Denied answers for a list, too", testListHook},
}

// listed is a limiter with lists and a limit of one request, observed.
func (f *fixture) listed(l guard.Lists) middleware {
	options := f.options()
	options.Lists = l
	return f.new(f.limiter, options, guard.Policy{Limit: one()})
}

const forbidden = `
403
Cache-Control: no-store
Content-Type: application/problem+json

{"type":"about:blank","title":"Forbidden","status":403}
`

// expectListed wants the only event since the last one was looked at to say whether a list has decided.
func (f *fixture) expectListed(want bool) {
	f.t.Helper()
	if e := f.event(); e.Listed != want || want && len(e.Outcomes) > 0 {
		f.t.Errorf("%v with outcomes %v, want %v", e.Listed, e.Outcomes, want)
	}
}

func testDenyList(t *testing.T, s *suite) {
	f := s.fixture(t)
	h := f.around(f.listed(guard.Lists{Deny: lists.Of("203.0.113.0/24")}))
	expect(t, "from the denied prefix", get(h), forbidden)
	f.expectListed(true)
	f.expectAsked(0)
	f.expectRan(0)

	other := ask(http.MethodGet, "/")
	other.RemoteAddr = "198.51.100.7:1"
	expectStatus(t, "from elsewhere", h, other, http.StatusOK)
	f.expectListed(false)
	expectStatus(t, "from elsewhere again", h, other, http.StatusTooManyRequests)
	f.expectListed(false)
	f.expectAsked(2)
}

func testAllowList(t *testing.T, s *suite) {
	f := s.fixture(t)
	h := f.around(f.listed(guard.Lists{Allow: lists.Of("203.0.113.9"), Deny: lists.Of("203.0.113.0/24")}))
	for range 3 {
		expect(t, "from the allowed address", get(h), `
200
Content-Type: text/plain; charset=utf-8

served
`)
		f.expectListed(true)
	}
	f.expectAsked(0)
	f.expectRan(3)
	neighbour := ask(http.MethodGet, "/")
	neighbour.RemoteAddr = "203.0.113.8:1"
	expectStatus(t, "from beside it", h, neighbour, http.StatusForbidden)
	f.expectListed(true)
}

func testListsBehindProxy(t *testing.T, s *suite) {
	f := s.fixture(t)
	h := f.around(f.listed(guard.Lists{
		Allow:   lists.Of("198.51.100.0/24"),
		Deny:    lists.Of("203.0.113.0/24", "2001:db8::9"),
		Address: keyfuncs.Address(keyfuncs.TrustedProxies("10.0.0.0/8")),
	}))
	for _, row := range []struct {
		name, peer, header string
		want               int
		listed             bool
	}{
		{"a denied client of the proxy", proxy, "X-Forwarded-For: 203.0.113.9", http.StatusForbidden, true},
		{"one of IPv6, of whose /64 others are not denied", proxy, "X-Forwarded-For: 2001:db8::9", http.StatusForbidden, true},
		{"its neighbour", proxy, "X-Forwarded-For: 2001:db8::8", http.StatusOK, false},
		{"a denied client that says it is allowed", proxy, "X-Forwarded-For: 198.51.100.7, 203.0.113.9", http.StatusForbidden, true},
		{"an allowed client of the proxy", proxy, "X-Forwarded-For: 198.51.100.7", http.StatusOK, true},
		{"a denied client that goes around the proxy", client, "X-Forwarded-For: 198.51.100.7", http.StatusForbidden, true},
		{"another client that says it is allowed", "192.0.2.1:1", "X-Forwarded-For: 198.51.100.7", http.StatusOK, false},
	} {
		r := ask(http.MethodGet, "/", row.header)
		r.RemoteAddr = row.peer
		expectStatus(t, row.name, h, r, row.want)
		f.expectListed(row.listed)
	}
}

func testListsByUser(t *testing.T, s *suite) {
	s.needUser(t)
	f := s.fixture(t)
	key := ""
	h := f.serve(site{
		user: "ann",
		around: []middleware{f.listed(guard.Lists{Deny: lists.Of("key:user:ann"), By: func(r *http.Request) (string, error) {
			var err error
			key, err = s.user(r)
			return key, err
		}})},
		handler: f.handle,
	})
	expectStatus(t, "the user", h, ask(http.MethodGet, "/"), http.StatusForbidden)
	f.expectListed(true)
	if key != "user:ann" {
		t.Errorf("key %q, want that of the user", key)
	}
}

func testListInside(t *testing.T, s *suite) {
	f := s.fixture(t)
	h := f.serve(site{
		around:  []middleware{f.new(f.limiter, guard.Options{}, guard.Policy{Limit: ten()})},
		inside:  []middleware{f.listed(guard.Lists{Deny: lists.Of("203.0.113.0/24")})},
		handler: f.handle,
	})
	expect(t, "denied inside", get(h), forbidden)
}

func testListHook(t *testing.T, s *suite) {
	f := s.fixture(t)
	options := guard.Options{
		Lists: guard.Lists{Deny: lists.Of("203.0.113.0/24")},
		Denied: func(w http.ResponseWriter, _ *http.Request, denial *guard.Denial) {
			if denial.Status != http.StatusForbidden || denial.RetryAfter != 0 || denial.ViolatedPolicies != nil {
				t.Errorf("denial %+v", denial)
			}
			w.WriteHeader(http.StatusNotFound)
		},
	}
	h := f.around(f.new(f.limiter, options, guard.Policy{Limit: one()}))
	expectStatus(t, "the hook's status", h, ask(http.MethodGet, "/"), http.StatusNotFound)
}
