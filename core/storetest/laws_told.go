package storetest

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-go/ratelimit/core"
)

// look returns the check that asks for the numbers of another one.
func look(c core.Check) core.Check {
	return core.Check{Key: c.Key, Limit: c.Limit, Shadow: c.Shadow, Mode: core.Look}
}

// settleNow settles in the store itself, so that a settlement may have a Decision.
func (s *stand) settleNow(t rapid.TB, settlements ...core.Settlement) {
	t.Helper()
	if err := s.store.Settle(tContext(t), settlements); err != nil {
		t.Fatalf("Settle: %v", err)
	}
}

// drawPlan draws a limit, or a named one and the numbers to which it changes.
func drawPlan(t *rapid.T, algorithm string) []core.Quota {
	if rapid.Bool().Draw(t, "named") {
		return drawVersions(t, algorithm)
	}
	return []core.Quota{drawLimit(t, algorithm)}
}

// drawSettlements charges some keys, and returns settlements of that, refunds, charges and raises. Several
// may be about one state, and checks that were charged together share a settlement.
func (s *stand) drawSettlements(t *rapid.T, keys []string, plan []core.Quota) []core.Settlement {
	var drawn []core.Settlement
	for range rapid.IntRange(1, 4).Draw(t, "settlements") {
		check := core.Check{
			Key: rapid.SampledFrom(keys).Draw(t, "key"), Limit: rapid.SampledFrom(plan).Draw(t, "limit"),
			Shadow: rapid.IntRange(0, 3).Draw(t, "shadow") == 0,
		}
		if rapid.Bool().Draw(t, "of no charge") {
			check.Mode = core.Look
			one := core.Settlement{Check: check, Cost: drawAnyCost(t, check.Limit), Raise: rapid.Bool().Draw(t, "raise")}
			if rapid.Bool().Draw(t, "refund") {
				one.Check.Mode, one.Check.Cost, one.Cost, one.Raise = core.Charge, one.Cost, 0, false
			}
			drawn = append(drawn, one)
			continue
		}
		check.Cost = drawCost(t, check.Limit, "charged")
		checks := slices.Repeat([]core.Check{check}, rapid.IntRange(1, 2).Draw(t, "checks on one state"))
		own := core.Call{Checks: checks, Decisions: make([]core.Decision, len(checks)), Receipts: make([]core.Receipt, len(checks))}
		if _, err := s.store.Decide(tContext(t), []core.Call{own}); err != nil {
			t.Fatalf("Decide: %v", err)
		}
		if d := own.Decisions; !d[0].Allowed || !d[len(d)-1].Allowed {
			continue
		}
		for i, c := range checks {
			realCost := rapid.SampledFrom([]int{0, 1, c.Cost / 2, c.Cost, c.Cost + 1}).Draw(t, "real cost")
			drawn = append(drawn, core.Settlement{Check: c, Cost: realCost, Receipt: own.Receipts[i]})
		}
		s.wait(drawWait(t, own.Decisions[0]) / time.Duration(rapid.IntRange(1, 8).Draw(t, "part of the wait")))
	}
	return drawn
}

func settlementTellsWhatIsLeft(t *testing.T, s *stand) {
	rapid.Check(t, func(t *rapid.T) {
		keys, plan := []string{s.key(), s.key()}, drawPlan(t, s.algorithm)
		s.use(t, keys[0], plan[0])
		settlements := s.drawSettlements(t, keys, plan)
		s.wait(time.Microsecond)
		before := core.Decision{Remaining: -1}
		told := make([]core.Decision, len(settlements))
		for i := range settlements {
			if told[i] = before; rapid.IntRange(0, 3).Draw(t, "unasked") > 0 {
				settlements[i].Decision = &told[i]
			}
		}
		s.settleNow(t, settlements...)
		for i, one := range settlements {
			want := before
			if one.Decision != nil {
				want = s.allowAll(t, look(one.Check))[0]
			}
			if told[i] != want {
				t.Fatalf("%s settled at %d (raise %t): told %s %+v, want %s %+v", callString([]core.Check{one.Check}), one.Cost, one.Raise,
					told[i].Limit, answerOf(told[i]), want.Limit, answerOf(want))
			}
		}
	})
}

func askingChangesNothing(t *testing.T, s *stand) {
	rapid.Check(t, func(t *rapid.T) {
		l := rapid.SampledFrom(drawPlan(t, s.algorithm)).Draw(t, "limit")
		asks, silent := s.twins(t, l)
		one := core.Settlement{Check: core.Check{Limit: l, Cost: drawCost(t, l, "cost")}, Cost: drawAnyCost(t, l), Raise: rapid.Bool().Draw(t, "raise")}
		known := rapid.Bool().Draw(t, "known")
		settled := make([]core.Settlement, 2)
		for i, key := range []string{asks, silent} {
			settled[i] = one
			settled[i].Check.Key = key
			r := [1]core.Receipt{}
			own := core.Call{Checks: []core.Check{settled[i].Check}, Decisions: make([]core.Decision, 1), Receipts: r[:]}
			if _, err := s.store.Decide(tContext(t), []core.Call{own}); err != nil {
				t.Fatalf("Decide: %v", err)
			}
			if !own.Decisions[0].Allowed {
				return
			}
			if known {
				settled[i].Receipt = r[0]
			}
		}
		s.wait(drawWait(t, s.peek(t, asks, l)) + time.Microsecond)
		settled[0].Decision = new(core.Decision)
		s.settleNow(t, settled[0])
		s.settleNow(t, settled[1])
		s.expectTwins(t, l, asks, silent)
	})
}

func verbsTellWhatIsLeft(t *testing.T, s *stand) {
	rapid.Check(t, func(t *rapid.T) {
		l, key := drawLimit(t, s.algorithm), s.key()
		expect := func(verb string, got core.Decision, c core.Check) {
			t.Helper()
			if want := s.allowAll(t, look(c))[0]; got != want {
				t.Fatalf("%s of %s: told %+v, want %+v", verb, l, answerOf(got), answerOf(want))
			}
		}
		s.use(t, key, l)
		for verb, settle := range map[string]func(n int) (core.Decision, error){
			"Charge": func(n int) (core.Decision, error) { return s.limiter.Charge(tContext(t), key, l, n) },
			"Refund": func(n int) (core.Decision, error) { return s.limiter.Refund(tContext(t), key, l, n) },
		} {
			for _, n := range []int{drawCost(t, l, "units"), 0} {
				s.wait(time.Microsecond)
				d, err := settle(n)
				if err != nil {
					t.Fatalf("%s(%d): %v", verb, n, err)
				}
				expect(verb, d, core.Check{Key: key, Limit: l})
			}
		}
		checks := []core.Check{
			{Key: key, Limit: l, Cost: drawCost(t, l, "cost")},
			{Key: key, Limit: l, Cost: drawCost(t, l, "cost of the shadow"), Shadow: true},
			{Key: s.key(), Limit: l, Mode: core.Condition},
		}
		costs := []int{rapid.IntRange(0, l.Capacity()).Draw(t, "real cost"), drawCost(t, l, "real cost of the shadow"), 1}
		r := s.reserve(t, checks...)
		before := slices.Clone(r.Decisions())
		s.wait(time.Microsecond)
		settleAs(t, r, costs...)
		asked := false // is the store, since a cost has changed
		for i, c := range checks[:2] {
			asked = asked || before[i].Allowed && c.Cost != costs[i]
		}
		for i, got := range r.Decisions() {
			if c := checks[i]; asked && c.Mode == core.Charge && before[i].Allowed {
				expect("Settle", got, c)
			} else if got != before[i] {
				t.Fatalf("%s was not settled, and tells %+v instead of %+v", callString(checks[i:i+1]), answerOf(got), answerOf(before[i]))
			}
		}
		if r.Allowed() != before[0].Allowed {
			t.Fatalf("a reservation that was settled is allowed: %t", r.Allowed())
		}
	})
}
