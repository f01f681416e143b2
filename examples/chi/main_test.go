package main

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"go.uber.org/goleak"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/keyfuncs"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func memory() *core.Limiter { return core.New(core.NewMemory()) }

func ok(http.ResponseWriter, *http.Request) {}

func send(h http.Handler, method, path, user string) *httptest.ResponseRecorder {
	r, w := httptest.NewRequest(method, path, nil), httptest.NewRecorder()
	if user != "" {
		r.SetBasicAuth(user, "secret")
	}
	h.ServeHTTP(w, r)
	return w
}

func TestLimits(t *testing.T) {
	now := time.Now()
	router := newRouter(core.New(core.NewMemory(core.WithClock(func() time.Time { return now }))))
	for _, route := range []struct {
		method, path, user, body, after string
		allowed                         int
	}{
		{http.MethodGet, "/items/7", "", "item 7\n", "1", 10},
		{http.MethodGet, "/users/7", "", "user 7\n", "1", 10},
		{http.MethodPost, "/orders", "alice", "thank you, alice\n", "20", 3},
		{http.MethodPost, "/orders", "bob", "thank you, bob\n", "20", 3},
	} {
		for i := range route.allowed {
			if w := send(router, route.method, route.path, route.user); w.Code != http.StatusOK || w.Body.String() != route.body {
				t.Errorf("request %d of %s to %s: %d %q", i+1, route.user, route.path, w.Code, w.Body)
			}
		}
		if w := send(router, route.method, route.path, route.user); w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != route.after {
			t.Errorf("one more of %s to %s: %d %q %v", route.user, route.path, w.Code, w.Body, w.Header())
		}
	}
	if w := send(router, http.MethodPost, "/orders", "mallory"); w.Code != http.StatusUnauthorized {
		t.Errorf("a user that there is not: %d %q", w.Code, w.Body)
	}
}

// site is a router with a limiter somewhere in it, by the pattern that it has for the
// requests that it lets through.
var sites = map[string]struct {
	build  func(limit ratelimit.Middleware) http.Handler
	routes []string // of GET /api/items/7, GET /api/users/7 and GET /nowhere
	warned string   // what the log says, or "" if it says nothing
}{
	"With": {func(limit ratelimit.Middleware) http.Handler {
		r := chi.NewRouter()
		r.With(limit).Get("/api/items/{id}", ok)
		r.With(limit).Get("/api/users/{id}", ok)
		return r
	}, []string{"/api/items/{id}", "/api/users/{id}"}, ""},
	"Group": {func(limit ratelimit.Middleware) http.Handler {
		r := chi.NewRouter()
		r.Group(func(r chi.Router) {
			r.Use(limit)
			r.Get("/api/items/{id}", ok)
			r.Get("/api/users/{id}", ok)
		})
		return r
	}, []string{"/api/items/{id}", "/api/users/{id}"}, ""},
	"With, of a router within another": {func(limit ratelimit.Middleware) http.Handler {
		r := chi.NewRouter()
		r.Route("/api", func(r chi.Router) {
			r.With(limit).Get("/items/{id}", ok)
			r.With(limit).Get("/users/{id}", ok)
		})
		return r
	}, []string{"/api/items/{id}", "/api/users/{id}"}, ""},
	"Use": {func(limit ratelimit.Middleware) http.Handler {
		r := chi.NewRouter()
		r.Use(limit)
		r.Get("/api/items/{id}", ok)
		r.Get("/api/users/{id}", ok)
		return r
	}, []string{"(unmatched)", "(unmatched)", "(unmatched)"}, "asked=(unmatched) found=/api/items/{id}"},
	"Use, in front of other middleware": {func(limit ratelimit.Middleware) http.Handler {
		r := chi.NewRouter()
		r.Use(limit, middleware.Recoverer, middleware.CleanPath)
		r.Get("/api/items/{id}", ok)
		r.Get("/api/users/{id}", ok)
		return r
	}, []string{"(unmatched)", "(unmatched)", "(unmatched)"}, "asked=(unmatched) found=/api/items/{id}"},
	"Use, in front of middleware that copies the request": {func(limit ratelimit.Middleware) http.Handler {
		r := chi.NewRouter()
		r.Use(limit, middleware.RequestID)
		r.Get("/api/items/{id}", ok)
		r.Get("/api/users/{id}", ok)
		return r
	}, []string{"(unmatched)", "(unmatched)", "(unmatched)"}, "no router has told it one"},
	"Use, of a router within another": {func(limit ratelimit.Middleware) http.Handler {
		r := chi.NewRouter()
		r.Route("/api", func(r chi.Router) {
			r.Use(limit)
			r.Get("/items/{id}", ok)
			r.Get("/users/{id}", ok)
		})
		return r
	}, []string{"/api/*", "/api/*"}, "asked=/api/* found=/api/items/{id}"},
	"around the router": {func(limit ratelimit.Middleware) http.Handler {
		r := chi.NewRouter()
		r.Get("/api/items/{id}", ok)
		r.Get("/api/users/{id}", ok)
		return limit(r)
	}, []string{"(unmatched)", "(unmatched)", "(unmatched)"}, "no router has told it one"},
}

// A limit by route works where chi knows the route, and elsewhere the log says so, once.
func TestALimitByRouteNeedsChisRoute(t *testing.T) {
	for name, site := range sites {
		t.Run(name, func(t *testing.T) {
			var routes []string
			var log bytes.Buffer
			limit := ratelimit.New(memory(), ratelimit.Options{
				Logger: slog.New(slog.NewTextHandler(&log, nil)),
				Observe: func(e ratelimit.Event) {
					routes = append(routes, strings.TrimPrefix(e.Outcomes[0].Key, "ip:192.0.2.1|route:"))
				},
			}, ratelimit.Policy{Limit: core.Leaky(1000, core.PerSecond(1)), By: keyfuncs.Join(keyfuncs.RemoteIP, keyfuncs.Route)})
			h := site.build(limit)
			for range 40 {
				routes = nil
				for _, path := range []string{"/api/items/7", "/api/users/7", "/nowhere"} {
					send(h, http.MethodGet, path, "")
				}
				if !slices.Equal(routes, site.routes) {
					t.Fatalf("routes %q, want %q", routes, site.routes)
				}
			}
			switch lines := strings.Count(log.String(), "\n"); {
			case site.warned == "" && lines > 0:
				t.Errorf("logged %s, want nothing", &log)
			case site.warned != "" && (lines != 1 || !strings.Contains(log.String(), site.warned) || !strings.Contains(log.String(), "r.With(limit).Get(...)")):
				t.Errorf("logged %q, want one line with %q", log.String(), site.warned)
			}
		})
	}
}
