package policies

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
)

// setOf returns the set of a text that makes sense.
func setOf(tb testing.TB, text string, options Options) *Set {
	tb.Helper()
	d, err := Parse([]byte(text))
	if err != nil {
		tb.Fatal(err)
	}
	s, err := d.Set(options)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

var fine = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Fail") != "" {
		w.WriteHeader(http.StatusInternalServerError)
	}
})

// met returns the keys of the policies that a request has met, with what they cost.
func met(tb testing.TB, s *Set, r *http.Request) string {
	tb.Helper()
	var all []string
	options := guard.Options{Observe: func(e guard.Event) {
		for _, o := range e.Outcomes {
			text := fmt.Sprintf("%s %s %d", o.Policy, o.Key, o.Cost)
			if o.Shadow {
				text += " shadow"
			}
			all = append(all, text)
		}
	}}
	ratelimit.FromPolicies(core.New(core.NewMemory()), s, options)(fine).ServeHTTP(httptest.NewRecorder(), r)
	return strings.Join(all, ", ")
}

const matching = `
limits: {all: "leaky 9, 1/s", api: "leaky 8, 1/s", new: "leaky 7, 1/s", batch: "leaky 6, 1/s", two: "leaky 5, 1/s", host: "leaky 4, 1/s"}
policies:
  - {limit: all, key: ip}
  - {match: /api/, limit: api, key: global, cost: 2}
  - {match: POST /api/new, limit: new, key: global}
  - match: {pattern: POST /api/new, header: {X-Tier: batch}}
    limit: batch
    key: global
  - {match: POST /api/new, limit: two, key: method}
  - {match: a.test/, limit: host, key: global}
  - {match: GET /health, limit: unlimited}
  - match: {pattern: /only, header: {X-Tier: "*"}}
    limit: batch
    key: global
  - match: {pattern: /said, header: {X-Tier: True}}
    limit: batch
    key: global
`

func TestMostSpecificMatch(t *testing.T) {
	s := setOf(t, matching, Options{})
	const all = "all ip:192.0.2.1 1"
	for _, test := range []struct{ request, tier, want string }{
		{"GET /", "", all},
		{"GET /api/x", "", all + ", api global 2"},
		{"GET /api/new", "", all + ", api global 2"},
		{"POST /api/new", "", all + ", new global 1, two method:POST 1"},
		{"POST //api/new", "", all + ", new global 1, two method:POST 1"},
		{"POST /api/./new", "", all + ", api global 2, new global 1, two method:POST 1"},
		{"POST /%61pi/new", "", all + ", new global 1, two method:POST 1"},
		{"POST /api/new", "batch", all + ", batch global 1"},
		{"POST /api/new", "other", all + ", new global 1, two method:POST 1"},
		{"POST http://a.test/api/new", "", all + ", host global 1"},
		{"GET http://A.test:81/", "", all + ", host global 1"},
		{"GET /health", "", all},
		{"GET /only", "", all},
		{"GET /said", "True", all + ", batch global 1"},
		{"GET /only", "x", all + ", batch global 1"},
	} {
		method, target, _ := strings.Cut(test.request, " ")
		r := httptest.NewRequest(method, target, nil)
		if test.tier != "" {
			r.Header.Set("X-Tier", test.tier)
		}
		if got := met(t, s, r); got != test.want {
			t.Errorf("%s of tier %q: %s, want %s", test.request, test.tier, got, test.want)
		}
	}
}

// A field counts by its name in any letters and by its first line, and an empty one is none. A value is more specific than any value.
func TestHeaderFieldsOfAMatch(t *testing.T) {
	d := &Document{Policies: []Policy{
		{Limit: "leaky 9, 1/s", Key: "global", Match: []Match{{Pattern: "/", Header: map[string]string{"x-tier": "*"}}}},
		{Limit: "leaky 8, 1/s", Key: "global", Match: []Match{{Pattern: "/", Header: map[string]string{"X-Tier": "batch"}}}},
	}}
	s, err := d.Set(Options{})
	if err != nil {
		t.Fatal(err)
	}
	for value, want := range map[string]string{"": "", "x": "leaky:9:1/s global 1", "batch": "leaky:8:1/s global 1"} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("X-Tier", value)
		if got := met(t, s, r); got != want {
			t.Errorf("%q: %s, want %s", value, got, want)
		}
	}
	for want, lines := range map[string][]string{"": {"", "batch"}, "leaky:9:1/s global 1": {"x", "batch"}, "leaky:8:1/s global 1": {"batch", "x"}} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header["X-Tier"] = lines
		if got := met(t, s, r); got != want {
			t.Errorf("lines %q: %s, want %q, that of the first", lines, got, want)
		}
	}
}

// A program's functions are those that the file names.
func TestNamesOfTheProgram(t *testing.T) {
	const text = `
plans: {requests: {free: "leaky 1, 1/h", staff: unlimited, "*": "leaky 2, 1/h"}}
policies:
  - {limit: requests, key: user or ip, cost: units, settle: real}
`
	header := func(name string) func(*http.Request) string {
		return func(r *http.Request) string { return r.Header.Get(name) }
	}
	options := Options{
		Keys:   map[string]keyfuncs.Func{"user": keyfuncs.User(header("User"))},
		Costs:  map[string]func(*http.Request) int{"units": func(*http.Request) int { return 1 }},
		Settle: map[string]func(*http.Request, guard.Served) int{"real": func(*http.Request, guard.Served) int { return 0 }},
		Plan:   header("Plan"),
	}
	d, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	for lacking, want := range map[string]string{
		"Keys": `line 4, column 28: key "user or ip": "user" is no key that is known here: want ip, header, bearer, cookie, path, host, method, route, global,` +
			` or a name that the program gives a function to; the program gives functions to []`,
		"Plan":   `line 4, column 13: the program does not say which plan a request is of: give Options.Plan to the set`,
		"Costs":  `line 4, column 46: the program has no function that is called "units": give one in Options.Costs to the set`,
		"Settle": `line 4, column 61: the program has no function that is called "real": give one in Options.Settle to the set`,
	} {
		some := options
		reflect.ValueOf(&some).Elem().FieldByName(lacking).SetZero()
		if _, err := d.Set(some); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	s := setOf(t, text, options)
	limiter := core.New(core.NewMemory())
	h := ratelimit.FromPolicies(limiter, s, guard.Options{})(fine)
	for plan, want := range map[string]int{"free": 1, "staff": math, "other": 2, "": 2} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Plan", plan)
		r.Header.Set("User", "of "+plan)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if got := w.Header().Get("RateLimit"); want == math && got != "" || want != math && !strings.Contains(got, fmt.Sprintf(`"requests";r=%d`, want-1)) {
			t.Errorf("plan %q: %q", plan, got)
		}
	}
}

const math = 1 << 30

func TestSettleAndStrikeByStatus(t *testing.T) {
	s := setOf(t, `
limits: {a: "leaky 10, 1/h"}
bans: {b: "ban 2, 1h, first 1h, factor 2, longest 1d, forget 2d"}
policies:
  - {limit: a, key: global, cost: 3, settle: {5xx: 1}}
  - {match: /fail, ban: b, key: ip, strike: {500: 1}}
`, Options{})
	limiter := core.New(core.NewMemory())
	h := ratelimit.FromPolicies(limiter, s, guard.Options{})(fine)
	var codes []int
	for _, path := range []string{"/", "/fail", "/fail", "/fail"} {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.RemoteAddr = "203.0.113.9:1"
		if path == "/fail" {
			r.Header.Set("Fail", "yes")
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		codes = append(codes, w.Code)
	}
	if got := fmt.Sprint(codes); got != "[200 500 500 403]" {
		t.Errorf("statuses %s", got)
	}
	d, err := limiter.Peek(t.Context(), "global", s.Document().Limits["a"])
	if err != nil || d.Remaining != 10-3-1-1 {
		t.Errorf("%d remain (%v), want 5", d.Remaining, err)
	}
}

// A share of the keys is the same in every process, about as large as it says, and grows without losing a key.
func TestEnforcedShare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed, key := rapid.String().Draw(t, "seed"), rapid.String().Draw(t, "key")
		less, more := rapid.Float64Range(0, 100).Draw(t, "less"), rapid.Float64Range(0, 100).Draw(t, "more")
		if less > more {
			less, more = more, less
		}
		if inShare(seed, key, less) && !inShare(seed, key, more) {
			t.Errorf("in %v%%, not in %v%%", less, more)
		}
		if !inShare(seed, key, 100) {
			t.Error("not in 100%")
		}
	})
	in := 0
	for i := range 10_000 {
		if inShare("a", fmt.Sprint("user:", i), 25) {
			in++
		}
	}
	if in < 2300 || in > 2700 {
		t.Errorf("%d of 10000 keys are in 25%%", in)
	}
	s := setOf(t, `policies: [{limit: "leaky 1, 1/h", key: header X-Key, enforced: 50%}]`, Options{})
	limiter := core.New(core.NewMemory())
	h := ratelimit.FromPolicies(limiter, s, guard.Options{})(fine)
	denied := 0
	for i := range 200 {
		for n := range 2 {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.Header.Set("X-Key", strconv.Itoa(i))
			key, _ := keyfuncs.Header("X-Key")(r)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			enforced := inShare("leaky 1, 1/h", key, 50)
			if want := n == 1 && enforced; (w.Code == http.StatusTooManyRequests) != want {
				t.Fatalf("request %d of key %d, enforced %v: status %d", n, i, enforced, w.Code)
			}
			if w.Code == http.StatusTooManyRequests {
				denied++
			}
		}
	}
	if denied < 60 || denied > 140 {
		t.Errorf("%d of 200 keys are denied", denied)
	}
}

func TestAlternatives(t *testing.T) {
	s := setOf(t, `
limits: {plan: "leaky 1, 1/h", credits: "leaky 2, 1/h"}
policies:
  - key: global
    cost: 1
    firstOf: [{limit: plan}, {limit: credits, key: ip}]
`, Options{})
	h := ratelimit.FromPolicies(core.New(core.NewMemory()), s, guard.Options{})(fine)
	var codes []int
	for range 4 {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		codes = append(codes, w.Code)
	}
	if got := fmt.Sprint(codes); got != "[200 200 200 429]" {
		t.Errorf("statuses %s", got)
	}
}

// numbered returns a document of two policies whose numbers say which one it is.
func numbered(n int) string {
	return fmt.Sprintf("limits: {a: 'leaky %d, 1/h', b: 'leaky %d, 1/h'}\npolicies: [{limit: a, key: global, cost: 0}, {limit: b, key: global, cost: 0}]\n", n, n)
}

// Every request sees one set, while sets replace each other, and what makes no sense never does.
func TestEveryRequestSeesOneSet(t *testing.T) {
	var text atomic.Value
	text.Store(numbered(1))
	s := setOf(t, numbered(1), Options{})
	var mixed, requests atomic.Int64
	seen := new(sync.Map)
	h := ratelimit.FromPolicies(core.New(core.NewMemory()), s, guard.Options{Observe: func(e guard.Event) {
		requests.Add(1)
		if len(e.Outcomes) != 2 || e.Outcomes[0].Decision.Limit.Capacity() != e.Outcomes[1].Decision.Limit.Capacity() {
			mixed.Add(1)
		}
		seen.Store(e.Outcomes[0].Decision.Limit.Capacity(), true)
	}})(fine)
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
				}
			}
		})
	}
	for n := range 200 {
		if err := s.swapText([]byte(numbered(n + 1))); err != nil {
			t.Error(err)
		}
		if err := s.swapText([]byte(numbered(0))); err == nil {
			t.Error("a capacity of 0 is taken")
		}
	}
	close(done)
	wg.Wait()
	if mixed.Load() > 0 || requests.Load() == 0 {
		t.Errorf("%d of %d requests saw two sets", mixed.Load(), requests.Load())
	}
	for capacity := range maps.Collect(seen.Range) {
		if n := capacity.(int); n < 1 || n > 200 {
			t.Errorf("a capacity of %d was in force", n)
		}
	}
}

// A follower whose options do not go with a set keeps it from being replaced, for all.
func TestReplacedEverywhereOrNowhere(t *testing.T) {
	const before = "policies: [{limit: 'leaky 1, 1/h', key: global}]"
	s := setOf(t, before, Options{})
	limiter := core.New(core.NewMemory())
	one := ratelimit.FromPolicies(limiter, s, guard.Options{})(fine)
	two := ratelimit.FromPolicies(limiter, s, guard.Options{Lists: guard.Lists{Deny: denyNobody{}}})(fine)
	expect := func(name string, h http.Handler, want int) {
		t.Helper()
		if code := ask(h, "").Code; code != want {
			t.Errorf("%s: status %d, want %d", name, code, want)
		}
	}
	err := s.swapText([]byte("lists: {deny: [192.0.2.1]}\n" + before))
	if err == nil || !strings.Contains(err.Error(), "both the rules and Options.Lists have lists") {
		t.Errorf("%v", err)
	}
	if len(s.Document().Lists.Deny) != 0 {
		t.Error("it is replaced")
	}
	expect("one, by the old set", one, http.StatusOK)
	if err := s.swapText([]byte("policies: [{limit: 'leaky 2, 1/h', key: global}]")); err != nil {
		t.Fatal(err)
	}
	expect("two, by the new set", two, http.StatusOK)
	expect("one, by the new set", one, http.StatusOK)
	expect("one, by what is left of the new set", one, http.StatusTooManyRequests)
}

type denyNobody struct{}

func (denyNobody) Has(netip.Addr, string) bool { return false }
func (denyNobody) Keys() int                   { return 0 }

// A named limit keeps what was used when its numbers change.
func TestNamedLimitsKeepWhatWasUsed(t *testing.T) {
	s := setOf(t, "limits: {a: 'fixed-window 10, 1h'}\npolicies: [{limit: a, key: global, cost: 7}]", Options{})
	limiter := core.New(core.NewMemory())
	h := ratelimit.FromPolicies(limiter, s, guard.Options{})(fine)
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
	if err := s.swapText([]byte("limits: {a: 'fixed-window 20, 1h'}\npolicies: [{limit: a, key: global, cost: 1}]")); err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	if got := w.Header().Get("RateLimit"); !strings.HasPrefix(got, `"a";r=12`) {
		t.Errorf("%s, want 12 of 20 left", got)
	}
}

// Where a router takes capitals for small letters, so do the patterns, if the program says so.
func TestPatternsInAnyCase(t *testing.T) {
	const text = "limits: {guesses: 'leaky 9, 1/s'}\npolicies:\n  - {match: POST /Login, limit: guesses, key: global}\n"
	for path, want := range map[string][2]string{
		"/Login": {"guesses global 1", "guesses global 1"}, "/login": {"", "guesses global 1"}, "/%4cOGIN/": {"", "guesses global 1"}, "/logins": {"", ""},
	} {
		for i, anyCase := range []bool{false, true} {
			r := httptest.NewRequest(http.MethodPost, path, nil)
			if got := met(t, setOf(t, text, Options{AnyCase: anyCase}), r); got != want[i] {
				t.Errorf("%s meets %q if AnyCase is %v, want %q", path, got, anyCase, want[i])
			}
		}
	}
}
