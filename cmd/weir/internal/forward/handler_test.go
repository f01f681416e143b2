package forward_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-go/ratelimit/cmd/weir/internal/forward"
	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/internal/redistest"
	"github.com/weir-go/ratelimit/policies"
)

// proxy is the address of the proxy that these tests trust.
const proxy = "10.0.0.1"

const shop = `
limits:
  everybody: fixed-window 1000, 1h
  logins: fixed-window 3, 1h
  partners: fixed-window 1000, 1h
policies:
  - limit: everybody
    key: ip
  - match: POST /login
    limit: logins
    key: ip
  - match: api.example.com/
    limit: partners
    key: header X-API-Key or ip
`

func memory(t *testing.T) *core.Limiter {
	t.Helper()
	limiter, err := core.Open("memory:")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = limiter.Close() })
	return limiter
}

func setOf(t testing.TB, text string) *policies.Set {
	t.Helper()
	document, err := policies.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	set, err := document.Set(policies.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// handler returns a handler that trusts the proxy of these tests.
func handler(t *testing.T, limiter *core.Limiter, text string) *forward.Handler {
	t.Helper()
	h, err := forward.New(limiter, quiet(nil), setOf(t, text), proxy)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// quiet returns options of a handler that logs nothing.
func quiet(observe func(guard.Event)) guard.Options {
	return guard.Options{Logger: slog.New(slog.DiscardHandler), Observe: observe}
}

// check returns a check as a proxy sends it. A later line of a field replaces an earlier one. A field without a value is left out.
func check(peer, method, uri string, lines ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/check", http.NoBody)
	r.RemoteAddr = peer + ":1234"
	for _, line := range append([]string{"X-Forwarded-Method: " + method, "X-Forwarded-Host: example.com", "X-Forwarded-For: 203.0.113.9"}, lines...) {
		name, value, _ := strings.Cut(line, ": ")
		if r.Header.Del(name); value != "" {
			r.Header.Set(name, value)
		}
	}
	r.Header["X-Forwarded-Uri"] = []string{uri}
	return r
}

func ask(h http.Handler, r *http.Request) *http.Response {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

// met returns the names of the policies that a response tells of, in alphabetical order.
func met(response *http.Response) (names []string) {
	for part := range strings.SplitSeq(response.Header.Get("RateLimit"), ",") {
		name, _, _ := strings.Cut(strings.TrimSpace(part), ";")
		names = append(names, strings.Trim(name, `"`))
	}
	slices.Sort(names)
	return names
}

// A check meets the policies that the described request meets: by its method, its path and its host.
func TestChecksAreOfTheDescribedRequest(t *testing.T) {
	h := handler(t, memory(t), shop)
	for _, c := range []struct {
		method, uri string
		lines       []string
		want        string
	}{
		{"GET", "/", nil, "everybody"},
		{"GET", "/login", nil, "everybody"},
		{"POST", "/login", nil, "everybody logins"},
		{"POST", "/login?next=/", nil, "everybody logins"},
		{"post", "/login", nil, "everybody logins"},
		{"GET", "/x", []string{"X-Forwarded-Host: api.example.com"}, "everybody partners"},
		{"GET", "/x", []string{"X-Forwarded-Host: API.example.com:8443"}, "everybody partners"},
		{"GET", "http://api.example.com/x", []string{"X-Forwarded-Host"}, "everybody partners"},
		{"OPTIONS", "*", nil, "everybody"},
	} {
		response := ask(h, check(proxy, c.method, c.uri, c.lines...))
		if got := strings.Join(met(response), " "); response.StatusCode != http.StatusOK || got != c.want {
			t.Errorf("%s %s %q: %d, met %s, want %s", c.method, c.uri, c.lines, response.StatusCode, got, c.want)
		}
	}
}

// tricks are ways of writing /login that some router, file server or upstream server takes for it.
var tricks = []string{
	"/login", "/login?", "/login?x=1", "//login", "///login//", "/./login", "/x/../login", "/x//../login", "/%6cogin", "/log%69n", "/%6C%6f%67%69%6e",
	"/x/%2e%2e/login", "/x/%2E./login", "/%2e/login", "/x%2f..%2flogin", "/%2flogin", "/login/", "/login%2f", "/login.html", "/%256cogin",
	"/login;a=1", "/login;a=1?x", "/login;", "/;a/login", "/x;a=1/../login;b", "/x/..;/login", "/x/..;a=b/login;c", `/x\..\login`, `\login`, `/x/..%5clogin`, "/x;y%5C..%5Clogin;z",
	"http://example.com/login", "http://elsewhere.example/login", "https://example.com//login", "http://example.com/x/..;/login", "http:/login", "http:http://a/login",
	"/login%3bx", "/login%3B", "/x/..%3b/login", "/x%2f..;%2flogin", "/x%2F..%3b%2flogin", `/x%2f..;\y%2flogin`, "/;x%2fy/login",
	"/login#fragment", "/login%23", "/x#/../login", `/x;a\..;b/login;c#d`,
}

// However the target is written, the policy of the path that it may mean counts, or the check is denied.
func TestNoSpellingLeadsAroundAPolicy(t *testing.T) {
	h := handler(t, memory(t), strings.ReplaceAll(shop, "logins: fixed-window 3", "logins: fixed-window 1000"))
	passed := 0
	for _, uri := range tricks {
		response := ask(h, check(proxy, "POST", uri))
		if response.StatusCode == http.StatusOK && !slices.Contains(met(response), "logins") {
			t.Errorf("%s meets %q", uri, met(response))
		}
		if response.StatusCode == http.StatusOK {
			passed++
		}
	}
	if passed < len(tricks)-3 {
		t.Errorf("%d of %d are decided", passed, len(tricks))
	}
}

// A longer path meets the same policies when parameters are written into its segments.
func TestParametersChangeNothing(t *testing.T) {
	h := handler(t, memory(t), strings.ReplaceAll(shop, "POST /login", "/a/{name}/c"))
	rapid.Check(t, func(t *rapid.T) {
		path := "/a/b/c"
		parameters := rapid.SliceOfN(rapid.StringMatching(`(;[a-c=%20.]{0,3}){0,2}`), 3, 3).Draw(t, "parameters")
		for i, segment := range []string{"/a", "/b", "/c"} {
			path = strings.Replace(path, segment, segment+strings.ReplaceAll(parameters[i], "%", "%25"), 1)
		}
		if response := ask(h, check(proxy, "GET", path)); !slices.Contains(met(response), "logins") {
			t.Errorf("%s: %d, meets %q", path, response.StatusCode, met(response))
		}
	})
}

// Nobody but a trusted proxy is answered, and nothing is charged for others.
func TestOnlyTrustedProxiesMayAsk(t *testing.T) {
	var decided atomic.Int64
	h, err := forward.New(memory(t), quiet(func(guard.Event) { decided.Add(1) }), setOf(t, shop), "10.0.0.0/24", "2001:db8::/32", "::ffff:192.0.2.0/120", "192.0.2.200")
	if err != nil {
		t.Fatal(err)
	}
	for peer, want := range map[string]int{
		"10.0.0.7": 200, "[2001:db8::1]": 200, "192.0.2.9": 200, "[::ffff:10.0.0.9]": 200,
		"10.0.1.1": 403, "203.0.113.9": 403, "[2001:db9::1]": 403, "127.0.0.1": 403,
	} {
		before := decided.Load()
		for _, h := range []http.Handler{h, h.AuthRequest()} {
			if response := ask(h, check(peer, "GET", "/", "X-Forwarded-For: 10.0.0.1")); response.StatusCode != want {
				t.Errorf("%s is answered with %d, want %d", peer, response.StatusCode, want)
			}
		}
		if charged := decided.Load() - before; charged != 0 && want == 403 {
			t.Errorf("%d checks of %s were decided", charged, peer)
		}
	}
	for _, peer := range []string{"@", "", "unix"} {
		r := check(proxy, "GET", "/")
		if r.RemoteAddr = peer; ask(h, r).StatusCode != http.StatusForbidden {
			t.Errorf("the peer %q is answered", peer)
		}
	}
}

// A check that does not say clearly what is asked about is denied.
func TestIncompleteChecks(t *testing.T) {
	h := handler(t, memory(t), shop)
	twice := func(name string) *http.Request {
		r := check(proxy, "GET", "/")
		r.Header[name] = append(r.Header[name], r.Header[name]...)
		return r
	}
	without := func(name string) *http.Request {
		r := check(proxy, "GET", "/")
		r.Header.Del(name)
		return r
	}
	for name, r := range map[string]*http.Request{
		"no method": without("X-Forwarded-Method"), "two methods": twice("X-Forwarded-Method"), "a malformed method": check(proxy, "GE T", "/"),
		"no target": without("X-Forwarded-Uri"), "two targets": twice("X-Forwarded-Uri"), "an empty target": check(proxy, "GET", ""),
		"a malformed target": check(proxy, "GET", "/%zz"), "a target without a slash": check(proxy, "GET", "login"), "two hosts": twice("X-Forwarded-Host"),
		"no client": without("X-Forwarded-For"),
	} {
		if response := ask(h, r); response.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %d", name, response.StatusCode)
		}
		if response := ask(h.AuthRequest(), r); response.StatusCode != http.StatusForbidden || response.Header.Get(forward.DeniedStatus) != "400" {
			t.Errorf("%s: nginx gets %d, %v", name, response.StatusCode, response.Header)
		}
	}
}

// The client is the first address from the right that is no trusted proxy's, whatever clients have written to the left of it.
func TestWhoTheClientIs(t *testing.T) {
	for _, key := range []string{"ip", "ip trusted 10.0.0.0/8", "ip trusted 203.0.113.0/24", "ip forwarded 10.0.0.0/8", "ip hops 1"} {
		var keys []string
		h, err := forward.New(memory(t), quiet(func(e guard.Event) { keys = append(keys, e.Outcomes[0].Key) }),
			setOf(t, strings.ReplaceAll(shop, "key: ip\n", "key: "+key+"\n")), proxy, "10.0.9.0/24")
		if err != nil {
			t.Fatal(err)
		}
		for forwarded, want := range map[string]string{
			"203.0.113.9":                            "ip:203.0.113.9",
			"192.0.2.1, 203.0.113.9":                 "ip:203.0.113.9",
			"192.0.2.1, 203.0.113.9, 10.0.9.4":       "ip:203.0.113.9",
			"10.0.0.1, 203.0.113.9":                  "ip:203.0.113.9",
			"2001:db8::7":                            "ip:2001:db8::/64",
			"192.0.2.1, 203.0.113.9, 198.51.100.4":   "ip:198.51.100.4",
			"192.0.2.1, unknown":                     "ip:" + proxy,
			"10.0.9.4":                               "ip:10.0.9.4",
			"192.0.2.1, 203.0.113.9:4321, 10.0.9.77": "ip:203.0.113.9",
		} {
			keys = nil
			ask(h, check(proxy, "GET", "/", "X-Forwarded-For: "+forwarded, "Forwarded: for=192.0.2.1", "X-Real-Ip: 192.0.2.1"))
			if len(keys) != 1 || keys[0] != want {
				t.Errorf("%s: of %q the key is %q, want %s", key, forwarded, keys, want)
			}
		}
	}
}

// A denial says all that the limiter in a service would say: to Traefik and Caddy as it is, and to nginx in header fields.
func TestDenials(t *testing.T) {
	h := handler(t, memory(t), shop)
	for i := range 3 {
		response := ask(h, check(proxy, "POST", "/login"))
		if response.StatusCode != http.StatusOK || response.Header.Get("RateLimit-Policy") == "" || response.Header.Get("Cache-Control") != "no-store" {
			t.Fatalf("check %d: %d, %v", i, response.StatusCode, response.Header)
		}
	}
	var problem guard.Problem
	denied := ask(h, check(proxy, "POST", "/login"))
	if err := json.NewDecoder(denied.Body).Decode(&problem); err != nil || denied.StatusCode != http.StatusTooManyRequests || denied.Header.Get("Retry-After") == "" ||
		denied.Header.Get("Content-Type") != guard.ProblemType || !slices.Equal(problem.ViolatedPolicies, []string{"logins"}) {
		t.Errorf("%d, %v, %+v, %v", denied.StatusCode, denied.Header, problem, err)
	}
	toNginx := ask(h.AuthRequest(), check(proxy, "POST", "/login"))
	told := toNginx.Header.Get(forward.DeniedProblem)
	problem = guard.Problem{}
	if err := json.Unmarshal([]byte(told), &problem); err != nil || toNginx.StatusCode != http.StatusForbidden || toNginx.Header.Get(forward.DeniedStatus) != "429" ||
		toNginx.Header.Get("Retry-After") == "" || toNginx.Header.Get("RateLimit") == "" || !slices.Equal(problem.ViolatedPolicies, []string{"logins"}) {
		t.Errorf("%d, %v, %+v, %v", toNginx.StatusCode, toNginx.Header, problem, err)
	}
	if other := ask(h, check(proxy, "POST", "/login", "X-Forwarded-For: 203.0.113.10")); other.StatusCode != http.StatusOK {
		t.Errorf("another client is answered with %d", other.StatusCode)
	}
}

// No call of a protocol that has denials with status 200 is let pass by that status.
func TestNoDenialLooksLikeAPass(t *testing.T) {
	h := handler(t, memory(t), strings.ReplaceAll(shop, "POST /login", "/login"))
	for range 3 {
		ask(h, check(proxy, "POST", "/login"))
	}
	for _, lines := range [][]string{
		{"Content-Type: application/grpc"},
		{"Content-Type: application/grpc-web+proto"},
		{"Content-Type: application/connect+json", "Connect-Protocol-Version: 1"},
		{"Content-Type: application/json", "Connect-Protocol-Version: 1"},
		{"Accept: text/plain"},
	} {
		for _, method := range []string{"POST", "GET", "HEAD"} {
			for _, form := range []http.Handler{h, h.AuthRequest()} {
				r := check(proxy, method, "/login", lines...)
				r.Method, r.ProtoMajor, r.Proto = method, 2, "HTTP/2.0" // as Traefik asks with preserveRequestMethod
				if response := ask(form, r); response.StatusCode < 400 {
					t.Errorf("%s with %q is answered with %d", method, lines, response.StatusCode)
				}
			}
		}
	}
}

// The client's own fields count, such as an API key.
func TestFieldsOfTheClientCount(t *testing.T) {
	var keys []string
	h, err := forward.New(memory(t), quiet(func(e guard.Event) { keys = append(keys, e.Outcomes[len(e.Outcomes)-1].Key) }), setOf(t, shop), proxy)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"X-API-Key: a", "X-API-Key: b", "X-API-Key: a", "X-Other: a"} {
		ask(h, check(proxy, "GET", "/", "X-Forwarded-Host: api.example.com", key))
	}
	if len(keys) != 4 || keys[0] != keys[2] || keys[0] == keys[1] || !strings.HasPrefix(keys[0], "header:x-api-key:") || keys[3] != "ip:203.0.113.9" {
		t.Errorf("%q", keys)
	}
}

// unfit are policies that a check cannot decide, with a part of the reason.
var unfit = map[string]string{
	"limit: concurrent 2, 30s\n    key: ip":                                                          "nobody would give the place back",
	"limit: shaping 2, 1/s\n    key: ip":                                                             "does not wait",
	"limit: leaky 2, 1/s\n    key: ip\n    settle: {5xx: 0}":                                         "settle depends on the response",
	"limit: leaky 2, 1/s\n    key: ip\n    settle: {5xx: 0}\n    reserveFor: 1m":                     "settle depends on the response",
	"ban: ban 5, 10m, first 10m, factor 2, longest 7d, forget 1d\n    key: ip\n    strike: {401: 1}": "strike: denials",
	"key: ip\n    firstOf:\n      - limit: leaky 2, 1/s\n      - limit: concurrent 2, 30s":           "nobody would give the place back",
	"match: GET /exports\n    enforced: 50%\n    limit: concurrent 2, 30s\n    key: ip":              "nobody would give the place back",
	"shadow: true\n    limit: concurrent 2, 30s\n    key: ip":                                        "nobody would give the place back",
}

// Policies that need more than a check can know are errors at the start, which name the policy and the reason.
func TestUnfitPoliciesAreErrors(t *testing.T) {
	for text, reason := range unfit {
		_, err := forward.New(memory(t), quiet(nil), setOf(t, "policies:\n  - "+text+"\n"), proxy)
		if err == nil || !strings.Contains(err.Error(), reason) || !strings.Contains(err.Error(), "line 2") {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{
		"ban: ban 5, 10m, first 10m, factor 2, longest 7d, forget 1d\n    key: ip\n    strike: denials\n  - limit: leaky 2, 1/s\n    key: ip",
		"ban: ban 5, 10m, first 10m, factor 2, longest 7d, forget 1d\n    key: ip\n  - limit: leaky 2, 1/s\n    key: ip",
		"limit: unlimited\n    match: /static/\n  - limit: calendar 100, day UTC\n    key: ip\n    cost: 2\n    headroom: 1",
	} {
		if _, err := forward.New(memory(t), quiet(nil), setOf(t, "policies:\n  - "+text+"\n"), proxy); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// A reload puts another file in force. A file with policies that a check cannot decide changes nothing.
func TestReloadsKeepTheLastGoodFile(t *testing.T) {
	var text atomic.Pointer[string]
	put := func(limit string) {
		s := "policies:\n  - limit: \"" + limit + "\"\n    key: ip\n"
		text.Store(&s)
	}
	put("a: leaky 1000, 1/s")
	failed := make(chan error, 1)
	set, err := policies.Watch(t.Context(), policies.Func("test", func(context.Context) ([]byte, error) { return []byte(*text.Load()), nil }), policies.Options{
		Every: time.Millisecond, Logger: slog.New(slog.DiscardHandler),
		OnError: func(err error) {
			select {
			case failed <- err:
			default:
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	h, err := forward.New(memory(t), quiet(nil), set, proxy)
	if err != nil {
		t.Fatal(err)
	}
	in := func() string { return strings.Join(met(ask(h, check(proxy, "GET", "/"))), " ") }
	put("b: concurrent 2, 30s")
	select {
	case err := <-failed:
		if !strings.Contains(err.Error(), "nobody would give the place back") {
			t.Error(err)
		}
	case <-t.Context().Done():
		t.Fatal("the file was taken")
	}
	if got := in(); got != "a" {
		t.Errorf("after a bad file, %s is in force", got)
	}
	put("c: leaky 1000, 1/s")
	for in() != "c" {
		if errors.Is(t.Context().Err(), context.Canceled) {
			t.Fatal("the good file is not in force")
		}
	}
}

// A handler needs proxies that make sense.
func TestTrustedProxies(t *testing.T) {
	for _, trusted := range [][]string{nil, {"proxy.example.com"}, {"10.0.0.1/8"}, {"0.0.0.0/0"}, {""}} {
		if _, err := forward.New(memory(t), quiet(nil), setOf(t, shop), trusted...); err == nil {
			t.Errorf("%q are believed", trusted)
		}
	}
}

// Where Redis does not answer, the policy says what happens, and no check waits for Redis longer than the limiter's budget.
func TestRedisIsGone(t *testing.T) {
	const text = `
policies:
  - limit: leaky 3, 1/h
    key: ip
    onError: MODE
`
	for _, gone := range []struct {
		name string
		way  func(*redistest.Server)
	}{
		{"stopped", func(s *redistest.Server) { s.Stop(t) }},
		{"paused", func(s *redistest.Server) { s.Pause(t) }}, // it never answers while the checks run
	} {
		server := redistest.Start(t)
		limiter, err := core.Open(server.URL(), core.WithBudget(20*time.Millisecond))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = limiter.Close() })
		gone.way(server)
		for mode, want := range map[string][]int{"open": {200, 200, 200, 200}, "closed": {503, 503, 503, 503}, "fallback": {200, 200, 200, 429}} {
			h := handler(t, limiter, strings.ReplaceAll(text, "MODE", mode))
			var got []int
			for range want {
				got = append(got, ask(h, check(proxy, "GET", "/")).StatusCode)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s, %s: %v, want %v", gone.name, mode, got, want)
			}
		}
	}
}

// However many policies a request meets, nginx can read the answer. It would take a header of over 4 KiB for no answer at all, and let the request pass.
func TestNginxCanReadTheAnswersOfManyPolicies(t *testing.T) {
	var limits, rules strings.Builder
	for i := range 120 {
		fmt.Fprintf(&limits, "  requests-of-department-%03d: fixed-window 1, 1h\n", i)
		fmt.Fprintf(&rules, "  - limit: requests-of-department-%03d\n    key: ip\n", i)
	}
	h := handler(t, memory(t), "limits:\n"+limits.String()+"policies:\n"+rules.String())
	for _, want := range []int{http.StatusOK, http.StatusForbidden} {
		response := ask(h.AuthRequest(), check(proxy, "GET", "/"))
		var header strings.Builder
		if err := response.Header.Write(&header); err != nil {
			t.Fatal(err)
		}
		if response.StatusCode != want || header.Len() > 3500 {
			t.Errorf("the answer is %d with %d bytes of header, want %d", response.StatusCode, header.Len(), want)
		}
		if want != http.StatusForbidden {
			continue
		}
		var problem guard.Problem
		err := json.Unmarshal([]byte(response.Header.Get(forward.DeniedProblem)), &problem)
		if err != nil || problem.Status != http.StatusTooManyRequests || response.Header.Get(forward.DeniedStatus) != "429" ||
			response.Header.Get("Retry-After") == "" {
			t.Errorf("the denial is %v, %v", response.Header, err)
		}
	}
}
