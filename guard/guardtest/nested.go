package guardtest

import (
	"net/http"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/headers"
	"github.com/weir-go/ratelimit/keyfuncs"
)

var nestedCases = []testCase{
	{"nested limiters add up to one list", testNestedList},
	{"nested limiters leave single values to the tightest", testNestedTightest},
	{"a limit met twice is charged and reported once", testMetTwice},
	{"a limit of the same numbers for another key is another one, with a name of its own", testDistinctNames},
	{"an outer denial leaves the inner limit alone", testOuterDenial},
	{"an inner denial is told with the outer limit", testInnerDenial},
	{"what an outer limiter has charged stays charged when an inner one denies", testInnerDenialStaysCharged},
	{"the policies of one limiter are all charged, or none", testPoliciesOfOneLimiter},
	{"an outer limiter that failed open leaves the inner one at work", testNestedFailOpen},
	{"an inner limiter that fails closed takes back what the outer one has told", testNestedFailClosed},
	{"a look that costs nothing does not stand in for the charge", testLookThenCharge},
	{"the same limit on two stores is two limits", testTwoStores},
	{"a policy has the same name in every response", testStableNames},
}

func testNestedList(t *testing.T, s *suite) {
	f := s.fixture(t)
	h := f.serve(site{
		around:  []middleware{f.limited(guard.Policy{Limit: ten()}), f.limited(guard.Policy{Limit: core.FixedWindow(100, time.Hour).Named("hour"), By: keyfuncs.Global})},
		inside:  []middleware{f.limited(guard.Policy{Limit: one(), By: keyfuncs.Route})},
		handler: f.handle,
	})
	expect(t, "three limiters", get(h), `
200
Content-Type: text/plain; charset=utf-8
Ratelimit: "leaky:10:1/s";r=9;t=9, "hour";r=99;t=3600, "one";r=0;t=60
Ratelimit-Policy: "leaky:10:1/s";q=1;w=1;weir-burst=10, "hour";q=100;w=3600, "one";q=1;w=60

served
`)
	f.expectAsked(3)
	if len(f.events) != 3 {
		t.Fatalf("%d events, want one for each limiter", len(f.events))
	}
	for i, want := range []string{"leaky:10:1/s", "hour", "one"} {
		if got := f.events[i].Outcomes; len(got) != 1 || got[0].Policy != want {
			t.Errorf("event %d tells %+v, want %s alone", i, got, want)
		}
	}
}

func testNestedTightest(t *testing.T, s *suite) {
	three := core.FixedWindow(3, time.Minute).Named("three")
	for _, order := range [][2]core.Limit{{ten(), three}, {three, ten()}} {
		f := s.fixture(t)
		options := guard.Options{Headers: headers.Legacy}
		h := f.serve(site{
			around:  []middleware{f.new(f.limiter, options, guard.Policy{Limit: order[0]})},
			inside:  []middleware{f.new(f.limiter, options, guard.Policy{Limit: order[1]})},
			handler: f.handle,
		})
		expect(t, "two limiters", get(h), `
200
Content-Type: text/plain; charset=utf-8
X-Ratelimit-Limit: 3
X-Ratelimit-Remaining: 2
X-Ratelimit-Reset: 60

served
`)
	}
}

func testMetTwice(t *testing.T, s *suite) {
	f := s.fixture(t)
	h := f.serve(site{
		around:  []middleware{f.limited(guard.Policy{Limit: ten()})},
		inside:  []middleware{f.limited(guard.Policy{Limit: ten()}), f.limited(guard.Policy{Limit: ten()}, guard.Policy{Limit: one()})},
		handler: f.handle,
	})
	want := `
200
Content-Type: text/plain; charset=utf-8
Ratelimit: "leaky:10:1/s";r=9;t=9, "one";r=0;t=60
Ratelimit-Policy: "leaky:10:1/s";q=1;w=1;weir-burst=10, "one";q=1;w=60

served
`
	expect(t, "three limiters, two limits", get(h), want)
	f.expectAsked(2)
	if len(f.events) != 2 {
		t.Errorf("%d events, want 2: %+v", len(f.events), f.events)
	}

	f = s.fixture(t)
	h = f.around(f.limited(guard.Policy{Limit: ten()}, guard.Policy{Limit: ten()}, guard.Policy{Limit: one()}))
	expect(t, "three policies, two limits", get(h), want)
	if got := f.store.calls[0]; len(got) != 2 {
		t.Errorf("asked %+v, want two checks", got)
	}

	f = s.fixture(t)
	silver, gold := core.FixedWindow(2, time.Minute).Named("plan"), core.FixedWindow(9, time.Minute).Named("plan")
	h = f.around(f.limited(guard.Policy{Limit: silver}), f.limited(guard.Policy{Limit: gold}))
	expect(t, "one name", get(h), `
200
Content-Type: text/plain; charset=utf-8
Ratelimit: "plan";r=1;t=60
Ratelimit-Policy: "plan";q=2;w=60

served
`)
}

func testDistinctNames(t *testing.T, s *suite) {
	f := s.fixture(t)
	h := f.serve(site{
		around: []middleware{f.limited(
			guard.Policy{Limit: ten()},
			guard.Policy{Limit: ten(), By: keyfuncs.Global},
		)},
		inside: []middleware{
			f.limited(guard.Policy{Limit: ten(), By: keyfuncs.Route}),
			f.limited(guard.Policy{Limit: core.FixedWindow(1, time.Minute).Named("LEAKY:10:1/S")}),
		},
		handler: f.handle,
	})
	expect(t, "four limits", get(h), `
200
Content-Type: text/plain; charset=utf-8
Ratelimit: "leaky:10:1/s";r=9;t=9, "leaky:10:1/s-2";r=9;t=9, "leaky:10:1/s-3";r=9;t=9, "LEAKY:10:1/S-4";r=0;t=60
Ratelimit-Policy: "leaky:10:1/s";q=1;w=1;weir-burst=10, "leaky:10:1/s-2";q=1;w=1;weir-burst=10, "leaky:10:1/s-3";q=1;w=1;weir-burst=10, "LEAKY:10:1/S-4";q=1;w=60

served
`)
}

func testOuterDenial(t *testing.T, s *suite) {
	f := s.fixture(t)
	h := f.serve(site{
		around:  []middleware{f.limited(guard.Policy{Limit: one()})},
		inside:  []middleware{f.limited(guard.Policy{Limit: ten()})},
		handler: f.handle,
	})
	get(h)
	expect(t, "the second", get(h), `
429
Cache-Control: no-store
Content-Type: application/problem+json
Ratelimit: "one";r=0;t=60
Ratelimit-Policy: "one";q=1;w=60
Retry-After: 60

`+quotaExceeded+`["one"]}
`)
	f.expectRan(1)
	f.expectAsked(3)
}

func testInnerDenial(t *testing.T, s *suite) {
	f := s.fixture(t)
	h := f.serve(site{
		around:  []middleware{f.limited(guard.Policy{Limit: ten()})},
		inside:  []middleware{f.limited(guard.Policy{Limit: one()})},
		handler: f.handle,
	})
	get(h)
	expect(t, "the second", get(h), `
429
Cache-Control: no-store
Content-Type: application/problem+json
Ratelimit: "leaky:10:1/s";r=8;t=8, "one";r=0;t=60
Ratelimit-Policy: "leaky:10:1/s";q=1;w=1;weir-burst=10, "one";q=1;w=60
Retry-After: 60

`+quotaExceeded+`["one"]}
`)
	f.expectRan(1)
	statuses := []int{f.events[0].Status, f.events[1].Status, f.events[2].Status, f.events[3].Status}
	if got := statuses; got[0]+got[1]+got[2] != 0 || got[3] != http.StatusTooManyRequests {
		t.Errorf("observed the statuses %v, want 0 0 0 429", got)
	}
}

func testInnerDenialStaysCharged(t *testing.T, s *suite) {
	f := s.fixture(t)
	outer := guard.Policy{Limit: hundred(), By: keyfuncs.Global}
	inner := guard.Policy{Limit: one(), By: keyfuncs.Global}
	h := f.serve(site{around: []middleware{f.limited(outer)}, inside: []middleware{f.limited(inner)}, handler: f.handle})
	for range 5 {
		get(h)
	}
	f.expectRan(1)
	f.expectUsed(one(), 1)
	f.expectUsed(hundred(), 5)

	f = s.fixture(t)
	outer.Settle.Cost = func(_ *http.Request, served guard.Served) int { // the way out, where they cannot be one
		if served.Status == http.StatusTooManyRequests {
			return 0
		}
		return served.Cost
	}
	h = f.serve(site{around: []middleware{f.limited(outer)}, inside: []middleware{f.limited(inner)}, handler: f.handle})
	for range 5 {
		get(h)
	}
	f.expectUsed(hundred(), 1)
}

func testPoliciesOfOneLimiter(t *testing.T, s *suite) {
	f := s.fixture(t)
	h := f.around(f.limited(
		guard.Policy{Limit: hundred(), By: keyfuncs.Global},
		guard.Policy{Limit: one(), By: keyfuncs.Global}))
	for range 5 {
		get(h)
	}
	f.expectRan(1)
	f.expectUsed(one(), 1)
	f.expectUsed(hundred(), 1)
}

func testNestedFailOpen(t *testing.T, s *suite) {
	f := s.fixture(t)
	down := core.New(&store{Store: f.store.Store, failure: errDown})
	h := f.around(
		f.new(down, f.options(), guard.Policy{Limit: one()}),
		f.limited(guard.Policy{Limit: one()}),
	)
	expect(t, "one of two is down", get(h), `
200
Content-Type: text/plain; charset=utf-8
Ratelimit: "one";r=0;t=60
Ratelimit-Policy: "one";q=1;w=60

served
`)
	expectStatus(t, "the second", h, ask(http.MethodGet, "/"), http.StatusTooManyRequests)
}

func testNestedFailClosed(t *testing.T, s *suite) {
	f := s.fixture(t)
	down := core.New(&store{Store: f.store.Store, failure: errDown})
	h := f.around(
		f.limited(guard.Policy{Limit: ten()}),
		f.new(down, guard.Options{OnError: guard.FailClosed, Observe: f.options().Observe}, guard.Policy{Limit: one()}),
	)
	r := answer(h, ask(http.MethodGet, "/"))
	r.Header.Set("Retry-After", "?")
	expect(t, "the inner store is down", text(r), unavailable)
}

func testLookThenCharge(t *testing.T, s *suite) {
	f := s.fixture(t)
	h := f.around(
		f.limited(guard.Policy{Limit: one(), Cost: func(*http.Request) int { return 0 }}),
		f.limited(guard.Policy{Limit: one()}),
	)
	expectStatus(t, "the first", h, ask(http.MethodGet, "/"), http.StatusOK)
	expectStatus(t, "the second", h, ask(http.MethodGet, "/"), http.StatusTooManyRequests)
	f.expectAsked(4)
}

func testTwoStores(t *testing.T, s *suite) {
	f, other := s.fixture(t), s.fixture(t)
	h := f.around(f.limited(guard.Policy{Limit: ten()}), other.limited(guard.Policy{Limit: ten()}))
	get(h)
	f.expectAsked(1)
	other.expectAsked(1)
}

func testStableNames(t *testing.T, s *suite) {
	f := s.fixture(t)
	h := f.around(f.limited(
		guard.Policy{Limit: ten(), Skip: func(r *http.Request) bool { return r.Header.Get("X-Health") != "" }},
		guard.Policy{Limit: ten(), By: keyfuncs.Global},
	))
	for _, line := range []string{"X-Other: yes", "X-Health: yes"} {
		get(h, line)
		outcomes := f.event().Outcomes
		if got, want := outcomes[len(outcomes)-1].Policy, "leaky:10:1/s-2"; got != want {
			t.Errorf("with %s, the second policy is %s, want %s", line, got, want)
		}
	}
}
