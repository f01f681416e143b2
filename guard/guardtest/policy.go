package guardtest

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
)

var policyCases = []testCase{
	{"several policies are one call, all of them charged or none", testAllOrNothing},
	{"a denial by several policies names them and tells the longest wait", testSeveralViolated},
	{"a shadow policy is observed, and the client cannot tell", testShadow},
	{"what only shadow policies limit has no limit headers", testShadowAlone},
	{"a shadow limit does not change the name of the limit that it shadows", testShadowName},
	{"a limit and its shadow are two", testShadowBeside},
	{"Skip exempts from its policy alone", testSkip},
	{"Cost charges so many units, and 0 lets through", testCost},
	{"Headroom leaves so many units for others", testHeadroom},
	{"of policies that are one limit the largest Headroom counts", testJoinedHeadroom},
	{"Share gives each tenant its share of a limit", testShare},
	{"a share follows its limit, whichever policies are one limit with that", testJoinedShare},
	{"a share that makes no sense answers 500, or panics", testWrongShare},
	{"the fallback shares this process's part of a limit among tenants", testShareFallback},
	{"a policy says what it counts, wherever it stands", testUnit},
	{"LimitFor gives each plan its limit, and none to who is not limited", testLimitFor},
}

func testAllOrNothing(t *testing.T, s *suite) {
	f := s.fixture(t)
	everyone := core.FixedWindow(2, time.Minute).Named("everyone")
	h := f.around(f.limited(
		guard.Policy{Limit: ten()},
		guard.Policy{Limit: everyone, By: keyfuncs.Global},
	))
	expect(t, "the first", get(h), `
200
Content-Type: text/plain; charset=utf-8
Ratelimit: "leaky:10:1/s";r=9;t=9, "everyone";r=1;t=60
Ratelimit-Policy: "leaky:10:1/s";q=1;w=1;weir-burst=10, "everyone";q=2;w=60

served
`)
	f.expectKeys("ip:203.0.113.9", "global")
	get(h)
	for range 2 { // the denial charges nothing, so it does not change
		expect(t, "denied", get(h), `
429
Cache-Control: no-store
Content-Type: application/problem+json
Ratelimit: "leaky:10:1/s";r=8;t=8, "everyone";r=0;t=60
Ratelimit-Policy: "leaky:10:1/s";q=1;w=1;weir-burst=10, "everyone";q=2;w=60
Retry-After: 60

`+quotaExceeded+`["everyone"]}
`)
	}
	f.expectAsked(4)
	f.expectRan(2)
	last := f.events[len(f.events)-1]
	if len(last.Outcomes) != 2 || !last.Outcomes[0].Decision.Allowed || last.Outcomes[1].Decision.Allowed || last.Status != http.StatusTooManyRequests || last.Err != nil {
		t.Errorf("observed %+v, want 429 because of the second policy", last)
	}
}

func testSeveralViolated(t *testing.T, s *suite) {
	f := s.fixture(t)
	h := f.around(f.limited(
		guard.Policy{Limit: core.FixedWindow(1, time.Hour).Named("hour")},
		guard.Policy{Limit: one(), By: keyfuncs.Global},
		guard.Policy{Limit: ten()},
	))
	get(h)
	expect(t, "denied by two of three", get(h), `
429
Cache-Control: no-store
Content-Type: application/problem+json
Ratelimit: "hour";r=0;t=3600, "one";r=0;t=60, "leaky:10:1/s";r=9;t=9
Ratelimit-Policy: "hour";q=1;w=3600, "one";q=1;w=60, "leaky:10:1/s";q=1;w=1;weir-burst=10
Retry-After: 3600

`+quotaExceeded+`["hour","one"]}
`)
}

func testShadow(t *testing.T, s *suite) {
	f := s.fixture(t)
	h := f.around(f.limited(
		guard.Policy{Limit: one(), Shadow: true},
		guard.Policy{Limit: core.FixedWindow(2, time.Minute).Named("two")},
	))
	for i, want := range []string{`
200
Content-Type: text/plain; charset=utf-8
Ratelimit: "two";r=1;t=60
Ratelimit-Policy: "two";q=2;w=60

served
`, `
200
Content-Type: text/plain; charset=utf-8
Ratelimit: "two";r=0;t=60
Ratelimit-Policy: "two";q=2;w=60

served
`, `
429
Cache-Control: no-store
Content-Type: application/problem+json
Ratelimit: "two";r=0;t=60
Ratelimit-Policy: "two";q=2;w=60
Retry-After: 60

` + quotaExceeded + `["two"]}
`} {
		expect(t, "with a shadow", get(h), want)
		outcomes := f.event().Outcomes
		if len(outcomes) != 2 || outcomes[0].Policy != "two" || outcomes[1].Policy != "one" || outcomes[0].Shadow || !outcomes[1].Shadow {
			t.Fatalf("observed %+v, want two and then the shadow one", outcomes)
		}
		if got, want := outcomes[1].Decision.Allowed, i == 0; got != want {
			t.Errorf("request %d: the shadow policy says %v, want %v", i+1, got, want)
		}
	}
	f.expectAsked(3)
	f.expectRan(2)
}

func testShadowAlone(t *testing.T, s *suite) {
	f := s.fixture(t)
	h := f.around(f.limited(guard.Policy{Limit: core.Shaping(1, core.PerMinute(1)), Shadow: true}))
	for _, allowed := range []bool{true, false, false} {
		expect(t, "in a shadow", get(h), "200\n"+served+"\nserved\n")
		if e := f.event(); e.Status != 0 || e.Outcomes[0].Decision.Allowed != allowed {
			t.Errorf("observed %+v, want allowed to be %v", e, allowed)
		}
	}
	f.expectRan(3)
}

func testShadowName(t *testing.T, s *suite) {
	f := s.fixture(t)
	tried := f.limited(guard.Policy{Limit: one(), Shadow: true})
	enforced := f.limited(guard.Policy{Limit: one()})
	for _, order := range [][]middleware{{tried, enforced}, {enforced, tried}} {
		r := answer(f.around(order...), ask(http.MethodGet, "/"))
		if got, want := r.Header.Get("Ratelimit-Policy"), `"one";q=1;w=60`; got != want {
			t.Errorf("RateLimit-Policy is %s, want %s", got, want)
		}
	}
}

func testShadowBeside(t *testing.T, s *suite) {
	f := s.fixture(t)
	h := f.around(f.limited(
		guard.Policy{Limit: one(), Shadow: true},
		guard.Policy{Limit: one()},
	))
	expect(t, "the first", get(h), `
200
Content-Type: text/plain; charset=utf-8
Ratelimit: "one";r=0;t=60
Ratelimit-Policy: "one";q=1;w=60

served
`)
	if got := f.store.calls[0]; len(got) != 2 || got[0].Shadow || !got[1].Shadow {
		t.Errorf("asked %+v, want the limit and then its shadow", got)
	}
	if got := f.event().Outcomes; len(got) != 2 || got[0].Policy != "one" || got[1].Policy != "one" {
		t.Errorf("observed %+v, want both under the name that was given", got)
	}
	expectStatus(t, "the second", h, ask(http.MethodGet, "/"), http.StatusTooManyRequests)

	f = s.fixture(t)
	nested := f.around(f.limited(guard.Policy{Limit: one(), Shadow: true}), f.limited(guard.Policy{Limit: one()}))
	get(nested)
	f.expectAsked(2)
	expectStatus(t, "the second", nested, ask(http.MethodGet, "/"), http.StatusTooManyRequests)
}

func testSkip(t *testing.T, s *suite) {
	f := s.fixture(t)
	health := func(r *http.Request) bool { return r.Header.Get("X-Health") != "" }
	h := f.around(f.limited(guard.Policy{Limit: one(), Skip: health}, guard.Policy{Limit: ten()}))
	for left := 9; left >= 7; left-- {
		want := []string{`"leaky:10:1/s";r=9;t=9`, `"leaky:10:1/s";r=8;t=8`, `"leaky:10:1/s";r=7;t=7`}[9-left]
		expect(t, "skips one of two", get(h, "X-Health: yes"), `
200
Content-Type: text/plain; charset=utf-8
Ratelimit: `+want+`
Ratelimit-Policy: "leaky:10:1/s";q=1;w=1;weir-burst=10

served
`)
	}
	expectStatus(t, "the first that does not skip", h, ask(http.MethodGet, "/"), http.StatusOK)
	expectStatus(t, "the second", h, ask(http.MethodGet, "/"), http.StatusTooManyRequests)

	f = s.fixture(t)
	unread := func(*http.Request) (string, error) { t.Error("the key of a skipped policy was read"); return "", nil }
	h = f.around(f.limited(guard.Policy{Limit: one(), Skip: health, By: unread}))
	expect(t, "skips all", get(h, "X-Health: yes"), "200\n"+served+"\nserved\n")
	f.expectAsked(0)
	if len(f.events) != 0 {
		t.Errorf("observed %+v, want nothing", f.events)
	}
}

func testCost(t *testing.T, s *suite) {
	f := s.fixture(t)
	cost := func(r *http.Request) int { return len(r.Header.Get("X-Size")) }
	h := f.around(f.limited(guard.Policy{Limit: ten(), Cost: cost}))
	for _, c := range []struct {
		size        int
		status      int
		limit, wait string
	}{
		{0, 200, "r=10;t=10", ""},
		{5, 200, "r=5;t=5", ""},
		{4, 200, "r=1;t=1", ""},
		{5, 429, "r=1;t=4", "4"},
		{0, 200, "r=1;t=1", ""},
		{1, 200, "r=0;t=1", ""},
		{0, 200, "r=0;t=1", ""},
	} {
		r := answer(h, ask(http.MethodGet, "/", "X-Size: "+strings.Repeat("x", c.size)))
		if got, want := r.Header.Get("Ratelimit"), `"leaky:10:1/s";`+c.limit; r.StatusCode != c.status || got != want || r.Header.Get("Retry-After") != c.wait {
			t.Errorf("cost %d: %d, RateLimit %s, Retry-After %q, want %d, %s, %q",
				c.size, r.StatusCode, got, r.Header.Get("Retry-After"), c.status, want, c.wait)
		}
		if got := f.event().Outcomes[0].Cost; got != c.size {
			t.Errorf("observed cost %d, want %d", got, c.size)
		}
	}
}

func testHeadroom(t *testing.T, s *suite) {
	f := s.fixture(t)
	size := func(name string) func(*http.Request) int {
		return func(r *http.Request) int { return len(r.Header.Get(name)) }
	}
	h := f.around(f.limited(guard.Policy{Limit: ten(), Cost: size("X-Cost"), Headroom: size("X-Headroom")}))
	for i, c := range []struct {
		cost, headroom, status int
		limit, wait            string
	}{
		{3, 7, 200, "r=7;t=7", ""},
		{1, 7, 429, "r=7;t=1", "1"},
		{2, 8, 429, "r=7;t=3", "3"},
		{0, 9, 200, "r=7;t=7", ""},
		{1, 10, 429, "r=7", ""},
		{6, 0, 200, "r=1;t=1", ""},
		{1, 1, 429, "r=1;t=1", "1"},
		{1, 0, 200, "r=0;t=1", ""},
	} {
		r := answer(h, ask(http.MethodGet, "/", "X-Cost: "+strings.Repeat("x", c.cost), "X-Headroom: "+strings.Repeat("x", c.headroom)))
		if got, want := r.Header.Get("Ratelimit"), `"leaky:10:1/s";`+c.limit; r.StatusCode != c.status || !strings.HasPrefix(got, want) || r.Header.Get("Retry-After") != c.wait {
			t.Errorf("request %d: %d, RateLimit %s, Retry-After %q, want %d, %s, %q", i, r.StatusCode, got, r.Header.Get("Retry-After"), c.status, want, c.wait)
		}
	}
}

func testJoinedHeadroom(t *testing.T, s *suite) {
	leaving := func(n int) guard.Policy {
		return guard.Policy{Limit: ten(), Headroom: func(*http.Request) int { return n }}
	}
	for _, policies := range [][]guard.Policy{
		{leaving(8), {Limit: ten()}}, {{Limit: ten()}, leaving(8)}, {leaving(8), leaving(3)}, {leaving(3), leaving(8)},
	} {
		f := s.fixture(t)
		h := f.around(f.limited(policies...))
		for i, want := range []int{200, 200, 429} {
			expectStatus(t, fmt.Sprintf("request %d", i), h, ask(http.MethodGet, "/"), want)
		}
	}
}

func testUnit(t *testing.T, s *suite) {
	f := s.fixture(t)
	tokens := guard.Policy{LimitFor: func(*http.Request) core.Limit { return core.FixedWindow(1000, time.Minute).Named("tokens") }, Unit: "tokens", Cost: cost(40)}
	h := f.serve(site{
		around: []middleware{f.limited(
			guard.Policy{Limit: ten()},
			guard.Policy{Limit: core.FixedWindow(100, time.Hour).Named("traffic"), Unit: "content-bytes", Cost: cost(7)},
		)},
		inside:  []middleware{f.limited(tokens, guard.Policy{Limit: core.FixedWindow(100, time.Hour).Named("traffic"), Unit: "forgotten", Cost: cost(7)})},
		handler: f.handle,
	})
	want := `Ratelimit-Policy: "leaky:10:1/s";q=1;w=1;weir-burst=10, "traffic";q=100;qu="content-bytes";w=3600, "tokens";q=1000;qu="tokens";w=60
`
	expect(t, "served", get(h), `
200
Content-Type: text/plain; charset=utf-8
Ratelimit: "leaky:10:1/s";r=9;t=9, "traffic";r=93;t=3600, "tokens";r=960;t=60
`+want+`
served
`)
	if o := f.events[1].Outcomes[0]; o.Unit != "tokens" || o.Cost != 40 {
		t.Errorf("observed %+v, want 40 tokens", o)
	}
	tokens.Cost = cost(1001)
	h = f.around(f.limited(tokens))
	if got := answer(h, ask(http.MethodGet, "/")); got.StatusCode != http.StatusTooManyRequests || got.Header.Get("RateLimit-Policy") != `"tokens";q=1000;qu="tokens";w=60` {
		t.Errorf("answered %d with %v, want 429 with the unit", got.StatusCode, got.Header)
	}
}

func cost(n int) func(*http.Request) int { return func(*http.Request) int { return n } }

func testLimitFor(t *testing.T, s *suite) {
	f := s.fixture(t)
	plans := map[string]core.Limit{
		"silver": core.FixedWindow(2, time.Minute).Named("plan"),
		"gold":   core.FixedWindow(5, time.Minute).Named("plan"),
		"staff":  core.Unlimited,
	}
	h := f.around(f.limited(guard.Policy{
		LimitFor: func(r *http.Request) core.Limit { return plans[r.Header.Get("X-Plan")] },
		By:       keyfuncs.Global,
	}))
	for _, want := range []string{"r=1", "r=0"} {
		expect(t, "silver", get(h, "X-Plan: silver"), `
200
Content-Type: text/plain; charset=utf-8
Ratelimit: "plan";`+want+`;t=60
Ratelimit-Policy: "plan";q=2;w=60

served
`)
	}
	expectStatus(t, "silver is used up", h, ask(http.MethodGet, "/", "X-Plan: silver"), http.StatusTooManyRequests)
	expect(t, "gold keeps what silver used", get(h, "X-Plan: gold"), `
200
Content-Type: text/plain; charset=utf-8
Ratelimit: "plan";r=2;t=60
Ratelimit-Policy: "plan";q=5;w=60

served
`)
	f.expectAsked(4)
	f.events = nil
	for range 10 {
		expect(t, "staff", get(h, "X-Plan: staff"), "200\n"+served+"\nserved\n")
	}
	f.expectAsked(4)
	if len(f.events) != 0 {
		t.Errorf("observed %+v, want nothing of who is not limited", f.events)
	}
}
