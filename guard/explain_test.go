package guard_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
	"github.com/weir-go/ratelimit/lists"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
)

// explained returns what is explained of a GET request.
func explained(t *testing.T, limiter *core.Limiter, options guard.Options, policies ...guard.Policy) guard.Event {
	t.Helper()
	h := guard.Must(guard.New(limiter, options, policies...))
	return h.Explain(httptest.NewRequest(http.MethodGet, "/", nil), nil)
}

// A preflight meets the policies that it meets in a server.
func TestExplainedPreflights(t *testing.T) {
	preflight := httptest.NewRequest(http.MethodOptions, "/", nil)
	preflight.Header.Set("Origin", "https://a.test")
	preflight.Header.Set("Access-Control-Request-Method", http.MethodPost)
	for _, c := range []struct {
		options  guard.Options
		outcomes int
		status   int
	}{
		{guard.Options{}, 2, 0},
		{guard.Options{ExemptPreflights: true}, 1, 0},
		{guard.Options{ExemptPreflights: true, Lists: guard.Lists{Deny: lists.Of("192.0.2.1")}}, 0, http.StatusForbidden},
	} {
		ban := guard.Policy{Ban: guard.BanPolicy{Ban: core.Ban{Strikes: core.SlidingLog(3, time.Minute), First: time.Minute}}, By: keyfuncs.RemoteIP}
		e := guard.Must(guard.New(memory(), c.options, perHour(5), ban)).Explain(preflight, nil)
		if len(e.Outcomes) != c.outcomes || e.Status != c.status {
			t.Errorf("%d outcomes and status %d, want %d and %d", len(e.Outcomes), e.Status, c.outcomes, c.status)
		}
	}
}

// What keeps a policy from being asked is told with the policies that it is about.
func TestExplainedErrors(t *testing.T) {
	negative := perHour(5)
	negative.Cost = costs(-1)
	e := explained(t, memory(), guard.Options{}, negative)
	if e.Err == nil || !strings.Contains(e.Err.Error(), "cost -1 is negative") || e.Status != http.StatusInternalServerError || len(e.Unanswered) != 1 || e.Unanswered[0].Policy != "hourly" {
		t.Errorf("a negative cost: %+v", e)
	}
	e = explained(t, core.New(down{}), guard.Options{}, perHour(5))
	if !errors.Is(e.Err, core.Unreachable) || len(e.Unanswered) != 1 || e.Unanswered[0].Policy != "hourly" {
		t.Errorf("a store that is down: %+v", e)
	}
}

// During a ban, nothing but the ban is told, as in a server.
func TestExplainedBan(t *testing.T) {
	limiter := memory()
	ban := core.Ban{
		Strikes: core.SlidingLog(1, time.Hour), First: time.Hour, Factor: 2, Longest: 24 * time.Hour, Forget: 48 * time.Hour,
	}.Named("banned")
	policies := []guard.Policy{perHour(5), {Ban: guard.BanPolicy{Ban: ban}, By: keyfuncs.Global}}
	for _, banned := range []bool{false, true} {
		e := explained(t, limiter, guard.Options{}, policies...)
		if got := e.Status == http.StatusForbidden && len(e.Outcomes) == 1; got != banned {
			t.Errorf("banned %v: status %d with %d outcomes", banned, e.Status, len(e.Outcomes))
		}
		key, _ := keyfuncs.Global(nil)
		if _, err := limiter.Strike(t.Context(), key, ban, 1); err != nil {
			t.Fatal(err)
		}
	}
}

// An Adaptive knows no policy.
func TestExplainedAdaptive(t *testing.T) {
	e := guard.Adaptive(func() int { return 1 }).Explain(httptest.NewRequest(http.MethodGet, "/", nil), nil)
	if e.Status != 0 || len(e.Outcomes) != 0 || e.Err != nil {
		t.Errorf("%+v", e)
	}
}

// Rules that fall back know the same of the store, also where others that do not stand before them.
func TestRulesFallBackTogetherBehindOthers(t *testing.T) {
	everywhere := guard.Policy{Limit: core.Leaky(3, core.PerDay(1)).Named("all"), By: keyfuncs.Global, OnError: guard.Fallback}
	set := &ruleSet{rules: guard.Rules{
		Policies: [][]guard.Policy{{everywhere}},
		Sets:     [][]int{nil, {0}, {0}},
		Choose:   func(r *http.Request, m keyfuncs.Matched) []int { return []int{1 + byPath(r, m)[0]} },
	}}
	handler := ratelimit.FromGuard(guard.Must(guard.Follow(core.New(down{}), guard.Options{}, set)))(fine)
	if passed := statuses(handler, 2, "/a")[200] + statuses(handler, 2, "/b")[200]; passed != 3 {
		t.Errorf("%d of 4 pass, want 3", passed)
	}
}
