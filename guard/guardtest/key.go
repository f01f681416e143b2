package guardtest

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
	"github.com/weir-go/ratelimit/policies"
)

var keyCases = []testCase{
	{"no header of the client's changes its address", testSpoofing},
	{"a request without a key has a bucket of its own, apart from its address", testNoKey},
	{"an address has one key in all its notations", testAddresses},
	{"a proxy that is trusted by name is believed", testTrustedProxy},
	{"the user is read from the framework's context", testUser},
	{"a value of the path can be a key, around the router and inside", testPathValue},
	{"a key function of the program finds the values of the path, around the router and inside", testPathValueOfTheProgram},
	{"whatever else a policy asks the program finds the values of the path", testPathValueForPolicies},
	{"a key function of the program that finds nothing is told to the log", testKeyFunctionFindsNothing},
	{"several functions are joined", testJoin},
}

func testSpoofing(t *testing.T, s *suite) {
	f := s.fixture(t)
	h := f.around(f.limited(guard.Policy{Limit: ten()}))
	for _, line := range []string{
		"X-Forwarded-For: 1.1.1.1", "X-Forwarded-For: 127.0.0.1", "X-Real-Ip: 1.1.1.2", "Forwarded: for=1.1.1.3", "True-Client-Ip: 1.1.1.4",
		"Cf-Connecting-Ip: 1.1.1.5", "X-Client-Ip: 1.1.1.6", "X-Cluster-Client-Ip: 1.1.1.7", "Fastly-Client-Ip: 1.1.1.8", "X-Appengine-Remote-Addr: 1.1.1.9",
	} {
		expectStatus(t, line, h, ask(http.MethodGet, "/", line), http.StatusOK)
		f.expectKeys("ip:203.0.113.9")
	}
	expectStatus(t, "the eleventh", h, ask(http.MethodGet, "/", "X-Forwarded-For: 1.1.1.10"), http.StatusTooManyRequests)
}

func testNoKey(t *testing.T, s *suite) {
	f := s.fixture(t)
	h := f.around(f.limited(
		guard.Policy{Limit: ten()},
		guard.Policy{Limit: ten(), By: keyfuncs.Header("X-Api-Key")},
		guard.Policy{Limit: core.GCRA(5, core.PerSecond(1)), By: func(*http.Request) (string, error) { return "", nil }},
	))
	expectStatus(t, "no key", h, ask(http.MethodGet, "/"), http.StatusOK)
	f.expectKeys("ip:203.0.113.9", "anonymous:203.0.113.9", "anonymous:203.0.113.9")
}

func testAddresses(t *testing.T, s *suite) {
	f := s.fixture(t)
	h := f.around(f.limited(guard.Policy{Limit: ten()}))
	for remote, want := range map[string]string{
		"203.0.113.9:1":                "ip:203.0.113.9",
		"[::ffff:203.0.113.9]:2":       "ip:203.0.113.9",
		"[2001:db8:0:1:2:3:4:5]:3":     "ip:2001:db8:0:1::/64",
		"[2001:db8:0:1:ffff::1%a b]:4": "ip:2001:db8:0:1::/64",
		"@":                            "ip:none",
		"":                             "ip:none",
	} {
		r := ask(http.MethodGet, "/")
		r.RemoteAddr = remote
		send(h, r)
		f.expectKeys(want)
	}
}

func testTrustedProxy(t *testing.T, s *suite) {
	f := s.fixture(t)
	by := keyfuncs.IP(keyfuncs.TrustedProxies("203.0.113.0/24"))
	h := f.around(f.meters["leaky"](f.limiter, 10, core.PerSecond(1), by))
	send(h, ask(http.MethodGet, "/", "X-Forwarded-For: 1.1.1.1, 198.51.100.7"))
	if got, want := f.store.calls[0][0].Key, "ip:198.51.100.7"; got != want {
		t.Errorf("key %q, want %q", got, want)
	}
}

func testUser(t *testing.T, s *suite) {
	s.needUser(t)
	for _, c := range []struct {
		user any
		want string
	}{
		{"ann", "user:ann"}, {42, "user:42"}, {nil, "anonymous:203.0.113.9"}, {"", "anonymous:203.0.113.9"},
	} {
		for _, place := range []string{"around", "inside"} {
			f := s.fixture(t)
			limiters := []middleware{f.limited(guard.Policy{Limit: ten(), By: s.user})}
			of := site{user: c.user, handler: f.handle}
			if place == "around" {
				of.around = limiters
			} else {
				of.inside = limiters
			}
			get(f.serve(of))
			f.expectKeys(c.want)
		}
	}
	f := s.fixture(t)
	h := f.serve(site{user: 4.2, around: []middleware{f.limited(guard.Policy{Limit: ten(), By: s.user})}, handler: f.handle})
	f.expectFault(h, "float64")
}

// needUser skips a test about the user that the framework's context has, if there is no such key.
func (s *suite) needUser(t *testing.T) {
	t.Helper()
	if s.user == nil {
		t.Skip("the adapter has no key of the framework's user")
	}
}

func testPathValue(t *testing.T, s *suite) {
	for path, want := range map[string]string{
		"/items/7":     "path:id=7",
		"/items/a%20b": "path:id=a b",
		"/items/a%7Cb": "path:id=a%7Cb",
		"/items/%37":   "path:id=7",
		"/":            "anonymous:203.0.113.9",
	} {
		for _, place := range s.routed() {
			f := s.fixture(t)
			h := place(f, f.limited(guard.Policy{Limit: ten(), By: keyfuncs.PathValue("id")}))
			expectStatus(t, path, h, ask(http.MethodGet, path), http.StatusOK)
			f.expectKeys(want)
		}
	}
}

// byItem is a key function as a program may write it.
func byItem(r *http.Request) (string, error) {
	if id := r.PathValue("id"); id != "" {
		return "item:" + id, nil
	}
	return "", keyfuncs.ErrNoKey
}

func testPathValueOfTheProgram(t *testing.T, s *suite) {
	item := func(r *http.Request) string { return r.PathValue("id") }
	for name, c := range map[string]struct {
		by      keyfuncs.Func
		key, no string
	}{
		"alone":           {byItem, "item:%s", "anonymous:203.0.113.9"},
		"joined":          {guard.PolicyFor(ten(), byItem).By, "item:%s", "anonymous:203.0.113.9"},
		"behind another":  {keyfuncs.Join(keyfuncs.Method, byItem), "method:GET|item:%s", "method:GET|anonymous:203.0.113.9"},
		"instead":         {keyfuncs.Or(keyfuncs.Header("X-Api-Key"), byItem, keyfuncs.RemoteIP), "item:%s", "ip:203.0.113.9"},
		"by user":         {keyfuncs.User(item), "user:%s", "anonymous:203.0.113.9"},
		"by user's value": {keyfuncs.User(func(r *http.Request) any { return r.PathValue("id") }), "user:%s", "anonymous:203.0.113.9"},
		"in layers":       {guard.Layers(guard.Policy{Limit: ten()}, guard.PolicyFor(one(), byItem))[1].By, "item:%s", "ip:203.0.113.9"},
	} {
		for path, id := range map[string]string{"/items/7": "7", "/items/a%20b": "a b", "/": ""} {
			for _, place := range s.routed() {
				f := s.fixture(t)
				h := place(f, f.limited(guard.Policy{Limit: ten(), By: c.by}))
				expectStatus(t, name+" "+path, h, ask(http.MethodGet, path), http.StatusOK)
				if id == "" {
					f.expectKeys(c.no)
				} else {
					f.expectKeys(fmt.Sprintf(c.key, id))
				}
			}
		}
	}
}

func testPathValueForPolicies(t *testing.T, s *suite) {
	plans := map[string]core.Limit{"7": ten()}
	seven := func(r *http.Request) int { return len(r.PathValue("id")) + 2 }
	for name, policy := range map[string]guard.Policy{
		"LimitFor": {LimitFor: func(r *http.Request) core.Limit { return plans[r.PathValue("id")] }, Cost: func(*http.Request) int { return 3 }},
		"Cost":     {Limit: ten(), Cost: seven},
		"Skip":     {Limit: ten(), Skip: func(r *http.Request) bool { return r.PathValue("id") != "7" }, Cost: func(*http.Request) int { return 3 }},
		"Settle":   {Limit: ten(), Settle: guard.SettlePolicy{Cost: func(r *http.Request, _ guard.Served) int { return seven(r) }}},
	} {
		for _, place := range s.routed() {
			f := s.fixture(t)
			h := place(f, f.limited(policy))
			expectStatus(t, name, h, ask(http.MethodGet, "/items/7"), http.StatusOK)
			if n := len(f.events); n == 0 || len(f.events[n-1].Outcomes) != 1 || f.events[n-1].Outcomes[0].Cost != 3 {
				t.Errorf("%s: %+v, want a cost of 3", name, f.events)
			}
		}
	}
	d, err := policies.Parse([]byte(`
plans: {by-item: {"7": "leaky 3, 1/h", "*": unlimited}}
policies: [{limit: by-item, key: (item or ip) and method, cost: item}]`))
	if err != nil {
		t.Fatal(err)
	}
	set, err := d.Set(policies.Options{
		Keys:  map[string]keyfuncs.Func{"item": byItem},
		Costs: map[string]func(*http.Request) int{"item": seven},
		Plan:  func(r *http.Request) string { return r.PathValue("id") },
	})
	if err != nil {
		t.Fatal(err)
	}
	f := s.fixture(t)
	h := s.routed()[0](f, f.use(guard.Must(guard.Follow(f.limiter, f.options(), set))))
	expectStatus(t, "by a file", h, ask(http.MethodGet, "/items/7"), http.StatusOK)
	f.expectKeys("item:7|method:GET")
	expectStatus(t, "by a file again", h, ask(http.MethodGet, "/items/7"), http.StatusTooManyRequests)
}

func testKeyFunctionFindsNothing(t *testing.T, s *suite) {
	var log strings.Builder
	f := s.fixture(t)
	options := f.options()
	options.Logger = slog.New(slog.NewTextHandler(&log, nil))
	h := f.around(f.new(f.limiter, options, guard.PolicyFor(core.Leaky(1000, core.PerSecond(1)), byItem)))
	for n := range 200 {
		if warned := strings.Count(log.String(), "has found no key"); warned != n/100 {
			t.Fatalf("%d warnings after %d requests: %s", warned, n, &log)
		}
		expectStatus(t, "a request without an item", h, ask(http.MethodGet, "/"), http.StatusOK)
	}
	if text := log.String(); !strings.Contains(text, "guardtest.byItem") || !strings.Contains(text, "key.go:") || !strings.Contains(text, "keyfuncs.PathValue") {
		t.Errorf("the warning says neither which function nor what to write: %s", text)
	}
}

func testJoin(t *testing.T, s *suite) {
	f := s.fixture(t)
	h := f.inside(f.windows["fixed-window"](f.limiter, 1, 60e9, keyfuncs.RemoteIP, keyfuncs.Route, keyfuncs.Method))
	expectStatus(t, "an item", h, ask(http.MethodGet, "/items/7"), http.StatusOK)
	expectStatus(t, "a file", h, ask(http.MethodGet, "/files/7"), http.StatusOK)
	expectStatus(t, "another item", h, ask(http.MethodHead, "/items/8"), http.StatusTooManyRequests)
	if got, want := f.store.calls[0][0].Key, "ip:203.0.113.9|route:/items/{id}|method:GET"; got != want {
		t.Errorf("key %q, want %q", got, want)
	}
}
