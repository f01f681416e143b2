package routertest

import (
	"context"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/policies"
)

// routes are those of the sites, as a policy writes them. Below /files/ there is a handler that cleans what it is given, as file servers do.
var routes = []string{
	"/login", "/orders", "/orders/new", "/users/{id}/reset", "/t/{tenant}/login", "/api/login", "/a/b/c", "/static/app.js",
	"/verify/{code}", "/oauth/v1/{app}", "/items/{id}", "/items/special", "/files/{path...}",
}

// private is what the handler below /files/ has to itself.
const private = "/files/private/"

// site is a handler with a limiter, and remembers which routes have run and which policies were met.
type site struct {
	name     string
	options  guard.Options
	set      *policies.Set
	limiter  *core.Limiter
	patterns map[string]string // of the policy of a route, where it is not the route itself
	handler  http.Handler
	limited  []string // the routes that have policies

	mu       sync.Mutex
	ran, met []string
}

// newSite returns a site with a policy for each route. The policies of some routes may be written in another way.
func newSite(t *testing.T, name string, limited []string, patterns map[string]string) *site {
	t.Helper()
	s := &site{name: name, patterns: patterns, limiter: core.New(core.NewMemory()), limited: limited}
	s.options.Observe = func(e guard.Event) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, o := range e.Outcomes {
			s.met = append(s.met, o.Policy)
		}
	}
	var limits, all strings.Builder
	for i, route := range append(slices.Clone(limited), "/") {
		fmt.Fprintf(&limits, "  p%d: fixed-window 1000000000, 1d\n", i)
		fmt.Fprintf(&all, "  - {match: %q, limit: p%d, key: global}\n", s.pattern(route), i)
	}
	document, err := policies.Parse([]byte("limits:\n" + limits.String() + "policies:\n" + all.String()))
	if err != nil {
		t.Fatal(err)
	}
	if s.set, err = document.Set(); err != nil {
		t.Fatal(err)
	}
	return s
}

// pattern returns the pattern of the policy of a route.
func (s *site) pattern(route string) string {
	if pattern := s.patterns[route]; pattern != "" {
		return pattern
	}
	return route
}

// policyOf returns the name of the policy of a route.
func (s *site) policyOf(route string) string { return fmt.Sprint("p", slices.Index(s.limited, route)) }

// run remembers that the handler of a route has run.
func (s *site) run(route string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ran = append(s.ran, route)
}

// runBelowFiles is the handler of files, which looks at the rest of the path by itself.
func (s *site) runBelowFiles(rest string) {
	if name := path.Clean("/" + rest); strings.HasPrefix(name+"/", strings.TrimPrefix(private, "/files")) {
		s.run(private)
	} else {
		s.run("/files/{path...}")
	}
}

// handlerOf returns the handler of a route. The function tells the rest of the path below /files/, as the router has found it.
func (s *site) handlerOf(route string, rest func(*http.Request) string) http.Handler {
	return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if route == "/files/{path...}" {
			s.runBelowFiles(rest(r))
		} else {
			s.run(route)
		}
	})
}

// missed returns a route that has run since the last call without its policy, or "".
func (s *site) missed() (route string, met []string, ran bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() { s.ran, s.met = s.ran[:0], s.met[:0] }()
	for _, route := range s.ran {
		if !slices.Contains(s.met, s.policyOf(route)) {
			return route, slices.Clone(s.met), true
		}
	}
	return "", nil, len(s.ran) > 0
}

// colons returns a route in the syntax of gin and echo.
func colons(route, rest string) string {
	segments := strings.Split(route, "/")
	for i, segment := range segments {
		if name, found := strings.CutPrefix(segment, "{"); found {
			if segments[i] = ":" + strings.TrimSuffix(name, "}"); strings.HasSuffix(segment, "...}") {
				segments[i] = rest
			}
		}
	}
	return strings.Join(segments, "/")
}

// serve serves a request in this process. What a router or a handler panics with is not the limiter's.
func (s *site) serve(w http.ResponseWriter, r *http.Request) {
	defer func() { _ = recover() }()
	s.handler.ServeHTTP(w, r.WithContext(context.Background()))
}
