//go:build !race

// A site is sent one request after the other: make test runs it without the race detector, which takes five times as long.

package routertest

import (
	"flag"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/ratelimit/internal/repeatable"
)

var paths = flag.Int("paths", 100, "how many requests each site is sent: in this process, over HTTP/1.1, and over HTTP/2")

// mostPaths is how many requests a site is sent before it gets other policies.
const mostPaths = 20_000

// kinds returns all kinds of sites whose routes count.
func kinds() []kind {
	return slices.Concat(muxKinds(), ginKinds(), echoKinds(), echov5Kinds(), chiKinds())
}

// rounds builds a site several times, and has requests sent to each: with a policy for each route, and then with policies that are drawn.
func (k *kind) rounds(t *testing.T, random *rand.Rand, send func(s *site, requests int)) {
	t.Helper()
	requests := max(min(mostPaths, *paths/2), 1)
	var served, sent int
	for ; sent < *paths; sent += requests {
		var policies *rand.Rand
		if sent > 0 {
			policies = random
		}
		s := k.site(t, policies)
		send(s, requests)
		if missed := s.missed.Load(); missed != nil {
			t.Fatalf("%s: %s. There are %q", k.name, *missed, s.policies)
		}
		served += int(s.served.Load())
	}
	t.Logf("%d requests have run a handler, of %d", served, sent)
	if served < sent/100 {
		t.Errorf("%d of %d requests have run a handler", served, sent)
	}
}

// Whenever the handler of a limited route runs, the request has met the policy of that route.
func TestNoHandlerRunsWithoutItsPolicy(t *testing.T) {
	random := repeatable.Random(t)
	for _, k := range kinds() {
		random := repeatable.Split(random)
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			k.rounds(t, random, func(s *site, requests int) { s.sendAll(random, requests) })
		})
	}
}

// inForm returns the target of a request, which may be in the absolute form, and that within another one, which a proxy passes on.
func inForm(random *rand.Rand, path, host string) string {
	absolute := "http://" + host + path
	switch random.IntN(16) {
	case 0, 1:
		return absolute
	case 2:
		return "http:" + absolute
	}
	return path
}

// A request that is written as its route is meets the policy of that route, and no other.
func TestAnOrdinaryRequestMeetsOnePolicy(t *testing.T) {
	for _, k := range kinds() {
		if k.several {
			continue
		}
		s := k.site(t, nil)
		for i := range s.routes {
			to := &s.routes[i]
			path := to.registered()
			if strings.Contains(path, ".") || strings.Contains(path, "shop") || strings.Contains(path, "{n}") { // extensions, two that differ by a slash, a part of a segment
				continue
			}
			method := to.method()
			if method == "" {
				method = http.MethodPut
			}
			of := s.asked(t, method, s.prefix+path)
			if len(of.ran) > 0 && (len(of.met) != 1 || s.policies[of.met[0]] != s.asPolicy(to.pattern)) {
				t.Errorf("%s: %s meets %q, want %q", s.name, path, s.patterns(of.met), s.asPolicy(to.pattern))
			}
		}
	}
}

// These requests once ran handlers without their policies.
func TestKnownWaysAround(t *testing.T) {
	for _, k := range kinds() {
		s := k.site(t, nil)
		for _, target := range []string{
			"POST /users//reset", "POST /t//login", "POST /users/%2F/reset", "CONNECT /t//login",
			"POST /verify/1/x/y", "POST /oauth/v1/a/", "POST /items/%73pecial",
			"POST /x/../orders", "POST /./orders", "POST //a%2Fb/c", "POST /static/../login",
			"POST /api%2Flogin", "POST /a/b%2Fc",
			"POST /login/", "POST /login//", "POST /login%2F", "POST /login.x", "POST /./login",
			"POST /files/x/%2e%2e/private/s.txt", "POST /files/x/../private/s.txt", "POST /files/private%2Fs.txt", "POST //login",
		} {
			method, path, _ := strings.Cut(target, " ")
			s.send(method, ordinary(s.prefix)+path, "a.test")
			s.send(method, "http://a.test"+ordinary(s.prefix)+path, "a.test")
			if missed := s.missed.Load(); missed != nil {
				t.Fatalf("%s: %s", k.name, *missed)
			}
		}
	}
}
