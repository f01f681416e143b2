package storetest

import (
	"math"
	"math/big"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-go/ratelimit/core"
)

// owing is the laws of limits with debt.
var owing = []law{
	{"a charge goes into debt as far as the limit says, and no further", owers, chargedIntoDebt},
	{"a settlement goes into debt as far as the limit says, and no further", owers, settledIntoDebt},
	{"nothing passes before a debt is paid", owers, nothingInDebt},
	{"the long-run rate is kept whatever is declared, if debt is unlimited", exceptCalendar, longRunRate},
	{"the same request passes at RetryAfter in debt, and not one tick before", owers, honestInDebt},
	{"a refund after a debt restores the key", owers, refundedDebt},
	{"only settlements and charges make debt", owers, noDebtByChecks},
	{"a named limit keeps its debt, as far as its new numbers have one", owers, namedKeepsDebt},
	{"a window in debt is followed by the next one at once, which pays", []string{"fixed-window"}, windowsPay},
	{"a calendar's window pays the debt of the one before", []string{"calendar"}, datedPays},
}

// exceptCalendar are the owers with debt that can be unlimited.
var exceptCalendar = slices.DeleteFunc(slices.Clone(owers), func(name string) bool { return name == "calendar" })

// owers are the algorithms of limits that can have debt.
var owers = func() (names []string) {
	for _, a := range algorithms {
		if a.owes {
			names = append(names, a.name)
		}
	}
	return names
}()

// drawOwing draws a limit that has debt.
func drawOwing(t *rapid.T, algorithm string) core.Quota {
	return rapid.Custom(func(t *rapid.T) core.Quota {
		l := drawLimit(t, algorithm)
		debt := rapid.OneOf(rapid.IntRange(1, 2*l.Capacity()), rapid.SampledFrom([]int{1, 1_000_000, math.MaxInt})).Draw(t, "most debt")
		return l.WithDebt(debt)
	}).Filter(func(l core.Quota) bool { return l.Validate() == nil }).Draw(t, "limit with debt")
}

// draining returns how long it takes until units of a limit have drained.
func (s *stand) draining(l core.Quota, units int) time.Duration {
	n := numbersOf(l)
	switch {
	case n.calendar != nil:
		_, end := n.calendar(s.clock.now.Load())
		for range (int64(units) - 1) / n.each() {
			_, end = n.calendar(end)
		}
		return time.Duration(end-s.clock.now.Load()) * time.Microsecond
	case n.pace == nil:
		windows := (int64(units) + n.each() - 1) / n.each()
		return time.Duration(windows*n.window) * tick(l)
	}
	ticks := new(big.Rat).SetInt64(int64(units))
	return time.Duration(roundedUp(ticks.Quo(ticks, n.pace)).Int64()) * tick(l)
}

func chargedIntoDebt(t *testing.T, s *stand) {
	rapid.Check(t, func(t *rapid.T) {
		l, key := drawOwing(t, s.algorithm), s.key()
		most := mostCharged(l)
		used := 0
		for range rapid.IntRange(1, 4).Draw(t, "charges") {
			n := rapid.OneOf(rapid.IntRange(1, 3), rapid.IntRange(1, most), rapid.Just(math.MaxInt)).Draw(t, "units")
			d, err := s.limiter.Charge(tContext(t), key, l, n)
			if err != nil {
				t.Fatal(err)
			}
			used += min(n, most-used)
			if d.Remaining != max(0, l.Capacity()-used) || d.ResetAfter != s.draining(l, used) {
				t.Fatalf("%d used of %s, after %d more: %+v", used, l, n, answerOf(d))
			}
			next := s.draining(l, max(1, used-l.Capacity()+1)) // to one that fits, if none does
			if look := s.peek(t, key, l); look.Remaining != d.Remaining || look.NextAfter != d.NextAfter || look.ResetAfter != d.ResetAfter ||
				look.Allowed != (d.Remaining > 0) || !look.Allowed && (look.RetryAfter != next || d.NextAfter != next) {
				t.Fatalf("a charge under %s answers %+v, and a look after it %+v", l, answerOf(d), answerOf(look))
			}
		}
	})
}

func settledIntoDebt(t *testing.T, s *stand) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawOwing(t, s.algorithm)
		settled, charged := s.twins(t, l)
		cost := drawCost(t, l, "reserved")
		r := s.reserve(t, core.Check{Key: settled, Limit: l, Cost: cost})
		if !r.Allowed() {
			return
		}
		s.allow(t, charged, l, cost)
		s.wait(drawWait(t, r.Decisions()[0]))
		most := mostCharged(l)
		more := rapid.OneOf(rapid.IntRange(0, 3), rapid.IntRange(0, most)).Draw(t, "more")
		settleAs(t, r, cost+more)
		if _, err := s.limiter.Charge(tContext(t), charged, l, min(cost+more, most)-cost); err != nil {
			t.Fatal(err)
		}
		s.expectTwins(t, l, settled, charged)
	})
}

func nothingInDebt(t *testing.T, s *stand) {
	rapid.Check(t, func(t *rapid.T) {
		l, key := drawOwing(t, s.algorithm), s.key()
		s.use(t, key, l)
		if _, err := s.limiter.Charge(tContext(t), key, l, math.MaxInt); err != nil {
			t.Fatal(err)
		}
		d := s.peek(t, key, l)
		part := time.Duration(rapid.Int64Range(0, (d.RetryAfter-tick(l)).Microseconds()).Draw(t, "later")) * time.Microsecond
		s.wait(part)
		before := s.peek(t, key, l)
		checks := []core.Check{{Key: key, Limit: l, Cost: drawCost(t, l, "cost")}}
		checks[0].Headroom = rapid.IntRange(0, min(2, l.Capacity()-checks[0].Cost)).Draw(t, "headroom")
		if rapid.Bool().Draw(t, "beside another limit") {
			checks = append(checks, core.Check{Key: key, Limit: drawLimit(t, s.algorithm).Named("another"), Cost: 1})
		}
		if early := s.allowAll(t, checks...)[0]; early.Allowed || early.Remaining != 0 || early.RetryAfter <= 0 {
			t.Fatalf("%s: passes %v before the debt is paid: %+v", callString(checks), d.RetryAfter-part, answerOf(early))
		}
		if after := s.peek(t, key, l); after != before {
			t.Fatalf("%s: a denial in debt changes %+v to %+v", callString(checks), answerOf(before), answerOf(after))
		}
		if free := s.allow(t, key, l, 0); !free.Allowed || free.Remaining != 0 {
			t.Fatalf("a cost of 0 in debt: %+v", answerOf(free))
		}
	})
}

// longRunRate has a client reserve little and use much. When a check passes, all its used units have drained but for the capacity.
func longRunRate(t *testing.T, s *stand) {
	rapid.Check(t, func(t *rapid.T) {
		capacity, perSecond := rapid.IntRange(1, 20).Draw(t, "capacity"), rapid.IntRange(1, 20).Draw(t, "rate")
		if algorithmOf(s.algorithm).window {
			perSecond = capacity
		}
		l, key := newLimit(s.algorithm, capacity, core.PerSecond(perSecond)).WithDebt(math.MaxInt), s.key()
		used, began := 0, s.clock.now.Load()
		for range rapid.IntRange(1, 20).Draw(t, "calls") {
			declared := rapid.IntRange(1, capacity).Draw(t, "declared")
			r := s.reserve(t, core.Check{Key: key, Limit: l, Cost: declared})
			if d := r.Decisions()[0]; !r.Allowed() {
				s.wait(drawWait(t, d))
				continue
			}
			drained := (s.clock.now.Load() - began) * int64(perSecond)
			if int64(used+declared-capacity)*1_000_000 > drained {
				t.Fatalf("%d pass after %d, when %d microunits have drained: %s", declared, used, drained, l)
			}
			cost := rapid.OneOf(rapid.IntRange(0, 2*capacity), rapid.IntRange(0, 1000)).Draw(t, "real cost")
			used += cost
			settleAs(t, r, cost)
		}
	})
}

func honestInDebt(t *testing.T, s *stand) {
	rapid.Check(t, func(t *rapid.T) {
		l, key := drawOwing(t, s.algorithm), s.key()
		s.use(t, key, l)
		most := mostCharged(l)
		if _, err := s.limiter.Charge(tContext(t), key, l, rapid.IntRange(1, most).Draw(t, "units")); err != nil {
			t.Fatal(err)
		}
		charged := s.peek(t, key, l)
		check := core.Check{Key: key, Limit: l, Cost: drawCost(t, l, "cost")}
		check.Headroom = rapid.IntRange(0, l.Capacity()-check.Cost).Draw(t, "headroom")
		d := s.allowAll(t, check)[0]
		if d.Allowed {
			return
		}
		if d.RetryAfter > d.ResetAfter {
			t.Fatalf("%s: %+v", l, answerOf(d))
		}
		if charged.Remaining == 0 {
			if early := s.peekAt(t, charged.NextAfter-tick(l), core.Check{Key: key, Limit: l}); early[0].Remaining != 0 {
				t.Fatalf("%s: one tick before NextAfter %+v", l, answerOf(early[0]))
			}
			if next := s.peekAt(t, charged.NextAfter, core.Check{Key: key, Limit: l}); next[0].Remaining == 0 {
				t.Fatalf("%s: at NextAfter %+v", l, answerOf(next[0]))
			}
		}
		s.wait(d.RetryAfter - tick(l))
		if early := s.allowAll(t, check)[0]; early.Allowed || early.RetryAfter != tick(l) {
			t.Fatalf("%d under %s, one tick before its RetryAfter of %v: %+v", check.Cost, l, d.RetryAfter, answerOf(early))
		}
		s.wait(tick(l))
		if late := s.allowAll(t, check)[0]; !late.Allowed {
			t.Fatalf("%d under %s, at its RetryAfter of %v: %+v", check.Cost, l, d.RetryAfter, answerOf(late))
		}
	})
}

func refundedDebt(t *testing.T, s *stand) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawOwing(t, s.algorithm)
		refunded, never := s.twins(t, l)
		most := mostCharged(l)
		free := most - l.Capacity() + s.peek(t, refunded, l).Remaining // of which nothing is cut
		n := rapid.IntRange(0, free).Draw(t, "units")
		if _, err := s.limiter.Charge(tContext(t), refunded, l, n); err != nil {
			t.Fatal(err)
		}
		if rapid.Bool().Draw(t, "denied in between") {
			s.allow(t, refunded, l, l.Capacity()+1)
		}
		if _, err := s.limiter.Refund(tContext(t), refunded, l, n); err != nil {
			t.Fatal(err)
		}
		s.expectTwins(t, l, refunded, never)
	})
}

// noDebtByChecks uses a limit in each way that is no settlement of more than was reserved.
func noDebtByChecks(t *testing.T, s *stand) {
	rapid.Check(t, func(t *rapid.T) {
		l, key := drawOwing(t, s.algorithm), s.key()
		type reserved struct {
			*core.Reservation

			cost int
		}
		var open []reserved
		for range rapid.IntRange(1, 12).Draw(t, "calls") {
			check := core.Check{Key: key, Limit: l, Cost: drawAnyCost(t, l)}
			switch rapid.SampledFrom([]string{"allow", "reserve", "settle", "hold back"}).Draw(t, "how") {
			case "allow":
				s.allowAll(t, check)
			case "reserve":
				if r := s.reserve(t, check); r.Allowed() {
					open = append(open, reserved{r, check.Units()})
				}
			case "settle":
				if len(open) > 0 {
					r := open[0]
					open = open[1:]
					settleAs(t, r.Reservation, rapid.IntRange(0, r.cost).Draw(t, "real cost"))
				}
			case "hold back":
				raised := core.Settlement{Check: core.Check{Key: key, Limit: l}, Cost: max(1, check.Cost), Raise: true}
				if err := s.store.Settle(tContext(t), []core.Settlement{raised}); err != nil {
					t.Fatal(err)
				}
			}
			if d := s.peek(t, key, l); d.ResetAfter > s.draining(l, l.Capacity()) {
				t.Fatalf("%s is in debt: %+v", l, answerOf(d))
			}
		}
	})
}

func namedKeepsDebt(t *testing.T, s *stand) {
	if algorithmOf(s.algorithm).window {
		return // windowsPay says it
	}
	key := s.key()
	plan := func(debt int) core.Quota {
		return newLimit(s.algorithm, 10, core.PerSecond(1)).Named("plan").WithDebt(debt)
	}
	if _, err := s.limiter.Charge(t.Context(), key, plan(20), 100); err != nil {
		t.Fatal(err)
	}
	for _, now := range []struct {
		debt   int
		resets time.Duration
	}{{20, 30 * time.Second}, {40, 30 * time.Second}, {5, 15 * time.Second}, {0, 10 * time.Second}} {
		l := plan(now.debt)
		if d := s.peek(t, key, l); d.Remaining != 0 || d.ResetAfter != now.resets {
			t.Errorf("30 used, and now %s: %+v, want a ResetAfter of %v", l, answerOf(d), now.resets)
		}
	}
	if d := s.allow(t, key, plan(5), 1); d.Allowed || d.RetryAfter != 6*time.Second {
		t.Errorf("a level cut to a debt of 5: %+v", answerOf(d))
	}
	if d := s.peek(t, key, plan(20)); d.ResetAfter != 15*time.Second { // a limit made smaller is clamped for good
		t.Errorf("20 of debt after a denial under 5: %+v", answerOf(d))
	}
	s.wait(6*time.Second - time.Microsecond)
	if d := s.allow(t, key, plan(5), 1); d.Allowed {
		t.Errorf("1 passes a microsecond before RetryAfter: %+v", answerOf(d))
	}
	s.wait(time.Microsecond)
	if d := s.allow(t, key, plan(5), 1); !d.Allowed {
		t.Errorf("1 at RetryAfter: %+v", answerOf(d))
	}
}

func windowsPay(t *testing.T, s *stand) {
	for _, l := range []core.Quota{of(s.algorithm, 10, time.Minute).WithDebt(50), of(s.algorithm, 10, time.Minute).WithDebt(50).Named("plan")} {
		key := s.key()
		r := s.reserve(t, core.Check{Key: key, Limit: l, Cost: 1})
		s.wait(20 * time.Second)
		settleAs(t, r, 34)
		for _, step := range []struct {
			later           time.Duration
			remaining, left int // of the 34
			retry           time.Duration
		}{
			{0, 0, 34, 160 * time.Second},
			{40*time.Second - time.Microsecond, 0, 34, 2*time.Minute + time.Microsecond},
			{time.Microsecond, 0, 24, 2 * time.Minute},
			{time.Minute, 0, 14, time.Minute},
			{time.Minute, 6, 4, 0},
		} {
			s.wait(step.later)
			d := s.peek(t, key, l)
			if d.Remaining != step.remaining || d.RetryAfter != step.retry || d.Allowed != (step.retry == 0) {
				t.Errorf("%s: %d are left of 34: %+v, want %d remaining, and a wait of %v", l, step.left, answerOf(d), step.remaining, step.retry)
			}
		}
		if d := s.allow(t, key, l, 6); !d.Allowed || d.Remaining != 0 {
			t.Errorf("%s: 6 in the window that pays the last 4: %+v", l, answerOf(d))
		}
		s.wait(time.Minute)
		if d := s.peek(t, key, l); d.Remaining != 10 || d.ResetAfter != 0 {
			t.Errorf("%s: %+v, when all is paid", l, answerOf(d))
		}
		late := s.reserve(t, core.Check{Key: key, Limit: l, Cost: 10})
		s.wait(90 * time.Second)
		settleAs(t, late, 15) // 5 more than the closed window was charged
		if d := s.peek(t, key, l); d.Remaining != 5 || d.ResetAfter != time.Minute {
			t.Errorf("%s: %+v, when 5 were missing of a window that has closed", l, answerOf(d))
		}
		early := s.reserve(t, core.Check{Key: key, Limit: l, Cost: 5})
		s.wait(time.Minute)
		settleAs(t, early, 0) // that window has closed
		if d := s.peek(t, key, l); d.Remaining != 10 {
			t.Errorf("%s: %+v", l, answerOf(d))
		}
	}
}

func datedPays(t *testing.T, s *stand) {
	l, key := core.Calendar(10, core.Every(time.Minute)).WithDebt(10), s.key() // the clock begins on a full minute
	r := s.reserve(t, core.Check{Key: key, Limit: l, Cost: 1})
	s.wait(20 * time.Second)
	settleAs(t, r, 17)
	for cost, want := range map[int]time.Duration{1: 40 * time.Second, 3: 40 * time.Second, 4: 100 * time.Second, 10: 100 * time.Second} {
		if d := s.allow(t, key, l, cost); d.Allowed || d.Remaining != 0 || d.RetryAfter != want || d.ResetAfter != 100*time.Second {
			t.Errorf("%d after 17 of 10: %+v, want a wait of %v", cost, answerOf(d), want)
		}
	}
	s.wait(40 * time.Second)
	if d := s.allow(t, key, l, 2); !d.Allowed || d.Remaining != 1 || d.ResetAfter != time.Minute {
		t.Errorf("2 in the window that pays 7: %+v, want 1 left", answerOf(d))
	}
	s.wait(time.Minute)
	if d := s.peek(t, key, l); d.Remaining != 10 || d.ResetAfter != 0 {
		t.Errorf("%+v, when all is paid", answerOf(d))
	}
	late := s.reserve(t, core.Check{Key: key, Limit: l, Cost: 10})
	s.wait(time.Minute)
	settleAs(t, late, 15) // 5 more than the closed window was charged
	if d := s.peek(t, key, l); d.Remaining != 5 {
		t.Errorf("%+v, when 5 were missing of a window that has closed", answerOf(d))
	}
	if _, err := s.limiter.Charge(t.Context(), key, l, 15); err != nil {
		t.Fatal(err)
	}
	s.wait(2 * time.Minute)
	if d := s.peek(t, key, l); d.Remaining != 10 {
		t.Errorf("%+v, two windows after a debt of 10", answerOf(d))
	}

	// The window of another period has no debt that windows of this one pay.
	s.wait(s.clock.Now().Truncate(time.Minute).Add(time.Minute).Sub(s.clock.Now()))
	in := func(d time.Duration) core.Quota { return core.Calendar(4, core.Every(d)).Named("plan").WithDebt(4) }
	thirds := in(20 * time.Second)
	if _, err := s.limiter.Charge(t.Context(), key, in(time.Minute), 8); err != nil {
		t.Fatal(err)
	}
	s.wait(10 * time.Second)
	if d := s.peek(t, key, thirds); d.Allowed || d.RetryAfter != 50*time.Second || d.ResetAfter != 50*time.Second {
		t.Errorf("8 of 4 in a minute, and then %s: %+v, want a wait of 50 s", thirds, answerOf(d))
	}
	s.wait(50 * time.Second)
	if d := s.peek(t, key, thirds); d.Remaining != 4 {
		t.Errorf("a minute later: %+v", answerOf(d))
	}
}
