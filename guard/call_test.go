package guard

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
)

var (
	rate     = core.FixedWindow(10, time.Hour)
	exports  = core.Concurrent(2, time.Minute)
	ban      = core.Ban{Strikes: core.SlidingLog(5, time.Minute)}.Limit()
	bans     = kindOf(ban)
	settles2 = func(*http.Request, Served) int { return 2 }
	forgives = func(*http.Request, Served) int { return -5 }
)

// Two policies that are one limit are one check, which does what both want.
func TestOneLimitIsOneCheck(t *testing.T) {
	var c call
	c.add(core.Check{Key: "a", Limit: rate, Cost: 3, Headroom: 1}, terms{Name: "first", Mode: FailOpen, Settle: settles2})
	c.add(core.Check{Key: "b", Limit: rate, Cost: 1}, terms{Name: "other key"})
	c.add(core.Check{Key: "a", Limit: rate, Cost: 5, Headroom: 4, ReserveFor: time.Minute}, terms{Name: "second", Mode: Fallback})
	c.add(core.Check{Key: "a", Limit: ban, Mode: core.Condition}, terms{limitKind: bans, Settle: settles2, TellBan: true})
	c.add(core.Check{Key: "a", Limit: ban, Mode: core.OnDenial}, terms{limitKind: bans, Settle: settles2})
	if want := (core.Check{Key: "a", Limit: rate, Cost: 5, Headroom: 4}); len(c.Checks) != 3 || c.Checks[0] != want {
		t.Fatalf("the checks are %+v, want %+v first of three", c.Checks, want)
	}
	if own := c.Terms[0]; own.Name != "first" || own.Mode != Fallback || own.Settle(nil, Served{}) != 5 {
		t.Errorf("the policy that was first has the terms %+v", own)
	}
	if own := c.Terms[2]; c.Checks[2].Mode != core.OnDenial || own.TellBan || own.Settle(nil, Served{}) != 4 {
		t.Errorf("the bans are %+v with the terms %+v", c.Checks[2], own)
	}
}

// A response that one of two policies forgives by is forgiven, also if the other one counts it.
func TestOneOfTwoPoliciesForgives(t *testing.T) {
	for _, both := range [][]func(*http.Request, Served) int{{settles2, forgives}, {forgives, settles2}, {forgives, forgives}, {nil, forgives}} {
		var c call
		for _, settle := range both {
			c.add(core.Check{Key: "a", Limit: ban, Mode: core.Condition}, terms{limitKind: bans, Settle: settle})
		}
		if got := c.Terms[0].Settle(nil, Served{}); got != -5 {
			t.Errorf("the strikes are %d, want -5", got)
		}
	}
}

// eitherOf returns a call of two alternatives behind a check, each of which has a mode.
func eitherOf(first, second, third ErrorMode) call {
	var c call
	c.add(core.Check{Key: "a", Limit: rate}, terms{Mode: first})
	c.addAlternatives(call{
		Checks: []core.Check{{Key: "b", Limit: rate}, {Key: "c", Limit: exports}}, Terms: []terms{{Mode: second}, {limitKind: kindOf(exports), Mode: third}},
	})
	return c
}

// If one alternative was not answered, none was. They have one mode.
func TestAlternativesAreLostTogether(t *testing.T) {
	c := eitherOf(FailOpen, Fallback, FailClosed)
	lost, rest := c.part(&core.UnansweredError{Checks: []int{2}, Err: core.TimedOut})
	if len(lost.Checks) != 2 || lost.Checks[0].Key != "b" || len(rest.Checks) != 1 || rest.Checks[0].Key != "a" {
		t.Errorf("lost are %+v, and %+v is the rest", lost.Checks, rest.Checks)
	}
	if !lost.failsClosed() || lost.Terms[0].Mode != FailClosed || rest.failsClosed() {
		t.Errorf("lost are %+v, and the rest is %+v", lost.Terms, rest.Terms)
	}
	if all, none := c.part(core.TimedOut); len(all.Checks) != 3 || len(none.Checks) != 0 {
		t.Errorf("all that was lost is %+v, and the rest %+v", all.Checks, none.Checks)
	}
}

// An overloaded process decides by the mode for that, and by the stricter one if a server has failed, too.
func TestTheModeOfAnOverload(t *testing.T) {
	for _, test := range []struct {
		err  error
		want ErrorMode
	}{
		{core.Overloaded, FailOpen},
		{errors.Join(core.Overloaded, core.TimedOut), Fallback},
	} {
		c := eitherOf(Fallback, Fallback, Fallback)
		part, _ := c.part(test.err)
		c.overloaded(part, FailOpen, test.err)
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
	c.add(core.Check{Key: "a", Limit: rate}, terms{Mode: Fallback})
	c.add(core.Check{Key: "a", Limit: exports}, terms{limitKind: kindOf(exports), Mode: FailOpen})
	c.add(core.Check{Key: "a", Limit: ban, Mode: core.Condition}, terms{limitKind: bans, Mode: Fallback})
	if own := c.local(); len(own.Checks) != 1 || own.Checks[0].Limit != rate {
		t.Errorf("this process decides about %+v", own.Checks)
	}
}

// If a ban is in force, what the other limits say does not matter.
func TestABanInForceIsAllThatCounts(t *testing.T) {
	var c call
	c.add(core.Check{Key: "a", Limit: rate}, terms{})
	c.add(core.Check{Key: "a", Limit: ban, Mode: core.Condition}, terms{limitKind: bans})
	if own, decisions := c.onlyBans([]core.Decision{{Limit: rate}, {Limit: ban, Allowed: true}}); len(own.Checks) != 2 || len(decisions) != 2 {
		t.Errorf("without a ban %+v counts", own.Checks)
	}
	if own, decisions := c.onlyBans([]core.Decision{{Limit: rate}, {Limit: ban}}); len(own.Checks) != 1 || decisions[0].Limit != ban {
		t.Errorf("of a ban in force %+v counts", own.Checks)
	}
}

// A place that is free by now is denied to whoever came later, with all of its alternatives.
func TestAPlaceIsDenied(t *testing.T) {
	c := eitherOf(FailOpen, FailOpen, FailOpen)
	decisions := []core.Decision{{Limit: rate, Allowed: true}, {Limit: rate, Waived: true}, {Limit: exports, Allowed: true}}
	c.denyPlace(decisions, time.Second)
	if want := (core.Decision{Limit: exports, RetryAfter: time.Second, Estimated: true}); decisions[2] != want || !decisions[1].Waived {
		t.Errorf("the decisions are %+v, want %+v last", decisions, want)
	}
	if !c.lacksPlaces(decisions) || c.passed(decisions) {
		t.Errorf("%+v is not for the lack of places", decisions)
	}
}

// A limit that is both an alternative and a policy beside them is charged once.
func TestEachLimitIsChargedOnce(t *testing.T) {
	c := eitherOf(FailOpen, FailOpen, FailOpen)
	c.append(core.Check{Key: "b", Limit: rate}, terms{Name: "beside", Settle: settles2})
	if err := c.chargeOnce(false); err != nil || c.Checks[1].Mode != core.Condition || c.Terms[1].Name != "beside" || !c.remembered() {
		t.Errorf("the checks are %+v: %v", c.Checks, err)
	}
	c.addAlternatives(eitherOf(FailOpen, FailOpen, FailOpen))
	if err := c.chargeOnce(false); !errors.Is(err, errSameAlternative) {
		t.Errorf("two alternatives that are one limit: %v, want %v", err, errSameAlternative)
	}
}

// Where a client has chosen that it meets both, the limit is charged as the dearer one of the two says.
func TestALimitCostsWhatTheDearerPolicySays(t *testing.T) {
	c := eitherOf(FailOpen, FailOpen, FailOpen)
	c.Checks[1].Cost = 100
	c.append(core.Check{Key: "b", Limit: rate, Cost: 1}, terms{Name: "beside"})
	beside := len(c.Checks) - 1
	if err := c.chargeOnce(true); err != nil || c.Checks[1].Mode != core.Condition || c.Checks[beside].Cost != 100 {
		t.Errorf("the checks are %+v: %v", c.Checks, err)
	}
}
