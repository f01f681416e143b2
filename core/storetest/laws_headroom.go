package storetest

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-go/ratelimit/core"
)

// leaving is the laws of checks that leave something for others.
var leaving = []law{
	{"a check with headroom passes if its cost and headroom would, and charges its cost", nil, headroomMustFit},
	{"a check with headroom passes at RetryAfter and not one tick before", nil, honestWithHeadroom},
	{"checks of one state have each their own headroom, on top of the costs so far", nil, headroomOfEach},
	{"what leaves headroom leaves it, however often it asks at once", nil, headroomIsLeft},
	{"who asks without headroom never notices that others leave some", nil, headroomIsNotNoticed},
	{"who keeps within the headroom of others is never denied", meters, headroomIsGuaranteed},
	{"places are left free", concurrently, headroomOfPlaces},
}

// drawLeaving draws a check that may leave headroom.
func drawLeaving(t *rapid.T, key string, l core.Limit) core.Check {
	c := core.Check{Key: key, Limit: l, Cost: drawCost(t, l, "cost")}
	c.Headroom = drawHeadroom(t, c)
	return c
}

func headroomMustFit(t *testing.T, s *stand) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLimit(t, s.algorithm)
		leaves, plain := s.twins(t, l)
		for range rapid.IntRange(1, 4).Draw(t, "checks") {
			c := drawLeaving(t, leaves, l)
			both := core.Check{Key: leaves, Limit: l, Cost: add(c.Cost, c.Headroom)}
			want := s.peekAt(t, 0, both)[0]
			if got := s.peekAt(t, 0, c)[0]; got.Allowed != want.Allowed || got.RetryAfter != want.RetryAfter || got.Remaining != want.Remaining {
				t.Fatalf("%s as a condition: %+v, want %+v", callString([]core.Check{c}), answerOf(got), answerOf(want))
			}
			if want.Allowed {
				want = s.allow(t, plain, l, c.Cost)
			}
			if got := s.allowAll(t, c)[0]; got != want {
				t.Fatalf("%s: %+v, want %+v", callString([]core.Check{c}), answerOf(got), answerOf(want))
			}
			s.wait(drawWait(t, want))
		}
		s.expectTwins(t, l, leaves, plain)
	})
}

func honestWithHeadroom(t *testing.T, s *stand) {
	rapid.Check(t, func(t *rapid.T) {
		l, key := drawLimit(t, s.algorithm), s.key()
		s.use(t, key, l)
		c := drawLeaving(t, key, l)
		for range 5 {
			d := s.allowAll(t, c)[0]
			if c.Headroom > l.Capacity()-c.Cost {
				if d.Allowed || d.RetryAfter != core.Never {
					t.Fatalf("%s: %+v, want never", callString([]core.Check{c}), answerOf(d))
				}
				return
			}
			if d.Allowed {
				continue
			}
			if d.RetryAfter <= 0 || d.RetryAfter > d.ResetAfter {
				t.Fatalf("denied: %+v, want 0 < RetryAfter ≤ ResetAfter", answerOf(d))
			}
			s.wait(d.RetryAfter - tick(l))
			if early := s.allowAll(t, c)[0]; early.Allowed || early.RetryAfter != tick(l) {
				t.Fatalf("%s, one tick before its RetryAfter of %v: %+v", callString([]core.Check{c}), d.RetryAfter, answerOf(early))
			}
			s.wait(tick(l))
			if late := s.allowAll(t, c)[0]; !late.Allowed {
				t.Fatalf("%s, at its RetryAfter of %v: %+v", callString([]core.Check{c}), d.RetryAfter, answerOf(late))
			}
			return
		}
	})
}

func headroomOfEach(t *testing.T, s *stand) {
	l := of(s.algorithm, 10, time.Hour)
	for _, test := range []struct {
		costs, headrooms []int
		allowed          []bool
	}{
		{[]int{3, 3}, []int{7, 4}, []bool{true, true}},
		{[]int{3, 3}, []int{8, 4}, []bool{false, true}},
		{[]int{3, 3}, []int{7, 5}, []bool{true, false}},
		{[]int{3, 3}, []int{0, 4}, []bool{true, true}},
		{[]int{3, 3}, []int{7, 0}, []bool{true, true}},
		{[]int{3, 3, 3}, []int{0, 5, 0}, []bool{true, false, true}},
	} {
		key := s.key()
		var checks []core.Check
		for i, cost := range test.costs {
			checks = append(checks, core.Check{Key: key, Limit: l, Cost: cost, Headroom: test.headrooms[i]})
		}
		left := l.Capacity()
		for i, d := range s.allowAll(t, checks...) {
			if d.Allowed != test.allowed[i] {
				t.Errorf("check %d of %s: %+v, want allowed %t", i, callString(checks), answerOf(d), test.allowed[i])
			}
			left -= test.costs[i]
		}
		if slices.Contains(test.allowed, false) {
			left = l.Capacity()
		}
		if d := s.peek(t, key, l); d.Remaining != left {
			t.Errorf("%s has left %d, want %d", callString(checks), d.Remaining, left)
		}
	}
}

func headroomIsLeft(t *testing.T, s *stand) {
	rapid.Check(t, func(t *rapid.T) {
		l, key := drawLimit(t, s.algorithm), s.key()
		s.use(t, key, l)
		c := drawLeaving(t, key, l)
		before := s.peek(t, key, l)
		call := core.Call{Checks: []core.Check{c}, Decisions: make([]core.Decision, 1), Times: rapid.IntRange(2, 20).Draw(t, "times")}
		calls := []core.Call{call}
		if _, err := s.store.Decide(tContext(t), calls); err != nil {
			t.Fatalf("Decide: %v", err)
		}
		granted, d := calls[0].Granted, calls[0].Decisions[0]
		fits := c.Headroom <= before.Remaining-c.Cost
		switch {
		case d.Allowed != fits, fits != (granted > 0):
			t.Fatalf("%s, with %d left: %d are granted, %+v", callString(call.Checks), before.Remaining, granted, answerOf(d))
		case fits && (d.Remaining != before.Remaining-granted*c.Cost || d.Remaining < c.Headroom):
			t.Fatalf("%s, with %d left: %d are granted, and leave %d", callString(call.Checks), before.Remaining, granted, d.Remaining)
		case !fits && d.Remaining != before.Remaining:
			t.Fatalf("%s is denied, and leaves %d of %d", callString(call.Checks), d.Remaining, before.Remaining)
		}
	})
}

func headroomIsNotNoticed(t *testing.T, s *stand) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLimit(t, s.algorithm)
		shared, plain := s.twins(t, l)
		for range rapid.IntRange(1, 12).Draw(t, "checks") {
			if rapid.Bool().Draw(t, "with headroom") {
				if c := drawLeaving(t, shared, l); s.allowAll(t, c)[0].Allowed {
					s.allow(t, plain, l, c.Cost)
				}
				continue
			}
			cost := drawCost(t, l, "cost")
			got, want := s.allow(t, shared, l, cost), s.allow(t, plain, l, cost)
			if got != want {
				t.Fatalf("%d under %s: %+v, want %+v", cost, l, answerOf(got), answerOf(want))
			}
			s.wait(drawWait(t, want) / time.Duration(rapid.IntRange(1, 8).Draw(t, "part of the wait")))
		}
		s.expectTwins(t, l, shared, plain)
	})
}

// A charge of the others leaves the headroom free. From then on the limit drains as fast as a limit of that many units
// without other users would: so a user that keeps within such a limit finds room.
func headroomIsGuaranteed(t *testing.T, s *stand) {
	rapid.Check(t, func(t *rapid.T) {
		l, key := drawLimit(t, s.algorithm), s.key()
		headroom := drawCost(t, l, "headroom")
		within := newLimit("leaky", headroom, l.Rate())
		if numbersOf(within).tick != numbersOf(l).tick {
			within = l // which is counted as l is, and no more than that fits
			headroom = l.Capacity()
		}
		own := newModel()
		s.clock.now.Store(start.UnixMicro() + rapid.Int64Range(0, 2_000_000).Draw(t, "start"))
		for range rapid.IntRange(1, 30).Draw(t, "checks") {
			if rapid.Bool().Draw(t, "others") {
				c := core.Check{Key: key, Limit: l, Cost: drawCost(t, l, "cost of others"), Headroom: headroom}
				for range rapid.IntRange(1, 5).Draw(t, "greed") {
					s.allowAll(t, c)
				}
				continue
			}
			asked := core.Check{Key: key, Limit: within, Cost: drawCost(t, within, "cost")}
			now := s.clock.now.Load()
			kept := own.decide([]core.Check{asked}, now, false)[0]
			if kept.Allowed {
				if d := s.allow(t, key, l, asked.Cost); !d.Allowed {
					t.Fatalf("%d under %s, of a guarantee of %d: %+v", asked.Cost, l, headroom, answerOf(d))
				}
			}
			if wait := drawWait(t, kept) / time.Duration(rapid.IntRange(1, 8).Draw(t, "part of the wait")); now+wait.Microseconds() < early {
				s.wait(wait)
			}
		}
	})
}

func headroomOfPlaces(t *testing.T, s *stand) {
	l, key := concurrent(3, time.Minute), s.key()
	batch := core.Check{Key: key, Limit: l, Cost: 1, Headroom: 2}
	first := s.must(t, batch)
	s.expectDenied(t, "2 of 3 are to be left free", batch)
	s.must(t, core.Check{Key: key, Limit: l, Cost: 2})
	s.expectDenied(t, "all 3 are held", core.Check{Key: key, Limit: l, Cost: 1})
	s.giveBack(t, first...)
	s.expectDenied(t, "2 of 3 are held", batch)
	if d, _ := s.acquire(t, core.Check{Key: key, Limit: l, Cost: 1, Headroom: 3}); d[0].Allowed || d[0].RetryAfter != core.Never {
		t.Errorf("1 of 3, and 3 are to be left free: %+v, want never", answerOf(d[0]))
	}
}
