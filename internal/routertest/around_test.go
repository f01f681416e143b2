package routertest

import (
	"bufio"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weir-go/ratelimit/internal/repeatable"
)

var paths = flag.Int("paths", 1000, "how many requests each site is sent")

// Whenever the handler of a limited route runs, the request has met the policy of that route.
func TestNoHandlerRunsWithoutItsPolicy(t *testing.T) {
	random := repeatable.Random(t)
	for _, s := range sites(t) {
		random := repeatable.Split(random)
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			served := 0
			for range *paths {
				text := pick(random, methods) + " " + target(random, limited()) + " HTTP/1.1\r\nHost: a.test\r\n\r\n"
				r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text)))
				if err != nil {
					continue
				}
				s.serve(httptest.NewRecorder(), r)
				route, met, ran := s.missed()
				if route != "" {
					t.Fatalf("%s: %q runs %s and meets %v, not %s, its policy", s.name, text, route, met, s.policyOf(route))
				}
				if ran {
					served++
				}
			}
			if served < *paths/20 {
				t.Errorf("%d of %d requests have run a handler", served, *paths)
			}
		})
	}
}

// A request that is written as its route is meets the policy of that route, and no other.
func TestAnOrdinaryRequestMeetsOnePolicy(t *testing.T) {
	for _, s := range sites(t) {
		for _, route := range routes {
			path := strings.NewReplacer("{id}", "7", "{tenant}", "acme", "{code}", "123", "{app}", "web", "{path...}", "a/b.txt").Replace(route)
			if strings.Contains(s.name, "AddTrailingSlash") {
				continue // which a request is to be written with
			}
			r := httptest.NewRequest(http.MethodPost, path, nil)
			s.mu.Lock()
			s.ran, s.met = nil, nil
			s.mu.Unlock()
			s.serve(httptest.NewRecorder(), r)
			if got, want := fmt.Sprint(s.met), "["+s.policyOf(route)+"]"; len(s.ran) > 0 && got != want {
				t.Errorf("%s: %s meets %s, want %s", s.name, path, got, want)
			}
		}
	}
}

// These requests once ran handlers without their policies.
func TestKnownWaysAround(t *testing.T) {
	for _, s := range sites(t) {
		for _, target := range []string{
			"POST /users//reset", "POST /t//login", "POST /users/%2F/reset", "CONNECT /t//login",
			"POST /verify/1/x/y", "POST /oauth/v1/a/", "POST /items/%73pecial",
			"POST /x/../orders", "POST /./orders", "POST //a%2Fb/c", "POST /static/../login",
			"POST /api%2Flogin", "POST /a/b%2Fc",
			"POST /login/", "POST /login//", "POST /login%2F", "POST /login.x", "POST /./login",
			"POST /files/x/%2e%2e/private/s.txt", "POST /files/x/../private/s.txt", "POST /files/private%2Fs.txt", "POST http://a.test//login",
		} {
			r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(target + " HTTP/1.1\r\nHost: a.test\r\n\r\n")))
			if err != nil {
				t.Fatal(err)
			}
			s.serve(httptest.NewRecorder(), r)
			if route, met, _ := s.missed(); route != "" {
				t.Errorf("%s: %s runs %s and meets %v, not %s, its policy", s.name, target, route, met, s.policyOf(route))
			}
		}
	}
}
