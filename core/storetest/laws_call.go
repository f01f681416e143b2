package storetest

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-go/ratelimit/core"
)

func denialChangesNothing(t *testing.T, s *stand) {
	rapid.Check(t, func(t *rapid.T) {
		l, key := drawLimit(t, s.algorithm), s.key()
		s.use(t, key, l)
		fresh := drawLimit(t, rapid.SampledFrom(everyAlgorithm).Draw(t, "neighbour")).Named("neighbour")
		cost := s.peek(t, key, l).Remaining + 1
		call := []core.Check{
			{Key: key, Limit: l, Cost: cost},
			{Key: key, Limit: fresh, Cost: drawCost(t, fresh, "neighbour's cost")},
		}
		before := s.peekAt(t, 0, call...)
		later := s.peekAt(t, before[0].NextAfter, call...)
		for range 3 {
			if d := s.allowAll(t, call...); allAllowed(d) {
				t.Fatalf("%s: passes", callString(call))
			}
		}
		for i, want := range before {
			if got := s.peekAt(t, 0, call...)[i]; got != want {
				t.Fatalf("after a denial check %d is %+v, before it was %+v", i, answerOf(got), answerOf(want))
			}
			if got := s.peekAt(t, before[0].NextAfter, call...)[i]; got != later[i] {
				t.Fatalf("after a denial check %d will be %+v, before it was to be %+v", i, answerOf(got), answerOf(later[i]))
			}
		}
	})
}

func hammering(t *testing.T, s *stand) {
	l, polite, rude := of(s.algorithm, 3, time.Second), s.key(), s.key()
	for step := range 20 {
		asked, hammered := s.allow(t, polite, l, 1), core.Decision{}
		for range 5 {
			if hammered = s.allow(t, rude, l, 1); hammered.Allowed {
				break
			}
		}
		if asked.Allowed != hammered.Allowed {
			t.Fatalf("step %d: a lone request is allowed %t, one of many %t", step, asked.Allowed, hammered.Allowed)
		}
		if !asked.Allowed {
			for range 5 {
				s.allow(t, rude, l, 1)
			}
		}
		s.wait(70 * time.Millisecond)
	}
}

func allOrNothing(t *testing.T, s *stand) {
	rapid.Check(t, func(t *rapid.T) {
		s.clock.now.Store(start.UnixMicro())
		checks := s.drawMix(t)
		before := make([]core.Decision, len(checks))
		for i, c := range checks {
			before[i] = s.allow(t, c.Key, c.Limit, 0)
		}
		decisions := s.allowAll(t, checks...)
		passed := allAllowed(decisions)
		for i, c := range checks {
			asked := 0 // under this limit, duplicates included
			for _, other := range checks {
				if passed && other.Limit.Identity() == c.Limit.Identity() {
					asked += other.Cost
				}
			}
			after := s.allow(t, c.Key, c.Limit, 0)
			if after.Remaining != before[i].Remaining-asked {
				t.Fatalf("%s: passed %t, and %s has %d remaining of %d before", callString(checks), passed, c.Limit, after.Remaining, before[i].Remaining)
			}
			if !passed && after != before[i] {
				t.Fatalf("%s was denied and left %s as %+v, it was %+v", callString(checks), c.Limit, answerOf(after), answerOf(before[i]))
			}
			if d := decisions[i]; !passed && d.Allowed && (d.RetryAfter != 0 || d.Remaining != before[i].Remaining) {
				t.Fatalf("a passing check of a denied call: %+v, want no RetryAfter and %d remaining", answerOf(d), before[i].Remaining)
			}
		}
	})
}

func allOrNothingOverKeys(t *testing.T, s *stand) {
	l := of(s.algorithm, 2, time.Hour)
	one, two, three := s.key(), s.key(), s.key()
	s.allow(t, two, l, 2)
	call := []core.Check{{Key: one, Limit: l, Cost: 1}, {Key: two, Limit: l, Cost: 1}, {Key: three, Limit: l, Cost: 1}}
	decisions := s.allowAll(t, call...)
	for i, want := range []bool{true, false, true} {
		if decisions[i].Allowed != want {
			t.Errorf("check %d: %+v, want allowed %t", i, answerOf(decisions[i]), want)
		}
	}
	for _, key := range []string{one, three} {
		if d := s.allow(t, key, l, 0); d.Remaining != 2 || d.ResetAfter != 0 {
			t.Errorf("%s was charged by a call that another key denied: %+v", key, answerOf(d))
		}
	}
	s.wait(2 * time.Hour)
	if d := s.allowAll(t, call...); !allAllowed(d) {
		t.Errorf("denied when every key has room: %+v", d)
	}
	for _, key := range []string{one, two, three} {
		if d := s.allow(t, key, l, 0); d.Remaining != 1 {
			t.Errorf("%s has %d remaining of 2 after a charge of 1", key, d.Remaining)
		}
	}
}

func duplicatesAddUp(t *testing.T, s *stand) {
	l, key := of(s.algorithm, 10, time.Hour), s.key()
	check := func(n int) core.Check { return core.Check{Key: key, Limit: l, Cost: n} }
	for i, d := range s.allowAll(t, check(3), check(2), check(4)) {
		if want := []int{7, 5, 1}[i]; !d.Allowed || d.Remaining != want {
			t.Errorf("check %d: %+v, want %d remaining", i, answerOf(d), want)
		}
	}
	denied := s.allowAll(t, check(1), check(1))
	if !denied[0].Allowed || denied[1].Allowed || denied[0].Remaining != 1 || denied[1].Remaining != 1 {
		t.Errorf("two more when one remains: %+v", denied)
	}
	if d := s.allowAll(t, check(6), check(6))[1]; d.Allowed || d.RetryAfter != core.Never {
		t.Errorf("6 and 6 of 10: %+v, want RetryAfter Never", answerOf(d))
	}
	if d := s.allow(t, key, l, 0); d.Remaining != 1 {
		t.Errorf("%d remaining in the end, want 1", d.Remaining)
	}
}

func shadowGatesNothing(t *testing.T, s *stand) {
	l, key := of(s.algorithm, 2, time.Hour), s.key()
	roomy := of("leaky", 100, time.Hour)
	shadow := core.Check{Key: key, Limit: l, Cost: 1, Shadow: true}
	gate := core.Check{Key: key, Limit: roomy, Cost: 40}
	for i, want := range []struct{ shadow, gate bool }{{true, true}, {true, true}, {false, false}, {false, false}} {
		decisions := s.allowAll(t, shadow, gate)
		if decisions[0].Allowed != want.shadow || decisions[1].Allowed != want.gate {
			t.Errorf("call %d: shadow allowed %t, gate allowed %t, want %+v", i, decisions[0].Allowed, decisions[1].Allowed, want)
		}
	}
	gate.Cost = 1
	if d := s.allowAll(t, shadow, gate); d[0].Allowed || !d[1].Allowed || d[1].Remaining != 19 {
		t.Errorf("a full shadow has denied its neighbour: %+v", d)
	}
	// A denied call charges its shadows all the same, and the limit itself has
	// not been touched by its shadow.
	gate.Cost, shadow.Key = 20, s.key()
	if d := s.allowAll(t, gate, shadow); d[0].Allowed || !d[1].Allowed || d[1].Remaining != 1 {
		t.Errorf("a shadow in a denied call: %+v, want it charged", d)
	}
	if d := s.allow(t, key, l, 2); !d.Allowed {
		t.Errorf("the limit was charged by its shadow: %+v", answerOf(d))
	}
	if d := s.allowAll(t, shadow, shadow); !d[0].Allowed || d[1].Allowed {
		t.Errorf("two shadows where one remains: %+v, want each decided by itself", d)
	}
}

func peekLeavesNoTrace(t *testing.T, s *stand) {
	rapid.Check(t, func(t *rapid.T) {
		l, key, other := drawLimit(t, s.algorithm), s.key(), s.key()
		now := s.clock.now.Load()
		s.use(t, key, l)
		cost := drawCost(t, l, "cost")
		told := s.peekAt(t, 0, core.Check{Key: key, Limit: l, Cost: cost})[0]
		for range 3 {
			if again := s.peekAt(t, 0, core.Check{Key: key, Limit: l, Cost: cost})[0]; again != told {
				t.Fatalf("peeked %+v and then %+v", answerOf(told), answerOf(again))
			}
		}
		nothing := s.allow(t, key, l, 0)
		d := s.allow(t, key, l, cost)
		if d.Allowed != told.Allowed || d.RetryAfter != told.RetryAfter || d.Delay != told.Delay {
			t.Fatalf("peek said %+v, and then it was %+v", answerOf(told), answerOf(d))
		}
		if !nothing.Allowed || nothing.Remaining != told.Remaining || nothing.NextAfter != told.NextAfter || nothing.ResetAfter != told.ResetAfter {
			t.Fatalf("peek said %+v, and a cost of 0 %+v", answerOf(told), answerOf(nothing))
		}
		if d := s.peek(t, other, l); !d.Allowed || d.Remaining != l.Capacity() || d.ResetAfter != 0 {
			t.Fatalf("a fresh key: %+v", answerOf(d))
		}
		s.clock.now.Store(now)
	})
}

func peekTellsWhatIsLeft(t *testing.T, s *stand) {
	l, key := of(s.algorithm, 3, time.Hour), s.key()
	var before core.Decision // after the last charge
	for left := 3; left >= 0; left-- {
		for cost := range 5 { // also a cost of 0, and one that would not pass
			check := core.Check{Key: key, Limit: l, Cost: cost}
			if cost == 0 {
				check.Mode = core.Look
			}
			d := s.peekAt(t, 0, check)[0]
			if d.Remaining != left || d.Allowed != (cost <= left) {
				t.Errorf("%d of 3 left, and a cost of %d peeked: %+v", left, cost, answerOf(d))
			}
			if d.NextAfter != before.NextAfter || d.ResetAfter != before.ResetAfter {
				t.Errorf("a cost of %d peeked: %+v, want the waits of what is left: %+v", cost, answerOf(d), answerOf(before))
			}
		}
		if d := s.allow(t, key, l, 1); left > 0 {
			before = d
			if !d.Allowed || d.Remaining != left-1 {
				t.Errorf("%d of 3 left, and 1 charged: %+v, want %d remaining", left, answerOf(d), left-1)
			}
		}
	}
}

func costOfNothing(t *testing.T, s *stand) {
	l, key := of(s.algorithm, 2, time.Hour), s.key()
	for used := range 3 {
		for range 3 {
			if d := s.allow(t, key, l, 0); !d.Allowed || d.Remaining != 2-used || d.RetryAfter != 0 || (d.ResetAfter == 0) != (used == 0) {
				t.Errorf("nothing, with %d of 2 used: %+v", used, answerOf(d))
			}
		}
		s.allow(t, key, l, 1)
	}
	d := s.allowAll(t, core.Check{Key: key, Limit: l, Mode: core.Look}, core.Check{Key: key, Limit: l.Named("other"), Cost: 1})
	if !allAllowed(d) {
		t.Errorf("nothing under a full limit has denied its neighbour: %+v", d)
	}
	if s.algorithm != "sliding-window" {
		return
	}
	// Where the clock steps back, it may be more than full: 1 and nine tenths of 5, of 5.
	plan := of(s.algorithm, 5, time.Hour).Named("plan")
	s.allow(t, key, plan, 5)
	s.wait(78 * time.Minute)
	s.allow(t, key, plan, 1)
	s.wait(-12 * time.Minute)
	other := of("leaky", 5, time.Hour)
	d = s.allowAll(t, core.Check{Key: key, Limit: plan, Mode: core.Look}, core.Check{Key: key, Limit: other, Cost: 1})
	if !allAllowed(d) || s.allow(t, key, other, 0).Remaining != 4 {
		t.Errorf("nothing under an overfull limit has denied its neighbour: %+v", d)
	}
}

func oneUnitByDefault(t *testing.T, s *stand) {
	l, key := of(s.algorithm, 2, time.Hour), s.key()
	for i, want := range []bool{true, true, false} {
		if d := s.allowAll(t, core.Check{Key: key, Limit: l})[0]; d.Allowed != want || d.Remaining != max(0, 1-i) {
			t.Errorf("check %d: %+v, want allowed %t", i, answerOf(d), want)
		}
	}
	condition := core.Check{Key: key, Limit: l, Mode: core.Condition}
	if d := s.allowAll(t, condition)[0]; d.Allowed {
		t.Errorf("a condition of one unit is met by a full limit: %+v", answerOf(d))
	}
	if d := s.allowAll(t, core.Check{Key: key, Limit: l, Mode: core.Look})[0]; !d.Allowed || d.Remaining != 0 {
		t.Errorf("a look: %+v", answerOf(d))
	}
}

func callsWithoutSense(t *testing.T, s *stand) {
	l, key := of(s.algorithm, 2, time.Hour), s.key()
	ctx := t.Context()
	for name, check := range map[string]core.Check{
		"an empty key":                {Limit: l, Cost: 1},
		"a negative cost":             {Key: key, Limit: l, Cost: -1},
		"a negative headroom":         {Key: key, Limit: l, Headroom: -1},
		"a look that costs":           {Key: key, Limit: l, Cost: 1, Mode: core.Look},
		"a look that leaves headroom": {Key: key, Limit: l, Headroom: 1, Mode: core.Look},
		"an unknown mode":             {Key: key, Limit: l, Mode: core.Look + 1},
		"a zero limit":                {Key: key, Cost: 1},
		"a bad limit":                 {Key: key, Limit: newLimit(s.algorithm, 0, core.PerSecond(1)), Cost: 1},
	} {
		if _, err := s.limiter.AllowAll(ctx, core.Check{Key: key, Limit: l, Cost: 1}, check); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%s is no ErrInvalid, but %v", name, err)
		}
	}
	if _, err := s.limiter.AllowAll(ctx); err == nil {
		t.Error("no check at all is no error")
	}
	if err := s.limiter.Reset(ctx, key); err == nil {
		t.Error("a reset without limits is no error")
	}
	if _, err := s.limiter.AllowAll(ctx,
		core.Check{Key: key, Limit: l.Named("one"), Cost: 1},
		core.Check{Key: key, Limit: of(s.algorithm, 3, time.Hour).Named("one"), Cost: 1}); err == nil {
		t.Error("one name with different numbers in one call is no error")
	}
	if d := s.allow(t, key, l, 0); d.Remaining != 2 {
		t.Errorf("%d remaining of 2 after nothing but errors", d.Remaining)
	}
	// A shadow has a state of its own, and so may try other numbers.
	s.allowAll(t,
		core.Check{Key: key, Limit: l.Named("one"), Cost: 1},
		core.Check{Key: key, Limit: of(s.algorithm, 3, time.Hour).Named("one"), Cost: 1, Shadow: true})
}
