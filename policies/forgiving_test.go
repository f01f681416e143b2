package policies

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
)

const forgivingLogin = `
bans:
  guessing: ban 3, 10m, first 10m, factor 2, longest 1d, forget 1d
policies:
  - {match: [POST /login, "POST /users/{id}/login"], ban: guessing, key: account, strike: {401: 1, 200: forgive}}
`

var account = Options{Keys: map[string]keyfuncs.Func{"account": func(*http.Request) (string, error) { return "account:bob", nil }}}

// app answers 200 where the password is right, and 401 elsewhere. The root answers all other paths with 200.
func app(logins ...string) *http.ServeMux {
	mux := http.NewServeMux()
	for _, login := range logins {
		mux.HandleFunc(login, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Password") != "right" {
				w.WriteHeader(http.StatusUnauthorized)
			}
		})
	}
	mux.HandleFunc("/", func(http.ResponseWriter, *http.Request) {})
	return mux
}

// Only the login that succeeds forgives what guesses at it have struck, and no other handler whose path may be read as that of the login.
func TestOnlyTheHandlerOfThePolicyForgives(t *testing.T) {
	logins := []string{"POST /login", "POST /users/{id}/login"}
	around := func(s *Set, h http.Handler) http.Handler {
		return ratelimit.FromPolicies(core.New(core.NewMemory()), s, ratelimit.Options{})(h)
	}
	copied := func(h http.Handler) http.Handler { // what a mux finds in a copy stays there
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), new(int), 1)))
		})
	}
	stripped := http.NewServeMux()
	stripped.Handle("/", http.StripPrefix("", copied(app(logins...))))
	for name, h := range map[string]http.Handler{
		"around a mux":                    app(logins...),
		"around a copy of the request":    copied(app(logins...)),
		"around a mux that hands all on":  stripped,
		"around one that looks at a path": http.HandlerFunc(app(logins...).ServeHTTP),
	} {
		for _, c := range []struct {
			path     string
			forgives bool
		}{
			{"/login", true},
			{"/%6cogin", true},
			{"/users/7/login", true},
			{"/users/a%2Fb/login", true},
			{"/login/", false},
			{"/login.html", false},
			{"/login%2F", false},
			{"/users/7/login/", false},
			{"/login.", false},
		} {
			served := around(setOf(t, forgivingLogin, account), h)
			ask := func(path, password string) int {
				w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, path, strings.NewReader(""))
				r.Header.Set("Password", password)
				served.ServeHTTP(w, r)
				return w.Code
			}
			ask("/login", "wrong")
			ask("/login", "wrong")
			if status := ask(c.path, "right"); status != http.StatusOK {
				t.Errorf("%s: POST %s: %d, want 200", name, c.path, status)
			}
			ask("/login", "wrong")
			if banned := ask("/login", "wrong") == http.StatusForbidden; banned == c.forgives {
				t.Errorf("%s: three guesses, and POST %s after the second: banned %t, want %t", name, c.path, banned, !c.forgives)
			}
		}
	}
}

// A policy without a match is about all handlers, so that each forgives.
func TestAPolicyOfAllPathsIsForgivenByAll(t *testing.T) {
	s := setOf(t, `
bans:
  guessing: ban 2, 10m, first 10m, factor 2, longest 1d, forget 1d
policies:
  - {ban: guessing, key: account, strike: {401: 1, 200: forgive}}
  - {match: /a, limit: "leaky 100, 100/s", key: global}
`, account)
	served := ratelimit.FromPolicies(core.New(core.NewMemory()), s, ratelimit.Options{})(app("POST /login"))
	for _, path := range []string{"/login", "/x/y/", "/login", "/a/", "/login"} {
		w := httptest.NewRecorder()
		served.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, nil))
		if w.Code == http.StatusForbidden {
			t.Fatalf("POST %s is banned", path)
		}
	}
}

// A framework tells the route of the whole path, so that its handler forgives however the path is written.
func TestAKnownRouteForgives(t *testing.T) {
	s := setOf(t, forgivingLogin, account)
	g, err := guard.Follow(core.New(core.NewMemory()), guard.Options{}, s)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(path string, m keyfuncs.Matched, status int) {
		v := g.Decide(httptest.NewRequest(http.MethodPost, path, nil), m)
		if v.Denial != nil {
			t.Fatalf("POST %s is denied", path)
		}
		v.Serve(httptest.NewRecorder(), func(w http.ResponseWriter, _ *http.Request) int {
			w.WriteHeader(status)
			return 0
		})
	}
	for range 5 {
		ask("/login", matched("/login"), http.StatusUnauthorized)
		ask("/login/", matched("/login"), http.StatusOK)
	}
}

// matched is a route of a framework.
type matched string

func (m matched) Route() string         { return string(m) }
func (matched) PathValue(string) string { return "" }
func (matched) WholePath() bool         { return true }

// What is given back by a status is not given back to a client that hangs up to get that status.
func TestHangingUpGivesNothingBack(t *testing.T) {
	s := setOf(t, `policies: [{match: /work, limit: "fixed-window 100, 1h", key: global, settle: {4xx: 0, 5xx: 0, 200: 2}}]`, Options{})
	for _, c := range []struct {
		status int // 0: the handler does not answer
		gone   bool
		used   int
	}{
		{502, false, 0},
		{404, false, 0},
		{200, false, 2},
		{302, false, 1},
		{0, false, 2},
		{502, true, 1},
		{404, true, 1},
		{499, true, 1},
		{200, true, 2},
		{302, true, 1},
		{0, true, 1},
	} {
		limiter := core.New(core.NewMemory())
		ctx, leave := context.WithCancel(t.Context())
		limited := ratelimit.FromPolicies(limiter, s, ratelimit.Options{})(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if c.gone {
				leave()
			}
			if c.status != 0 {
				w.WriteHeader(c.status)
			}
		}))
		r := httptest.NewRequest(http.MethodGet, "/work", nil)
		limited.ServeHTTP(httptest.NewRecorder(), r.WithContext(ctx))
		leave()
		key, _ := keyfuncs.Global(r)
		limit, _ := core.ParseLimit("fixed-window 100, 1h")
		d, err := limiter.Peek(t.Context(), key, limit)
		if used := 100 - d.Remaining; err != nil || used != c.used {
			t.Errorf("status %d, the client has gone %t: %d are used, %v, want %d", c.status, c.gone, used, err, c.used)
		}
	}
}

// A class of statuses is what handlers have answered. A client that leaves without an answer is not struck by it, unless the file says 499.
func TestHangingUpIsNoStrike(t *testing.T) {
	for strike, want := range map[string]bool{"{4xx: 1}": false, "{4xx: 1, 499: 1}": true} {
		s := setOf(t, `
bans:
  scanning: ban 2, 10m, first 10m, factor 2, longest 1d, forget 1d
policies:
  - {match: /work, ban: scanning, key: account, strike: `+strike+`}
`, account)
		hangUp := func() {}
		limited := ratelimit.FromPolicies(core.New(core.NewMemory()), s, ratelimit.Options{})(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hangUp() }))
		banned := false
		for range 3 {
			ctx, leave := context.WithCancel(t.Context())
			hangUp = leave
			w := httptest.NewRecorder()
			limited.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/work", nil).WithContext(ctx))
			banned = banned || w.Code == http.StatusForbidden
			leave()
		}
		if banned != want {
			t.Errorf("strike: %s: a client that hangs up three times is banned: %t, want %t", strike, banned, want)
		}
	}
}

// A path that may be read as those of two policies costs no less than the dearer one says, although an alternative of it is the limit of the other.
func TestAnotherReadingMakesNoAlternativeCheaper(t *testing.T) {
	const most = 11 // one of cheap, and ten of credits
	s := setOf(t, `
limits:
  cheap: fixed-window 100, 1h
  credits: fixed-window 1000, 1h
policies:
  - {match: /completions, key: global, cost: 100, firstOf: [{limit: cheap}, {limit: credits}]}
  - {match: /status/, limit: credits, key: global}
`, Options{})
	for _, path := range []string{"/completions", "/status/../completions"} {
		ran := 0
		limited := ratelimit.FromPolicies(core.New(core.NewMemory()), s, ratelimit.Options{})(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { ran++ }))
		for range 2 * most {
			limited.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, nil))
		}
		if ran > most || ran < most-1 {
			t.Errorf("GET %s runs %d times, want %d at most", path, ran, most)
		}
	}
}
