package guardtest

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
)

var shadowCases = []testCase{
	{"a candidate is compared with what is enforced, in one round trip", testCandidate},
	{"a candidate that is the only limit is compared with none", testCandidateAlone},
	{"a shadow that could not be answered is no denial", testUnansweredShadow},
	{"limits come from a map that is swapped while requests run", testSwappedLimits},
	{"who is unlimited passes, and nothing is asked", testUnlimitedAsksNothing},
	{"a plan that is in no map is not unlimited", testUnknownPlan},
	{"a plan that changes in mid-flight keeps what was used", testPlanChange},
}

func testCandidate(t *testing.T, s *suite) {
	for name, test := range map[string]struct {
		candidate core.Limit
		want      guard.ComparisonCounts
	}{
		"stricter": {core.FixedWindow(2, time.Hour).Named("candidate"), guard.ComparisonCounts{BothAllow: 2, OnlyCandidateDenies: 2, BothDeny: 3}},
		"looser":   {core.FixedWindow(6, time.Hour).Named("candidate"), guard.ComparisonCounts{BothAllow: 4, OnlyEnforcedDenies: 2, BothDeny: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			f := s.fixture(t)
			var comparison guard.Comparison
			options := guard.Options{Observe: guard.Compare(&comparison, "candidate", f.options().Observe)}
			h := f.around(f.new(f.limiter, options,
				guard.Policy{Limit: core.FixedWindow(4, time.Hour)},
				guard.Policy{Limit: test.candidate, Shadow: true},
				guard.Policy{Limit: core.FixedWindow(1, time.Hour).Named("another"), Shadow: true}))
			for range 7 {
				get(h)
			}
			if got := comparison.Counts(); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
			f.expectAsked(7)
			f.expectRan(4)
			if len(f.events) != 7 {
				t.Errorf("%d events went on, want 7", len(f.events))
			}
		})
	}
}

func testCandidateAlone(t *testing.T, s *suite) {
	f := s.fixture(t)
	var comparison guard.Comparison
	options := guard.Options{Observe: guard.Compare(&comparison, "candidate", f.options().Observe)}
	h := f.around(f.new(f.limiter, options, guard.Policy{Limit: core.FixedWindow(2, time.Hour).Named("candidate"), Shadow: true}))
	for range 5 {
		get(h)
	}
	if got, want := comparison.Counts(), (guard.ComparisonCounts{BothAllow: 2, OnlyCandidateDenies: 3}); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	f.expectRan(5)
}

// shadeless answers all but shadow checks, as a cluster does with one server down.
type shadeless struct{ core.Store }

func (s *shadeless) Decide(ctx context.Context, calls []core.Call) (answered int, err error) {
	answered, err = s.Store.Decide(ctx, calls)
	for i, check := range calls[0].Checks {
		if check.Shadow {
			calls[0].Decisions[i] = core.Decision{Limit: check.Limit, Degraded: true}
		}
	}
	return answered, err
}

func testUnansweredShadow(t *testing.T, s *suite) {
	f := s.fixture(t)
	var comparison guard.Comparison
	options := guard.Options{Observe: guard.Compare(&comparison, "candidate", f.options().Observe)}
	h := f.around(f.new(core.New(&shadeless{f.store}), options,
		guard.Policy{Limit: one()}, guard.Policy{Limit: core.FixedWindow(1, time.Hour).Named("candidate"), Shadow: true}))
	get(h)
	if o := f.event().Outcomes; len(o) != 2 || o[0].Decision.Degraded || !o[1].Shadow || !o[1].Decision.Degraded {
		t.Errorf("observed %+v, want the shadow marked as degraded", o)
	}
	get(h)
	if got := comparison.Counts(); got != (guard.ComparisonCounts{}) {
		t.Errorf("%s, want nothing counted", got)
	}
	f.expectRan(1)
}

func testSwappedLimits(t *testing.T, s *suite) {
	f := s.fixture(t)
	f.limiter = core.New(core.NewMemory())
	var limits atomic.Pointer[map[string]core.Limit]
	plans := func(n int) *map[string]core.Limit {
		return &map[string]core.Limit{"free": core.FixedWindow(n, time.Hour).Named("plan")}
	}
	limits.Store(plans(60))
	h := f.serve(site{
		around: []middleware{f.new(f.limiter, guard.Options{}, guard.Policy{
			By:       keyfuncs.Global,
			LimitFor: func(*http.Request) core.Limit { return (*limits.Load())["free"] },
		})},
		handler: func(http.ResponseWriter, *http.Request) {},
	})
	var served atomic.Int64
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 50 {
				if answer(h, ask(http.MethodGet, "/")).StatusCode == http.StatusOK {
					served.Add(1)
				}
			}
		})
	}
	for range 100 { // maps that say the same: a request that has the former one is no late one
		limits.Store(plans(60))
	}
	group.Wait()
	use := func(want int64) {
		for answer(h, ask(http.MethodGet, "/")).StatusCode == http.StatusOK {
			served.Add(1)
		}
		if n := served.Load(); n != want {
			t.Errorf("%d were served, want %d", n, want)
		}
	}
	use(60)
	limits.Store(plans(80)) // the usage is kept
	use(80)
}

func testUnlimitedAsksNothing(t *testing.T, s *suite) {
	f := s.fixture(t)
	h := f.around(f.limited(
		guard.Policy{LimitFor: func(*http.Request) core.Limit { return core.Unlimited.Named("plan") }},
		guard.Policy{Limit: core.Unlimited},
	))
	for range 20 {
		get(h)
	}
	f.expectRan(20)
	f.expectAsked(0)
}

func testUnknownPlan(t *testing.T, s *suite) {
	f := s.fixture(t)
	plans := map[string]core.Limit{"free": ten()}
	h := f.around(f.limited(guard.Policy{LimitFor: func(*http.Request) core.Limit { return plans["Free"] }}))
	expectStatus(t, "a plan that is in no map", h, ask(http.MethodGet, "/"), http.StatusInternalServerError)
	f.expectRan(0)
	f.expectAsked(0)
	if err := f.events[0].Err; err == nil || !strings.Contains(err.Error(), "core.Unlimited") {
		t.Errorf("the error is %v, want one that says what to return", err)
	}
}

func testPlanChange(t *testing.T, s *suite) {
	f := s.fixture(t)
	plan := func(n int) core.Limit { return core.SlidingWindow(n, time.Hour).Named("plan") }
	limit := plan(10)
	var held func()
	h := f.serve(site{
		around: []middleware{f.limited(guard.Policy{
			By: keyfuncs.Global, LimitFor: func(*http.Request) core.Limit { return limit },
			Settle: guard.SettlePolicy{Cost: func(_ *http.Request, served guard.Served) int { return served.Cost - 1 }},
		})},
		handler: func(http.ResponseWriter, *http.Request) {
			if held != nil {
				held()
			}
		},
	})
	held = func() { // an upgrade while a request is being served
		held, limit = nil, plan(20)
	}
	get(h)
	f.expectUsed(plan(20), 0)
}
