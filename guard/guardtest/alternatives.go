package guardtest

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
)

var alternativeCases = []testCase{
	{"the first alternative with room is charged and told, and no other", testFirstOf},
	{"of a limit that is guaranteed in parts the rest is borrowed, and it is told once", testGuarantee},
	{"an alternative that is skipped, unlimited or paid in front falls out", testAlternativesLeft},
	{"of alternatives that which was charged is settled", testAlternativeSettled},
	{"places are taken of the first alternative that has some", testAlternativePlaces},
	{"two groups of alternatives with one limit answer 500", testSameAlternative},
}

// monthly and credits are limits to be charged one after the other.
func monthly() core.Limit { return core.FixedWindow(2, time.Minute).Named("plan") }
func credits() core.Limit { return core.FixedWindow(1, time.Hour).Named("credits") }

func testFirstOf(t *testing.T, s *suite) {
	f := s.fixture(t)
	h := f.around(f.limited(append(guard.FirstOf(guard.Policy{Limit: monthly()}, guard.Policy{Limit: credits()}), guard.Policy{Limit: ten()})...))
	for i, want := range []struct {
		status                  int
		told, policy, violating string
	}{
		{200, `"plan";r=1;t=60, "leaky:10:1/s";r=9;t=9`, `"plan";q=2;w=60, `, ""},
		{200, `"plan";r=0;t=60, "leaky:10:1/s";r=8;t=8`, `"plan";q=2;w=60, `, ""},
		{200, `"credits";r=0;t=3600, "leaky:10:1/s";r=7;t=7`, `"credits";q=1;w=3600, `, ""},
		{429, `"plan";r=0;t=60, "leaky:10:1/s";r=7;t=7`, `"plan";q=2;w=60, `, `["plan"]`},
	} {
		r := answer(h, ask(http.MethodGet, "/"))
		if got := r.Header.Get("Ratelimit"); r.StatusCode != want.status || got != want.told || !strings.HasPrefix(r.Header.Get("Ratelimit-Policy"), want.policy) {
			t.Errorf("request %d: %d, %s, of %s: want %+v", i, r.StatusCode, got, r.Header.Get("Ratelimit-Policy"), want)
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		if body := string(body); !strings.Contains(body, want.violating) || want.status == 429 && r.Header.Get("Retry-After") != "60" {
			t.Errorf("request %d: %s, Retry-After %q: want %s", i, body, r.Header.Get("Retry-After"), want.violating)
		}
	}
	var counted []string
	for _, e := range f.events {
		if len(e.Outcomes) != 3 {
			t.Fatalf("observed %+v, want all alternatives", e.Outcomes)
		}
		for i := range e.Outcomes[:2] {
			if guard.Counts(e.Outcomes, i) {
				counted = append(counted, e.Outcomes[i].Policy)
			}
		}
	}
	if want := []string{"plan", "plan", "credits", "plan"}; !slices.Equal(counted, want) {
		t.Errorf("counted %v, want %v", counted, want)
	}
	f.expectAsked(4)
}

func testGuarantee(t *testing.T, s *suite) {
	f := s.fixture(t)
	shared, own := core.TokenBucket(5, core.PerHour(10)).Named("shared"), core.TokenBucket(2, core.PerHour(4)).Named("own")
	tenant := func(r *http.Request) (string, error) { return "tenant:" + r.Header.Get("X-Tenant"), nil }
	h := f.around(f.limited(append(guard.FirstOf(
		guard.Policy{Limit: own, By: tenant},
		guard.Policy{Limit: shared, By: keyfuncs.Global, Headroom: func(*http.Request) int { return 2 }},
	), guard.Policy{Limit: shared, By: keyfuncs.Global})...))
	for i, want := range []struct {
		tenant string
		status int
		told   string
	}{
		{"a", 200, `"own";r=1`},
		{"a", 200, `"own";r=0`},
		{"a", 200, `"shared";r=2`},
		{"a", 429, `"shared";r=2`},
		{"b", 200, `"own";r=1`},
		{"b", 200, `"own";r=0`},
		{"b", 429, `"own";r=0`},
	} {
		r := answer(h, ask(http.MethodGet, "/", "X-Tenant: "+want.tenant))
		told := r.Header.Get("Ratelimit")
		if r.StatusCode != want.status || !strings.HasPrefix(told, want.told) || strings.Count(told, `"shared`) != 1 {
			t.Errorf("request %d of %s: %d, %s, want %d, %s", i, want.tenant, r.StatusCode, told, want.status, want.told)
		}
	}
	f.expectAsked(7)
}

func testAlternativesLeft(t *testing.T, s *suite) {
	f := s.fixture(t)
	flag := func(name string) func(*http.Request) bool {
		return func(r *http.Request) bool { return r.Header.Get(name) != "" }
	}
	unlimitedFor := func(l core.Limit) func(*http.Request) core.Limit {
		return func(r *http.Request) core.Limit {
			if flag("X-Unlimited")(r) {
				return core.Unlimited
			}
			return l
		}
	}
	h := f.serve(site{
		around: []middleware{f.limited(guard.Policy{Limit: credits(), Skip: func(r *http.Request) bool { return !flag("X-Paid")(r) }})},
		inside: []middleware{f.limited(guard.FirstOf(
			guard.Policy{Limit: monthly(), Skip: flag("X-Skip")},
			guard.Policy{LimitFor: unlimitedFor(credits())},
		)...)},
		handler: f.handle,
	})
	for i, want := range []struct {
		header, told string
		status       int
	}{
		{"X-Paid: 1", `"credits";r=0;t=3600`, 200}, // and no plan
		{"X-None: 1", `"plan";r=1;t=60`, 200},      // the usual
		{"X-Skip: 1", `"credits";r=0;t=3600`, 429}, // the plan falls out
		{"X-None: 1", `"plan";r=0;t=60`, 200},      // and was not charged
		{"X-None: 1", `"plan";r=0;t=60`, 429},      // both are used up
		{"X-Unlimited: 1", ``, 200},                // and that is no matter
		{"X-Unlimited: 1\nX-Skip: 1", ``, 200},     // even if nothing is left to ask
	} {
		r := answer(h, ask(http.MethodGet, "/", strings.Split(want.header, "\n")...))
		if got := r.Header.Get("Ratelimit"); r.StatusCode != want.status || got != want.told {
			t.Errorf("request %d with %q: %d, %s, want %d, %s", i, want.header, r.StatusCode, got, want.status, want.told)
		}
	}
}

func testAlternativeSettled(t *testing.T, s *suite) {
	f := s.fixture(t)
	asked := 0
	settled := func(l core.Limit, spent int) guard.Policy {
		return guard.Policy{Limit: l, Cost: cost(4), Settle: guard.SettlePolicy{Cost: func(*http.Request, guard.Served) int { asked++; return spent }}}
	}
	first, second := core.FixedWindow(5, time.Hour).Named("first"), core.FixedWindow(10, time.Hour).Named("second")
	h := f.around(f.limited(guard.FirstOf(settled(first, 3), settled(second, 1))...))
	for i, want := range []string{`"first";r=1;t=3600`, `"second";r=6;t=3600`, `"second";r=5;t=3600`} {
		r := answer(h, ask(http.MethodGet, "/"))
		if got := r.Header.Get("Ratelimit"); got != want || asked != i+1 {
			t.Errorf("request %d: %s, and %d have been settled, want %s", i, got, asked, want)
		}
	}
}

func testAlternativePlaces(t *testing.T, s *suite) {
	f := s.fixture(t)
	provisioned, onDemand := core.Concurrent(1, time.Minute).Named("provisioned"), core.Concurrent(1, time.Minute).Named("on-demand")
	var told []string
	var h http.Handler
	depth := 0
	h = f.serve(site{
		around: []middleware{f.limited(guard.FirstOf(guard.Policy{Limit: provisioned}, guard.Policy{Limit: onDemand})...)},
		handler: func(w http.ResponseWriter, r *http.Request) {
			for i, o := range guard.OutcomesFrom(r.Context()) {
				if guard.Counts(guard.OutcomesFrom(r.Context()), i) {
					told = append(told, o.Policy)
				}
			}
			depth++
			if own := depth; own < 3 { // while this one holds its place
				if got, want := answer(h, ask(http.MethodGet, "/")).StatusCode, []int{0, 200, 429}[own]; got != want {
					t.Errorf("request %d: %d, want %d", own, got, want)
				}
			}
			w.WriteHeader(http.StatusOK)
		},
	})
	expectStatus(t, "the first", h, ask(http.MethodGet, "/"), http.StatusOK)
	if got := strings.Join(told, " "); got != "provisioned on-demand" {
		t.Errorf("%s were taken", got)
	}
	depth = 3
	for end := time.Now().Add(10 * time.Second); told[len(told)-1] != "provisioned"; time.Sleep(time.Millisecond) {
		if answer(h, ask(http.MethodGet, "/")); time.Now().After(end) { // places are given back in the background
			t.Fatalf("%v were taken", told)
		}
	}
}

func testSameAlternative(t *testing.T, s *suite) {
	f := s.fixture(t)
	h := f.around(f.limited(append(
		guard.FirstOf(guard.Policy{Limit: monthly()}, guard.Policy{Limit: credits()}),
		guard.FirstOf(guard.Policy{Limit: ten()}, guard.Policy{LimitFor: func(*http.Request) core.Limit { return credits() }})...)...))
	expectStatus(t, "two groups", h, ask(http.MethodGet, "/"), http.StatusInternalServerError)
}
