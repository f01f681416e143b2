package storetest

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-go/ratelimit/core"
)

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
			t.Fatalf("%s: passes one tick before %v", callString(checks), wait)
		}
		s.wait(wait)
		if late := s.allowAll(t, checks...); !allAllowed(late) {
			t.Fatalf("%s: is denied at %v", callString(checks), wait)
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
			t.Fatalf("the other check of the call: %+v, want allowed and not charged", answerOf(d))
		}
		if after := s.peek(t, key, l); after != before {
			t.Fatalf("afterwards: %+v, want %+v", answerOf(after), answerOf(before))
		}
	})
}
