package guardtest

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
)

// shared is a policy of a limit that tenants share, which a header names. Another one has their weights.
func shared() guard.Policy {
	return guard.Policy{
		Limit: core.Leaky(12, core.PerHour(12)).Named("all"), By: keyfuncs.Global, Share: keyfuncs.Header("X-Tenant"),
		Weight: func(r *http.Request) int {
			if weight, err := strconv.Atoi(r.Header.Get("X-Weight")); err == nil {
				return weight
			}
			return 1
		},
	}
}

// askAs asks as a tenant.
func askAs(h http.Handler, tenant string, lines ...string) *http.Response {
	return answer(h, ask(http.MethodGet, "/", append(lines, "X-Tenant: "+tenant)...))
}

func testShare(t *testing.T, s *suite) {
	f := s.fixture(t)
	h := f.around(f.limited(guard.Policy{Limit: core.Leaky(100, core.PerSecond(1))}, shared()))
	for i, c := range []struct {
		tenant, weight string
		status         int
		limit, wait    string
	}{
		{"a", "", 200, `"all";r=11;t=3300, "all-share";r=10;t=3000`, ""},
		{"a", "", 200, `"all";r=10;t=3000, "all-share";r=8;t=2400`, ""},
		{"b", "", 200, `"all";r=9;t=2700, "all-share";r=8;t=2400`, ""},
		{"a", "5", 200, `"all";r=8;t=2400, "all-share";r=8;t=2400`, ""},
		{"a", "", 200, `"all";r=7;t=2100, "all-share";r=3;t=900`, ""},
		{"a", "", 200, `"all";r=6;t=1800, "all-share";r=1;t=300`, ""},
		{"a", "", 200, `"all";r=5;t=1500, "all-share";r=0;t=324`, ""},
		{"a", "", 429, `"all";r=5, "all-share";r=0;t=324`, "324"},
		{"b", "", 200, `"all";r=4;t=1200, "all-share";r=2;t=600`, ""},
		{"c", "", 200, `"all";r=3;t=900, "all-share";r=2;t=600`, ""},
	} {
		lines := []string{"X-Irrelevant: x"}
		if c.weight != "" {
			lines = append(lines, "X-Weight: "+c.weight)
		}
		r := askAs(h, c.tenant, lines...)
		_, got, _ := strings.Cut(r.Header.Get("Ratelimit"), ", ")
		if r.StatusCode != c.status || !strings.HasPrefix(got, c.limit) || c.wait != "" && r.Header.Get("Retry-After") != c.wait {
			t.Errorf("request %d: %d, RateLimit %s, Retry-After %q, want %d, %s, %q", i, r.StatusCode, got, r.Header.Get("Retry-After"), c.status, c.limit, c.wait)
		}
	}
	if o := f.events[0].Outcomes; len(o) != 3 || o[2].Policy != "all-share" || o[2].Key != "global" {
		t.Errorf("observed %+v", o)
	}
}

func testJoinedShare(t *testing.T, s *suite) {
	shared := func() guard.Policy {
		p := shared()
		p.Limit = core.Leaky(12, core.PerHour(12))
		return p
	}
	dear := shared()
	dear.Share, dear.Weight, dear.Cost = nil, nil, cost(3)
	settled := shared()
	settled.Cost, settled.Settle.Cost = cost(5), func(*http.Request, guard.Served) int { return 3 }
	dearest := shared()
	dearest.Cost = cost(3)
	shadow := shared()
	shadow.Shadow, shadow.Cost = true, cost(3)
	for name, policies := range map[string][]guard.Policy{
		"dearer behind": {shared(), dear}, "dearer in front": {dear, shared()}, "settled": {settled}, "twice": {dear, shared(), shared()},
		"a shadow": {shadow}, "another policy behind": {dearest, {Limit: core.Leaky(100, core.PerSecond(1))}},
	} {
		f := s.fixture(t)
		h := f.around(f.limited(policies...))
		for i, want := range []int{200, 200, 429} {
			if name == "a shadow" {
				want = 200
			}
			if r := askAs(h, "a"); r.StatusCode != want {
				t.Errorf("%s: request %d is answered with %d, want %d", name, i, r.StatusCode, want)
			}
		}
		if r := askAs(h, "b"); name != "settled" && r.StatusCode != http.StatusOK {
			t.Errorf("%s: another tenant is answered with %d", name, r.StatusCode)
		}
	}
}

func testWrongShare(t *testing.T, s *suite) {
	f := s.fixture(t)
	h := f.around(f.limited(shared()))
	for _, weight := range []string{"0", "-1", "1001"} {
		if r := askAs(h, "a", "X-Weight: "+weight); r.StatusCode != http.StatusInternalServerError {
			t.Errorf("a weight of %s is answered with %d, want 500", weight, r.StatusCode)
		}
	}
	window, alone, either := shared(), shared(), shared()
	either.Limit = core.Leaky(12, core.PerHour(12))
	window.Limit, alone.Share = core.FixedWindow(10, time.Minute), nil
	for name, policies := range map[string][]guard.Policy{
		"of a window": {window}, "a weight alone": {alone}, "an alternative": guard.FirstOf(either, guard.Policy{Limit: ten()}),
	} {
		func() {
			defer func() {
				if reason := fmt.Sprint(recover()); !strings.Contains(reason, "Share") {
					t.Errorf("%s: %s", name, reason)
				}
			}()
			f.limited(policies...)
		}()
	}
}

func testShareFallback(t *testing.T, s *suite) {
	f := s.fixture(t)
	options := f.options()
	options.OnError, options.Replicas = guard.Fallback, 2
	settled := shared()
	settled.Cost, settled.Settle.Cost = cost(2), func(*http.Request, guard.Served) int { return 1 }
	h := f.around(f.new(f.limiter, options, settledFirst([]guard.Policy{settled})...))
	for i, want := range []int{200, 200, 200, 200, 429, 200, 429} {
		f.store.failure = nil
		if i > 1 { // this process decides by its part of 6, of which 1 is used
			f.store.failure = errDown
		}
		tenant := "a"
		if i > 4 {
			tenant = "b"
		}
		if r := askAs(h, tenant); r.StatusCode != want {
			t.Errorf("request %d is answered with %d, want %d", i, r.StatusCode, want)
		}
	}
}
