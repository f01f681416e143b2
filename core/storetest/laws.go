package storetest

import (
	"context"
	"errors"
	"math/big"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-go/ratelimit/core"
)

// mixed is the algorithms of a law that mixes them itself.
var mixed = []string{"any mix"}

// laws are the laws, those of a single check first. Each is checked for every
// algorithm that it is about.
var laws = []law{
	{"never more and never less than the definition allows", nil, exactlyTheDefinition},
	{"never more than the capacity at one instant", nil, neverMoreAtOneInstant},
	{"concurrent callers share one budget exactly", nil, concurrentCallers},
	{"fractions of a drip are kept", meters, fractionsAreKept},
	{"a full recovery makes a key as good as new and no better", nil, fullRecovery},
	{"Remaining is exact", nil, remainingIsExact},
	{"the same request passes at RetryAfter and not one tick before", nil, honestRetryAfter},
	{"Remaining grows at NextAfter and not one tick before", nil, honestNextAfter},
	{"the key is as good as new at ResetAfter and not one tick before", nil, honestResetAfter},
	{"a mix passes at the largest RetryAfter and not one tick before", mixed, honestJointRetryAfter},
	{"a cost above the capacity is Never, in every mix", nil, neverAboveCapacity},
	{"a denial changes nothing", nil, denialChangesNothing},
	{"hammering does not postpone anything", nil, hammering},
	{"all or nothing", mixed, allOrNothing},
	{"all or nothing over several keys", nil, allOrNothingOverKeys},
	{"duplicate checks add up in order", nil, duplicatesAddUp},
	{"a shadow check gates nothing and is gated by nothing", nil, shadowGatesNothing},
	{"peek leaves no trace and tells what would be", nil, peekLeavesNoTrace},
	{"peek's Remaining is what is left before a charge", nil, peekTellsWhatIsLeft},
	{"a cost of 0 is always allowed and charges nothing", nil, costOfNothing},
	{"questions without sense are errors that change nothing", nil, questionsWithoutSense},
	{"a clock that steps back mints nothing and locks nobody out longer than the recovery", nil, clockStepsBack},
	{"keys are apart", nil, keysAreApart},
	{"limits with other numbers do not share state", nil, otherNumbers},
	{"limits of other algorithms and names do not share state", nil, otherNames},
	{"a named limit keeps what was used", nil, namedKeepsUsed},
	{"a named limit made smaller is clamped for good", nil, namedIsClamped},
	{"a named limit made smaller is clamped for good, the previous window too", []string{"sliding-window"}, previousIsClamped},
	{"a named limit with other numbers has as much used, or is full", nil, renumberedKeepsUsed},
	{"a named limit made longer tells when the same request passes", exceptSliding, longerTellsWhen},
	{"what was used in the previous window fills a smaller capacity", []string{"sliding-window"}, previousFills},
	{"Reset makes a key as good as new", nil, resetMakesNew},
	{"admitted requests leave at an even pace", []string{"shaping"}, evenPace},
	{"nobody else is asked to queue", append([]string{"leaky", "token-bucket", "gcra"}, everyAlgorithm[4:]...), nobodyQueues},
	{"a check without a cost asks for one unit", nil, oneUnitByDefault},
	{"a caller who has gone is told so and not charged", nil, goneCaller},
}

// passed is a request that was admitted.
type passed struct {
	at   int64
	cost int
}

// definition reports whether a request may join those that have passed, by the
// algorithm's own definition and nothing but the list of them.
func definition(l core.Limit, history []passed, now int64, cost int) bool {
	n := numbersOf(l)
	switch l.Algorithm() {
	case "fixed-window":
		opened, count := int64(-1), 0
		for _, p := range history {
			if opened < 0 || p.at >= opened+n.window {
				opened, count = p.at, 0
			}
			count += p.cost
		}
		if opened < 0 || now >= opened+n.window {
			count = 0
		}
		return count+cost <= l.Capacity()
	case "sliding-window":
		ticks := n.floor(now)
		this := ticks / n.window
		used := new(big.Rat)
		for _, p := range history {
			weight := big.NewRat(0, 1)
			switch this - n.floor(p.at)/n.window {
			case 0:
				weight = big.NewRat(1, 1)
			case 1:
				weight = big.NewRat(n.window-ticks%n.window, n.window)
			}
			used.Add(used, weight.Mul(weight, new(big.Rat).SetInt64(int64(p.cost))))
		}
		return used.Add(used, new(big.Rat).SetInt64(int64(cost))).Cmp(n.capacity) <= 0
	case "sliding-log":
		for _, p := range history {
			if p.at > now-n.window {
				cost += p.cost
			}
		}
		return cost <= l.Capacity()
	}
	// A bucket: from any moment on, no more than the capacity and what has drained
	// since.
	sum := int64(cost)
	if sum > int64(l.Capacity()) {
		return false
	}
	for _, before := range slices.Backward(history) {
		sum += int64(before.cost)
		allowed := new(big.Rat).SetInt64(n.floor(now) - n.floor(before.at))
		allowed.Mul(allowed, n.pace).Add(allowed, n.capacity)
		if new(big.Rat).SetInt64(sum).Cmp(allowed) > 0 {
			return false
		}
	}
	return true
}

func exactlyTheDefinition(t *testing.T, s *stand) {
	rapid.Check(t, func(t *rapid.T) {
		l, key := drawLimit(t, s.algorithm), s.key()
		s.clock.now.Store(start.UnixMicro() + rapid.Int64Range(0, 2_000_000).Draw(t, "start"))
		var history []passed
		for range rapid.IntRange(1, 25).Draw(t, "requests") {
			cost, now := drawCost(t, l, "cost"), s.clock.now.Load()
			want := definition(l, history, now, cost)
			d := s.allow(t, key, l, cost)
			if d.Allowed != want {
				t.Fatalf("%d under %s at %v, after %v: allowed %t, want %t", cost, l, now, history, d.Allowed, want)
			}
			if d.Allowed {
				history = append(history, passed{now, cost})
			}
			if wait := drawWait(t, d); wait.Microseconds() < latest-now {
				s.wait(wait)
			}
		}
	})
}

func neverMoreAtOneInstant(t *testing.T, s *stand) {
	for _, n := range []int{1, 2, 3, 7, 40} {
		for _, period := range []time.Duration{time.Millisecond, 250 * time.Millisecond, time.Second, 365 * 24 * time.Hour} {
			l, key := of(s.algorithm, n, period), s.key()
			admitted := 0
			for range n + 5 {
				if s.allow(t, key, l, 1).Allowed {
					admitted++
				}
			}
			if admitted != n {
				t.Errorf("%s admitted %d of %d at once, want %d", l, admitted, n+5, n)
			}
		}
	}
}

func concurrentCallers(t *testing.T, s *stand) {
	const callers, each, budget = 64, 5, 100
	l, key := of(s.algorithm, budget, time.Hour), s.key()
	var admitted, failed atomic.Int64
	var wait sync.WaitGroup
	for range callers {
		wait.Go(func() {
			for range each {
				switch d, err := s.limiter.Allow(t.Context(), key, l); {
				case err != nil:
					failed.Add(1)
				case d.Allowed:
					admitted.Add(1)
				}
			}
		})
	}
	wait.Wait()
	if admitted.Load() != budget || failed.Load() != 0 {
		t.Errorf("%d callers were admitted %d times with %d errors, want %d and none", callers, admitted.Load(), failed.Load(), budget)
	}
}

func fractionsAreKept(t *testing.T, s *stand) {
	l, key := newLimit(s.algorithm, 2, core.PerSecond(1)), s.key()
	admitted := 0
	for range 1000 {
		if s.allow(t, key, l, 1).Allowed {
			admitted++
		}
		s.wait(900 * time.Millisecond)
	}
	// Two at once and one a second for the 899.1 seconds until the last call.
	if admitted != 901 {
		t.Errorf("a call every 0.9 s was admitted %d times in 1000, want 901", admitted)
	}
}

func fullRecovery(t *testing.T, s *stand) {
	rapid.Check(t, func(t *rapid.T) {
		l, key := drawLimit(t, s.algorithm), s.key()
		s.use(t, key, l)
		s.wait(s.peek(t, key, l).ResetAfter + time.Duration(rapid.Int64Range(0, 1_000_000_000).Draw(t, "longer"))*time.Microsecond)
		d := s.peek(t, key, l)
		if want := (core.Decision{Allowed: true, Limit: l, Remaining: l.Capacity()}); d != want {
			t.Fatalf("after its recovery: %+v, want %+v", answerOf(d), answerOf(want))
		}
		if d := s.allow(t, key, l, l.Capacity()); !d.Allowed || d.Remaining != 0 {
			t.Fatalf("all of it after the recovery: %+v", answerOf(d))
		}
		if d := s.allow(t, key, l, 1); d.Allowed {
			t.Fatalf("more than all of it after the recovery: %+v", answerOf(d))
		}
	})
}

func remainingIsExact(t *testing.T, s *stand) {
	rapid.Check(t, func(t *rapid.T) {
		l, key := drawLimit(t, s.algorithm), s.key()
		s.use(t, key, l)
		d := s.allow(t, key, l, drawCost(t, l, "cost"))
		if d.Remaining < 0 || d.Remaining > l.Capacity() {
			t.Fatalf("Remaining %d is not between 0 and %d", d.Remaining, l.Capacity())
		}
		if more := s.allow(t, key, l, d.Remaining+1); more.Allowed || more.Remaining != d.Remaining {
			t.Fatalf("one more than the %d remaining: %+v", d.Remaining, answerOf(more))
		}
		if all := s.allow(t, key, l, d.Remaining); !all.Allowed || all.Remaining != 0 {
			t.Fatalf("the %d remaining: %+v", d.Remaining, answerOf(all))
		}
	})
}

func honestRetryAfter(t *testing.T, s *stand) {
	rapid.Check(t, func(t *rapid.T) {
		l, key := drawLimit(t, s.algorithm), s.key()
		s.use(t, key, l)
		cost := drawCost(t, l, "cost")
		for range 5 {
			d := s.allow(t, key, l, cost)
			if d.Allowed {
				if d.RetryAfter != 0 {
					t.Fatalf("allowed, with a RetryAfter of %v", d.RetryAfter)
				}
				continue
			}
			if d.RetryAfter <= 0 || d.RetryAfter > d.ResetAfter {
				t.Fatalf("denied: %+v, want 0 < RetryAfter ≤ ResetAfter", answerOf(d))
			}
			s.wait(d.RetryAfter - tick(l))
			if early := s.allow(t, key, l, cost); early.Allowed || early.RetryAfter != tick(l) {
				t.Fatalf("%d under %s, one tick before its RetryAfter of %v: %+v", cost, l, d.RetryAfter, answerOf(early))
			}
			s.wait(tick(l))
			if late := s.allow(t, key, l, cost); !late.Allowed {
				t.Fatalf("%d under %s, at its RetryAfter of %v: %+v", cost, l, d.RetryAfter, answerOf(late))
			}
			return
		}
	})
}

func honestNextAfter(t *testing.T, s *stand) {
	rapid.Check(t, func(t *rapid.T) {
		l, key := drawLimit(t, s.algorithm), s.key()
		s.use(t, key, l)
		d := s.allow(t, key, l, drawCost(t, l, "cost"))
		if d.NextAfter <= 0 || d.NextAfter > d.ResetAfter {
			t.Fatalf("%+v, want 0 < NextAfter ≤ ResetAfter", answerOf(d))
		}
		s.wait(d.NextAfter - tick(l))
		if early := s.peek(t, key, l); early.Remaining != d.Remaining {
			t.Fatalf("one tick before the NextAfter of %v, %d remain, want still %d", d.NextAfter, early.Remaining, d.Remaining)
		}
		s.wait(tick(l))
		if late := s.peek(t, key, l); late.Remaining <= d.Remaining {
			t.Fatalf("at the NextAfter of %v, %d remain, want more than %d", d.NextAfter, late.Remaining, d.Remaining)
		}
	})
}

func honestResetAfter(t *testing.T, s *stand) {
	rapid.Check(t, func(t *rapid.T) {
		l, key := drawLimit(t, s.algorithm), s.key()
		s.use(t, key, l)
		d := s.allow(t, key, l, drawCost(t, l, "cost"))
		s.wait(d.ResetAfter - tick(l))
		if early := s.peek(t, key, l); early.ResetAfter != tick(l) {
			t.Fatalf("one tick before the ResetAfter of %v: %+v", d.ResetAfter, answerOf(early))
		}
		s.wait(tick(l))
		if late := s.peek(t, key, l); late.ResetAfter != 0 || late.NextAfter != 0 || late.Remaining != l.Capacity() {
			t.Fatalf("at the ResetAfter of %v: %+v", d.ResetAfter, answerOf(late))
		}
	})
}

// drawMix draws checks of one key under several limits, not all of them fresh.
func (s *stand) drawMix(t *rapid.T) []core.Check {
	key := s.key()
	var checks []core.Check
	for range rapid.IntRange(2, 4).Draw(t, "limits") {
		l := drawLimit(t, rapid.SampledFrom(everyAlgorithm).Draw(t, "algorithm"))
		for range rapid.IntRange(0, 3).Draw(t, "requests before") {
			s.allow(t, key, l, drawCost(t, l, "cost before"))
		}
		checks = append(checks, core.Check{Key: key, Limit: l, Cost: drawCost(t, l, "cost")})
	}
	return checks
}

func allAllowed(decisions []core.Decision) bool {
	for _, d := range decisions {
		if !d.Allowed {
			return false
		}
	}
	return true
}

func honestJointRetryAfter(t *testing.T, s *stand) {
	rapid.Check(t, func(t *rapid.T) {
		s.clock.now.Store(start.UnixMicro())
		checks := s.drawMix(t)
		decisions := s.allowAll(t, checks...)
		if allAllowed(decisions) {
			decisions = s.allowAll(t, checks...)
		}
		if allAllowed(decisions) {
			return
		}
		var wait, step time.Duration
		for i, d := range decisions {
			if d.RetryAfter == core.Never {
				return // duplicates that together exceed the capacity
			}
			if d.RetryAfter > wait {
				wait, step = d.RetryAfter, tick(checks[i].Limit)
			}
		}
		if early := s.peekAt(t, wait-step, checks...); allAllowed(early) {
			t.Fatalf("%s: passes one tick before %v", questionString(checks), wait)
		}
		s.wait(wait)
		if late := s.allowAll(t, checks...); !allAllowed(late) {
			t.Fatalf("%s: is refused at %v", questionString(checks), wait)
		}
	})
}

func neverAboveCapacity(t *testing.T, s *stand) {
	rapid.Check(t, func(t *rapid.T) {
		l, key := drawLimit(t, s.algorithm), s.key()
		s.use(t, key, l)
		other := of("leaky", 5, time.Second)
		before := s.peek(t, key, l)
		cost := l.Capacity() + rapid.SampledFrom([]int{1, 2, l.Capacity(), 1 << 60}).Draw(t, "above")
		decisions := s.allowAll(t,
			core.Check{Key: key, Limit: other, Cost: 1},
			core.Check{Key: key, Limit: l, Cost: cost})
		if d := decisions[1]; d.Allowed || d.RetryAfter != core.Never || d.Remaining != before.Remaining {
			t.Fatalf("%d under %s: %+v, want RetryAfter Never and %d remaining", cost, l, answerOf(d), before.Remaining)
		}
		if d := decisions[0]; !d.Allowed || d.Remaining != 5 {
			t.Fatalf("the other check of the question: %+v, want allowed and not charged", answerOf(d))
		}
		if after := s.peek(t, key, l); after != before {
			t.Fatalf("afterwards: %+v, want %+v", answerOf(after), answerOf(before))
		}
	})
}

func denialChangesNothing(t *testing.T, s *stand) {
	rapid.Check(t, func(t *rapid.T) {
		l, key := drawLimit(t, s.algorithm), s.key()
		s.use(t, key, l)
		fresh := drawLimit(t, rapid.SampledFrom(everyAlgorithm).Draw(t, "neighbour")).Named("neighbour")
		cost := s.peek(t, key, l).Remaining + 1
		question := []core.Check{
			{Key: key, Limit: l, Cost: cost},
			{Key: key, Limit: fresh, Cost: drawCost(t, fresh, "neighbour's cost")},
		}
		before := s.peekAt(t, 0, question...)
		later := s.peekAt(t, before[0].NextAfter, question...)
		for range 3 {
			if d := s.allowAll(t, question...); allAllowed(d) {
				t.Fatalf("%s: passes", questionString(question))
			}
		}
		for i, want := range before {
			if got := s.peekAt(t, 0, question...)[i]; got != want {
				t.Fatalf("after a denial check %d is %+v, before it was %+v", i, answerOf(got), answerOf(want))
			}
			if got := s.peekAt(t, before[0].NextAfter, question...)[i]; got != later[i] {
				t.Fatalf("after a denial check %d will be %+v, before it was to be %+v", i, answerOf(got), answerOf(later[i]))
			}
		}
	})
}

func hammering(t *testing.T, s *stand) {
	l, polite, rude := of(s.algorithm, 3, time.Second), s.key(), s.key()
	for step := range 100 {
		asked, hammered := s.allow(t, polite, l, 1), core.Decision{}
		for range 5 {
			if hammered = s.allow(t, rude, l, 1); hammered.Allowed {
				break
			}
		}
		if asked.Allowed != hammered.Allowed {
			t.Fatalf("step %d: who asks once is allowed %t, who hammers %t", step, asked.Allowed, hammered.Allowed)
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
				if passed && other.Limit.Same(c.Limit) {
					asked += other.Cost
				}
			}
			after := s.allow(t, c.Key, c.Limit, 0)
			if after.Remaining != before[i].Remaining-asked {
				t.Fatalf("%s: passed %t, and %s has %d remaining of %d before", questionString(checks), passed, c.Limit, after.Remaining, before[i].Remaining)
			}
			if !passed && after != before[i] {
				t.Fatalf("%s was refused and left %s as %+v, it was %+v", questionString(checks), c.Limit, answerOf(after), answerOf(before[i]))
			}
			if d := decisions[i]; !passed && d.Allowed && (d.RetryAfter != 0 || d.Remaining != before[i].Remaining) {
				t.Fatalf("a passing check of a refused question: %+v, want no RetryAfter and %d remaining", answerOf(d), before[i].Remaining)
			}
		}
	})
}

func allOrNothingOverKeys(t *testing.T, s *stand) {
	l := of(s.algorithm, 2, time.Hour)
	one, two, three := s.key(), s.key(), s.key()
	s.allow(t, two, l, 2)
	question := []core.Check{{Key: one, Limit: l, Cost: 1}, {Key: two, Limit: l, Cost: 1}, {Key: three, Limit: l, Cost: 1}}
	decisions := s.allowAll(t, question...)
	for i, want := range []bool{true, false, true} {
		if decisions[i].Allowed != want {
			t.Errorf("check %d: %+v, want allowed %t", i, answerOf(decisions[i]), want)
		}
	}
	for _, key := range []string{one, three} {
		if d := s.allow(t, key, l, 0); d.Remaining != 2 || d.ResetAfter != 0 {
			t.Errorf("%s was charged by a question that another key refused: %+v", key, answerOf(d))
		}
	}
	s.wait(2 * time.Hour)
	if d := s.allowAll(t, question...); !allAllowed(d) {
		t.Errorf("refused when every key has room: %+v", d)
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
	refused := s.allowAll(t, check(1), check(1))
	if !refused[0].Allowed || refused[1].Allowed || refused[0].Remaining != 1 || refused[1].Remaining != 1 {
		t.Errorf("two more when one remains: %+v", refused)
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
			t.Errorf("question %d: shadow allowed %t, gate allowed %t, want %+v", i, decisions[0].Allowed, decisions[1].Allowed, want)
		}
	}
	gate.Cost = 1
	if d := s.allowAll(t, shadow, gate); d[0].Allowed || !d[1].Allowed || d[1].Remaining != 19 {
		t.Errorf("a full shadow has refused its neighbour: %+v", d)
	}
	// A refused question charges its shadows all the same, and the limit itself has
	// not been touched by its shadow.
	gate.Cost, shadow.Key = 20, s.key()
	if d := s.allowAll(t, gate, shadow); d[0].Allowed || !d[1].Allowed || d[1].Remaining != 1 {
		t.Errorf("a shadow in a refused question: %+v, want it charged", d)
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
	var before core.Decision // what the last charge has left
	for left := 3; left >= 0; left-- {
		for cost := range 5 { // also what costs nothing, and what would not pass
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
		t.Errorf("nothing under a full limit has refused its neighbour: %+v", d)
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
		t.Errorf("nothing under an overfull limit has refused its neighbour: %+v", d)
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
		t.Errorf("a look is told %+v", answerOf(d))
	}
}

func questionsWithoutSense(t *testing.T, s *stand) {
	l, key := of(s.algorithm, 2, time.Hour), s.key()
	ctx := t.Context()
	for name, check := range map[string]core.Check{
		"an empty key":      {Limit: l, Cost: 1},
		"a negative cost":   {Key: key, Limit: l, Cost: -1},
		"a look that costs": {Key: key, Limit: l, Cost: 1, Mode: core.Look},
		"an unknown mode":   {Key: key, Limit: l, Mode: core.Look + 1},
		"a zero limit":      {Key: key, Cost: 1},
		"a bad limit":       {Key: key, Limit: newLimit(s.algorithm, 0, core.PerSecond(1)), Cost: 1},
	} {
		if _, err := s.limiter.AllowAll(ctx, core.Check{Key: key, Limit: l, Cost: 1}, check); err == nil {
			t.Errorf("%s is no error", name)
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
		t.Error("one name with different numbers in one question is no error")
	}
	if d := s.allow(t, key, l, 0); d.Remaining != 2 {
		t.Errorf("%d remaining of 2 after nothing but errors", d.Remaining)
	}
	// A shadow has a state of its own, and so may try other numbers.
	s.allowAll(t,
		core.Check{Key: key, Limit: l.Named("one"), Cost: 1},
		core.Check{Key: key, Limit: of(s.algorithm, 3, time.Hour).Named("one"), Cost: 1, Shadow: true})
}

func clockStepsBack(t *testing.T, s *stand) {
	rapid.Check(t, func(t *rapid.T) {
		l, key := drawLimit(t, s.algorithm), s.key()
		s.use(t, key, l)
		charged := s.allow(t, key, l, drawCost(t, l, "cost"))
		before := s.allow(t, key, l, 0)
		recovery := s.recovery(t, l)
		step := time.Duration(rapid.Int64Range(1, (10*time.Minute).Microseconds()).Draw(t, "step")) * time.Microsecond
		if rapid.Bool().Draw(t, "small") {
			step = min(step, max(time.Microsecond, (charged.ResetAfter/3).Truncate(time.Microsecond)))
		}
		s.wait(-step)
		if d := s.allow(t, key, l, 0); d.Remaining > before.Remaining {
			if s.algorithm != "sliding-window" || sameWindow(l, s.clock.now.Load(), step) {
				t.Fatalf("stepping back %v has minted: %d remained, now %d", step, before.Remaining, d.Remaining)
			}
		}
		d := s.allow(t, key, l, l.Capacity())
		if d.RetryAfter > recovery {
			t.Fatalf("after stepping back %v: locked out for %v, a full recovery is %v", step, d.RetryAfter, recovery)
		}
		s.wait(recovery)
		if d := s.allow(t, key, l, l.Capacity()); d.RetryAfter > recovery {
			t.Fatalf("a recovery after stepping back %v: %+v", step, answerOf(d))
		}
		s.wait(recovery)
		if d := s.peek(t, key, l); !d.Allowed && d.RetryAfter > recovery {
			t.Fatalf("two recoveries after stepping back %v: %+v", step, answerOf(d))
		}
	})
}

// sameWindow reports whether a step back ended in the window in which it began. In
// another the counts are taken as that window's own: none of them is lost, but
// those of the window before weigh what they weigh there.
func sameWindow(l core.Limit, now int64, step time.Duration) bool {
	n := numbersOf(l)
	return n.floor(now)/n.window == n.floor(now+step.Microseconds())/n.window
}

// recovery returns how long a limit takes at most until it is as good as new.
func (s *stand) recovery(t *rapid.T, l core.Limit) time.Duration {
	if s.algorithm == "sliding-window" {
		return 2 * l.Rate().Period
	}
	return s.allow(t, s.key(), l, l.Capacity()).ResetAfter
}

func keysAreApart(t *testing.T, s *stand) {
	l := of(s.algorithm, 1, time.Hour)
	base := s.key()
	for _, key := range []string{base, base + " ", base + "\x00", base + ":", base + "}", "{" + base + "}", base + "%", base + "%3A", base + "é", base + "\xff", base + "=shadow", "#" + base} {
		if d := s.allow(t, key, l, 1); !d.Allowed {
			t.Errorf("the key %q has been charged by another", key)
		}
	}
}

func otherNumbers(t *testing.T, s *stand) {
	key := s.key()
	for _, l := range []core.Limit{
		newLimit(s.algorithm, 1, core.PerHour(1)),
		newLimit(s.algorithm, 2, core.PerHour(1)),
		newLimit(s.algorithm, 1, core.PerMinute(1)),
		newLimit(s.algorithm, 11, core.PerHour(1)),
	} {
		if d := s.allow(t, key, l, l.Capacity()); !d.Allowed {
			t.Errorf("%s has been charged by another: %+v", l, answerOf(d))
		}
	}
	l := newLimit(s.algorithm, 1, core.PerHour(1))
	if d := s.allow(t, key, newLimit(s.algorithm, 1, core.Per(1, 60*time.Minute)), 1); d.Allowed {
		t.Errorf("%s is not one limit with itself", l)
	}
}

func otherNames(t *testing.T, s *stand) {
	key := s.key()
	l := of(s.algorithm, 1, time.Hour)
	limits := []core.Limit{l, l.Named("a"), l.Named("b"), l.Named("A"), l.Named(l.Name()), l.Named("a:shadow")}
	for _, algorithm := range everyAlgorithm {
		if algorithm != s.algorithm {
			limits = append(limits, of(algorithm, 1, time.Hour), of(algorithm, 1, time.Hour).Named("a"))
		}
	}
	for _, l := range limits {
		if d := s.allow(t, key, l, 1); !d.Allowed {
			t.Errorf("%s has been charged by another: %+v", l, answerOf(d))
		}
	}
}

func namedKeepsUsed(t *testing.T, s *stand) {
	key := s.key()
	plan := func(n int) core.Limit { return of(s.algorithm, n, time.Hour).Named("plan") }
	s.allow(t, key, plan(10), 7)
	if d := s.allow(t, key, plan(20), 0); d.Remaining != 13 {
		t.Errorf("7 of 10 used, and of 20 %d remain, want 13", d.Remaining)
	}
	if d := s.allow(t, key, plan(20), 13); !d.Allowed || d.Remaining != 0 {
		t.Errorf("13 more of 20: %+v", answerOf(d))
	}
	if d := s.allow(t, key, plan(20), 1); d.Allowed {
		t.Errorf("21 of 20: %+v", answerOf(d))
	}
	if d := s.allow(t, key, plan(20), 20); !s.passesAt(t, key, plan(20), 20, d.RetryAfter) {
		t.Errorf("refused at its RetryAfter of %v after the change", d.RetryAfter)
	}
}

func (s *stand) passesAt(t *testing.T, key string, l core.Limit, n int, wait time.Duration) bool {
	early := s.peekAt(t, wait-tick(l), core.Check{Key: key, Limit: l, Cost: n})[0]
	return !early.Allowed && s.peekAt(t, wait, core.Check{Key: key, Limit: l, Cost: n})[0].Allowed
}

func namedIsClamped(t *testing.T, s *stand) {
	key := s.key()
	plan := func(n int) core.Limit { return of(s.algorithm, n, time.Hour).Named("plan") }
	s.allow(t, key, plan(20), 15)
	d := s.allow(t, key, plan(10), 1) // writes what it has been clamped to
	if d.Allowed || d.Remaining != 0 {
		t.Fatalf("15 of 20 used, and of 10: %+v", answerOf(d))
	}
	if !s.passesAt(t, key, plan(10), 1, d.RetryAfter) {
		t.Errorf("refused at its RetryAfter of %v after the change", d.RetryAfter)
	}
	if d := s.allow(t, key, plan(20), 0); d.Remaining != 10 {
		t.Errorf("back at 20, %d remain, want 10", d.Remaining)
	}
}

func previousIsClamped(t *testing.T, s *stand) {
	key := s.key()
	plan := func(n int) core.Limit { return of(s.algorithm, n, time.Hour).Named("plan") }
	s.allow(t, key, plan(10), 10)
	s.wait(66 * time.Minute) // a tenth of the next window: nine tenths of the ten count
	if d := s.allow(t, key, plan(4), 4); d.Allowed || d.Remaining != 0 {
		t.Fatalf("ten in the previous window, and of 4: %+v", answerOf(d))
	}
	if d := s.allow(t, key, plan(10), 0); d.Remaining != 6 { // 10 − 0.9·4 = 6.4
		t.Errorf("back at 10, %d remain, want 6", d.Remaining)
	}
}

// renumberedKeepsUsed changes the capacity of a limit that has been used at random. What is used is
// what it was, to the last fraction; so as many are left as the new capacity has more than that.
func renumberedKeepsUsed(t *testing.T, s *stand) {
	rapid.Check(t, func(t *rapid.T) {
		l, key := drawLimit(t, s.algorithm).Named("plan"), s.key()
		rate := l.Rate()
		capacity := max(1, rapid.SampledFrom([]int{1, l.Capacity() / 300, l.Capacity() / 3, l.Capacity() - 1}).Draw(t, "smaller capacity"))
		smaller := newLimit(s.algorithm, capacity, rate).Named("plan")
		if smaller.Validate() != nil || tick(smaller) != tick(l) {
			return
		}
		s.use(t, key, l)
		before := s.peek(t, key, l)
		want := max(0, before.Remaining-(l.Capacity()-capacity))
		d := s.allow(t, key, smaller, want+1)
		if d.Allowed || d.Remaining != want {
			t.Fatalf("%d of %s remain, and then under %s: %+v, want %d", before.Remaining, l, smaller, answerOf(d), want)
		}
		// A denial has written what it was clamped to.
		back := s.allow(t, key, l, 0)
		if want := max(before.Remaining, l.Capacity()-capacity); back.Remaining != want {
			t.Fatalf("%d of %s remain after it was %s, want %d", back.Remaining, l, smaller, want)
		}
	})
}

// exceptSliding are the algorithms whose RetryAfter is exact when their window has become longer.
var exceptSliding = slices.DeleteFunc(slices.Clone(everyAlgorithm), func(name string) bool { return name == "sliding-window" })

func longerTellsWhen(t *testing.T, s *stand) {
	short, long := of(s.algorithm, 3, 60*time.Millisecond).Named("plan"), of(s.algorithm, 3, 24*time.Hour).Named("plan")
	for _, cost := range []int{1, 2, 3} {
		key := s.key()
		for range 3 {
			s.allow(t, key, short, 1)
			s.wait(time.Millisecond)
		}
		d := s.allow(t, key, long, cost)
		for d.Allowed { // what has drained
			d = s.allow(t, key, long, cost)
		}
		if !s.passesAt(t, key, long, cost, d.RetryAfter) {
			t.Errorf("%d of 3, all used: %+v, want them to pass then and not a tick before", cost, answerOf(d))
		}
	}
}

func previousFills(t *testing.T, s *stand) {
	key := s.key()
	plan := func(n int) core.Limit { return core.SlidingWindow(n, 3*time.Hour).Named("plan") }
	s.clock.now.Store(start.Truncate(3 * time.Hour).UnixMicro())
	s.allow(t, key, plan(9_001), 7_099)
	s.wait(3*time.Hour + 144*time.Minute) // a fifth of them counts: 1,419.8
	for range 6 {
		if d := s.allow(t, key, plan(29), 1); d.Allowed || d.Remaining != 0 {
			t.Fatalf("1,419.8 used, and of 29: %+v", answerOf(d))
		}
	}
	for _, cost := range []int{1, 29} {
		if d := s.allow(t, key, plan(29), cost); !s.passesAt(t, key, plan(29), cost, d.RetryAfter) {
			t.Errorf("%d of 29 do not pass at their RetryAfter of %v, or pass before", cost, d.RetryAfter)
		}
	}
}

func resetMakesNew(t *testing.T, s *stand) {
	rapid.Check(t, func(t *rapid.T) {
		l, key := drawLimit(t, s.algorithm), s.key()
		s.use(t, key, l)
		other := l.Named("other")
		s.allow(t, key, l, 1)
		kept := s.allow(t, key, other, 1)
		shadow := core.Check{Key: key, Limit: l, Cost: l.Capacity(), Shadow: true}
		s.allowAll(t, shadow)
		for range 2 { // the second finds nothing, which is no error
			if err := s.limiter.Reset(t.Context(), key, l); err != nil {
				t.Fatalf("Reset(%q, %s): %v", key, l, err)
			}
		}
		if d := s.allowAll(t, shadow)[0]; !d.Allowed {
			t.Fatalf("the shadow was not reset: %+v", answerOf(d))
		}
		if d := s.allow(t, key, other, 0); d.Remaining != kept.Remaining {
			t.Fatalf("another limit was reset too: %+v", answerOf(d))
		}
		if d := s.peek(t, key, l); d != (core.Decision{Allowed: true, Limit: l, Remaining: l.Capacity()}) {
			t.Fatalf("after a reset: %+v", answerOf(d))
		}
	})
}

// evenPace checks what leaves the queue: nothing sooner than one turn after what
// left before, and nothing later than it has to.
func evenPace(t *testing.T, s *stand) {
	rapid.Check(t, func(t *rapid.T) {
		l, key := drawLimit(t, s.algorithm), s.key()
		n := numbersOf(l)
		s.clock.now.Store(start.UnixMicro() + rapid.Int64Range(0, 2_000_000).Draw(t, "start"))
		free := new(big.Rat) // when the queue is empty, in ticks
		for range rapid.IntRange(1, 15).Draw(t, "requests") {
			cost, now := drawCost(t, l, "cost"), s.clock.now.Load()
			arrived := new(big.Rat).SetInt64(n.floor(now))
			d := s.allow(t, key, l, cost)
			if d.Allowed {
				turn := arrived
				if free.Cmp(turn) > 0 {
					turn = free
				}
				wait := roundedUp(new(big.Rat).Sub(turn, arrived)).Int64() * n.tick
				if d.Delay.Microseconds() != wait {
					t.Fatalf("%d under %s: a Delay of %v, want %v", cost, l, d.Delay, time.Duration(wait)*time.Microsecond)
				}
				service := new(big.Rat).SetInt64(int64(cost))
				free = new(big.Rat).Add(turn, service.Quo(service, n.pace))
			} else if d.Delay != 0 {
				t.Fatalf("refused, with a Delay of %v", d.Delay)
			}
			if wait := drawWait(t, d); wait.Microseconds() < latest-now {
				s.wait(wait)
			}
		}
	})
}

func nobodyQueues(t *testing.T, s *stand) {
	l, key := of(s.algorithm, 3, time.Second), s.key()
	for range 20 {
		if d := s.allow(t, key, l, 1); d.Delay != 0 {
			t.Errorf("a Delay of %v", d.Delay)
		}
		s.wait(130 * time.Millisecond)
	}
}

func goneCaller(t *testing.T, s *stand) {
	l, key := of(s.algorithm, 3, time.Hour), s.key()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.limiter.Allow(ctx, key, l); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled question: %v, want context.Canceled", err)
	}
	if err := s.limiter.Reset(ctx, key, l); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled reset: %v, want context.Canceled", err)
	}
	if d := s.allow(t, key, l, 0); d.Remaining != 3 {
		t.Errorf("%d remaining of 3 after nothing but cancelled questions", d.Remaining)
	}
}
