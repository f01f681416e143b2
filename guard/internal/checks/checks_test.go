package checks_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard/internal/checks"
)

// call is a call about requests whose cost is a number.
type call = checks.Call[int]

type terms = checks.Terms[int]

// settling returns what a policy settles, or the cost that is reserved.
func settling(settle func(*http.Request, int) int, cost int) func(*http.Request, int) int {
	if settle == nil {
		return func(*http.Request, int) int { return cost }
	}
	return settle
}

var (
	rate     = core.FixedWindow(10, time.Hour)
	exports  = core.Concurrent(2, time.Minute)
	ban      = core.Ban{Strikes: core.SlidingLog(5, time.Minute)}.Limit()
	bans     = checks.KindOf(ban)
	settles2 = func(*http.Request, int) int { return 2 }
	forgives = func(*http.Request, int) int { return -5 }
)

// Two policies that are one limit are one check, which does what both want.
func TestOneLimitIsOneCheck(t *testing.T) {
	var c call
	c.Add(core.Check{Key: "a", Limit: rate, Cost: 3, Headroom: 1}, terms{Name: "first", Mode: checks.FailOpen, Settle: settles2}, settling)
	c.Add(core.Check{Key: "b", Limit: rate, Cost: 1}, terms{Name: "other key"}, settling)
	c.Add(core.Check{Key: "a", Limit: rate, Cost: 5, Headroom: 4, ReserveFor: time.Minute}, terms{Name: "second", Mode: checks.Fallback}, settling)
	c.Add(core.Check{Key: "a", Limit: ban, Mode: core.Condition}, terms{Kind: bans, Settle: settles2, TellBan: true}, settling)
	c.Add(core.Check{Key: "a", Limit: ban, Mode: core.OnDenial}, terms{Kind: bans, Settle: settles2}, settling)
	if want := (core.Check{Key: "a", Limit: rate, Cost: 5, Headroom: 4}); len(c.Checks) != 3 || c.Checks[0] != want {
		t.Fatalf("the checks are %+v, want %+v first of three", c.Checks, want)
	}
	if own := c.Terms[0]; own.Name != "first" || own.Mode != checks.Fallback || own.Settle(nil, 0) != 5 {
		t.Errorf("the policy that was first has the terms %+v", own)
	}
	if own := c.Terms[2]; c.Checks[2].Mode != core.OnDenial || own.TellBan || own.Settle(nil, 0) != 4 {
		t.Errorf("the bans are %+v with the terms %+v", c.Checks[2], own)
	}
}

// A response that one of two policies forgives by is forgiven, also if the other one counts it.
func TestOneOfTwoPoliciesForgives(t *testing.T) {
	for _, both := range [][]func(*http.Request, int) int{{settles2, forgives}, {forgives, settles2}, {forgives, forgives}, {nil, forgives}} {
		var c call
		for _, settle := range both {
			c.Add(core.Check{Key: "a", Limit: ban, Mode: core.Condition}, terms{Kind: bans, Settle: settle}, settling)
		}
		if got := c.Terms[0].Settle(nil, 0); got != -5 {
			t.Errorf("the strikes are %d, want -5", got)
		}
	}
}

// alternatives returns a call of two alternatives behind a check, each of which has a mode.
func alternatives(first, second, third checks.Mode) call {
	var c call
	c.Add(core.Check{Key: "a", Limit: rate}, terms{Mode: first}, settling)
	c.AddAlternatives(call{
		Checks: []core.Check{{Key: "b", Limit: rate}, {Key: "c", Limit: exports}}, Terms: []terms{{Mode: second}, {Kind: checks.KindOf(exports), Mode: third}},
	}, settling)
	return c
}

// If one alternative was not answered, none was. They have one mode.
func TestAlternativesAreLostTogether(t *testing.T) {
	c := alternatives(checks.FailOpen, checks.Fallback, checks.FailClosed)
	lost, rest := c.Part(&core.UnansweredError{Checks: []int{2}, Err: core.TimedOut})
	if len(lost.Checks) != 2 || lost.Checks[0].Key != "b" || len(rest.Checks) != 1 || rest.Checks[0].Key != "a" {
		t.Errorf("lost are %+v, and %+v is the rest", lost.Checks, rest.Checks)
	}
	if !lost.FailsClosed() || lost.Terms[0].Mode != checks.FailClosed || rest.FailsClosed() {
		t.Errorf("lost are %+v, and the rest is %+v", lost.Terms, rest.Terms)
	}
	if all, none := c.Part(core.TimedOut); len(all.Checks) != 3 || len(none.Checks) != 0 {
		t.Errorf("all that was lost is %+v, and the rest %+v", all.Checks, none.Checks)
	}
}

// An overloaded process decides by the mode for that, and by the stricter one if a server has failed, too.
func TestTheModeOfAnOverload(t *testing.T) {
	for _, test := range []struct {
		err  error
		want checks.Mode
	}{
		{core.Overloaded, checks.FailOpen},
		{errors.Join(core.Overloaded, core.TimedOut), checks.Fallback},
	} {
		c := alternatives(checks.Fallback, checks.Fallback, checks.Fallback)
		part, _ := c.Part(test.err)
		c.Overloaded(part, checks.FailOpen, test.err)
		for i := range c.Terms {
			if c.Terms[i].Mode != test.want {
				t.Errorf("after %v policy %d has the mode %d, want %d", test.err, i, c.Terms[i].Mode, test.want)
			}
		}
	}
}

// This process decides about what its policies say, and about no ban.
func TestWhatThisProcessDecides(t *testing.T) {
	var c call
	c.Add(core.Check{Key: "a", Limit: rate}, terms{Mode: checks.Fallback}, settling)
	c.Add(core.Check{Key: "a", Limit: exports}, terms{Kind: checks.KindOf(exports), Mode: checks.FailOpen}, settling)
	c.Add(core.Check{Key: "a", Limit: ban, Mode: core.Condition}, terms{Kind: bans, Mode: checks.Fallback}, settling)
	if own := c.Local(); len(own.Checks) != 1 || own.Checks[0].Limit != rate {
		t.Errorf("this process decides about %+v", own.Checks)
	}
}

// If a ban is in force, what the other limits say does not matter.
func TestABanInForceIsAllThatCounts(t *testing.T) {
	var c call
	c.Add(core.Check{Key: "a", Limit: rate}, terms{}, settling)
	c.Add(core.Check{Key: "a", Limit: ban, Mode: core.Condition}, terms{Kind: bans}, settling)
	if own, decisions := c.OnlyBans([]core.Decision{{Limit: rate}, {Limit: ban, Allowed: true}}); len(own.Checks) != 2 || len(decisions) != 2 {
		t.Errorf("without a ban %+v counts", own.Checks)
	}
	if own, decisions := c.OnlyBans([]core.Decision{{Limit: rate}, {Limit: ban}}); len(own.Checks) != 1 || decisions[0].Limit != ban {
		t.Errorf("of a ban in force %+v counts", own.Checks)
	}
}

// A place that is free by now is denied to whoever came later, with all of its alternatives.
func TestAPlaceIsDenied(t *testing.T) {
	c := alternatives(checks.FailOpen, checks.FailOpen, checks.FailOpen)
	decisions := []core.Decision{{Limit: rate, Allowed: true}, {Limit: rate, Waived: true}, {Limit: exports, Allowed: true}}
	c.DenyPlace(decisions, time.Second)
	if want := (core.Decision{Limit: exports, RetryAfter: time.Second, Estimated: true}); decisions[2] != want || !decisions[1].Waived {
		t.Errorf("the decisions are %+v, want %+v last", decisions, want)
	}
	if !c.LacksPlaces(decisions) || c.Passed(decisions) {
		t.Errorf("%+v is not for the lack of places", decisions)
	}
}

// A limit that is both an alternative and a policy beside them is charged once.
func TestEachLimitIsChargedOnce(t *testing.T) {
	c := alternatives(checks.FailOpen, checks.FailOpen, checks.FailOpen)
	c.Append(core.Check{Key: "b", Limit: rate}, terms{Name: "beside", Settle: settles2})
	if err := c.ChargeOnce(settling, false); err != nil || c.Checks[1].Mode != core.Condition || c.Terms[1].Name != "beside" || !c.Reserves() {
		t.Errorf("the checks are %+v: %v", c.Checks, err)
	}
	c.AddAlternatives(alternatives(checks.FailOpen, checks.FailOpen, checks.FailOpen), settling)
	if err := c.ChargeOnce(settling, false); !errors.Is(err, checks.ErrSameAlternative) {
		t.Errorf("two alternatives that are one limit: %v, want %v", err, checks.ErrSameAlternative)
	}
}

// Where a client has chosen that it meets both, the limit is charged as the dearer one of the two says.
func TestALimitCostsWhatTheDearerPolicySays(t *testing.T) {
	c := alternatives(checks.FailOpen, checks.FailOpen, checks.FailOpen)
	c.Checks[1].Cost = 100
	c.Append(core.Check{Key: "b", Limit: rate, Cost: 1}, terms{Name: "beside"})
	beside := len(c.Checks) - 1
	if err := c.ChargeOnce(settling, true); err != nil || c.Checks[1].Mode != core.Condition || c.Checks[beside].Cost != 100 {
		t.Errorf("the checks are %+v: %v", c.Checks, err)
	}
}
