package storetest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-go/ratelimit/core"
)

func settledTogether(t *testing.T, s *stand) {
	rapid.Check(t, func(t *rapid.T) {
		s.clock.now.Store(start.UnixMicro())
		var checks []core.Check
		var costs []int
		key, other := s.key(), s.key()
		for range rapid.IntRange(1, 4).Draw(t, "limits") {
			l := drawLimit(t, rapid.SampledFrom(everyAlgorithm).Draw(t, "algorithm"))
			c := core.Check{Key: rapid.SampledFrom([]string{key, other}).Draw(t, "key"), Limit: l, Cost: drawCost(t, l, "cost")}
			c.Shadow = rapid.IntRange(0, 3).Draw(t, "shadow") == 0
			if !slices.ContainsFunc(checks, func(d core.Check) bool { return identity(d) == identity(c) }) {
				checks, costs = append(checks, c), append(costs, rapid.IntRange(0, l.Capacity()).Draw(t, "real cost"))
			}
		}
		settleAs(t, s.reserve(t, checks...), costs...)
		for i, c := range checks {
			c.Cost, c.Mode = 0, core.Look
			if d := s.allowAll(t, c)[0]; d.Remaining != c.Limit.Capacity()-costs[i] {
				t.Fatalf("%s settled at %d: %d remain, want %d", callString(checks[i:i+1]), costs[i], d.Remaining, c.Limit.Capacity()-costs[i])
			}
		}
	})
}

func refundIsExact(t *testing.T, s *stand) {
	rapid.Check(t, func(t *rapid.T) {
		l, key := drawLimit(t, s.algorithm), s.key()
		s.use(t, key, l)
		before := s.peek(t, key, l)
		cost := drawCost(t, l, "cost")
		if !s.allow(t, key, l, cost).Allowed {
			return
		}
		if _, err := s.limiter.Refund(t.Context(), key, l, cost); err != nil {
			t.Fatal(err)
		}
		if after := s.peek(t, key, l); after != before {
			t.Fatalf("%d under %s, taken and refunded: %+v, want %+v", cost, l, answerOf(after), answerOf(before))
		}
		for range 2 { // the second finds nothing to give back
			if _, err := s.limiter.Refund(t.Context(), key, l, l.Capacity()); err != nil {
				t.Fatal(err)
			}
		}
		if d := s.allow(t, key, l, 0); d.Remaining > l.Capacity() || d.Remaining < before.Remaining {
			t.Fatalf("refunded more than was used: %d of %d remain", d.Remaining, l.Capacity())
		}
		admitted := 0
		for s.algorithm != "sliding-window" && admitted <= 20 && l.Capacity() <= 20 && s.allow(t, key, l, 1).Allowed {
			admitted++
		}
		if admitted > l.Capacity() {
			t.Fatalf("%s admits %d after refunds", l, admitted)
		}
	})
}

func chargeTakesWhatIsLeft(t *testing.T, s *stand) {
	rapid.Check(t, func(t *rapid.T) {
		l, key := drawLimit(t, s.algorithm), s.key()
		s.use(t, key, l)
		before := s.peek(t, key, l)
		n := drawCost(t, l, "units")
		if _, err := s.limiter.Charge(t.Context(), key, l, n); err != nil {
			t.Fatal(err)
		}
		d := s.allow(t, key, l, 0)
		if want := max(0, before.Remaining-n); d.Remaining != want {
			t.Fatalf("%d charged under %s where %d remained: %d remain, want %d", n, l, before.Remaining, d.Remaining, want)
		}
		if denied := s.allow(t, key, l, l.Capacity()); !denied.Allowed {
			if !s.passesWithin(t, key, l, denied.RetryAfter) {
				t.Fatalf("%s: denied at its RetryAfter of %v after a charge", l, denied.RetryAfter)
			}
		}
	})
}

// chargeAllIsCharge charges the same units to two keys, by either verb.
func chargeAllIsCharge(t *testing.T, s *stand) {
	rapid.Check(t, func(t *rapid.T) {
		l, one, other := drawLimit(t, s.algorithm), s.key(), s.key()
		shadow := rapid.Bool().Draw(t, "shadow")
		for range rapid.IntRange(1, 8).Draw(t, "steps") {
			cost := drawCost(t, l, "cost")
			want, err := s.limiter.Charge(tContext(t), one, l, cost)
			if err != nil {
				t.Fatal(err)
			}
			got, err := s.limiter.ChargeAll(tContext(t), core.Check{Key: other, Limit: l, Cost: cost, Shadow: shadow})
			if err != nil || answerOf(got[0]) != answerOf(want) {
				t.Fatalf("ChargeAll of %d: %+v, %v, want %+v", cost, answerOf(got[0]), err, answerOf(want))
			}
			if told := s.peekAt(t, 0, core.Check{Key: other, Limit: l, Mode: core.Look, Shadow: shadow})[0]; answerOf(told) != answerOf(want) {
				t.Fatalf("after ChargeAll of %d: %+v, want %+v", cost, answerOf(told), answerOf(want))
			}
			s.wait(drawWait(t, want))
		}
	})
}

// chargesSeveral charges several keys in one go, a shadow among them, and changes nothing by a call without sense.
func chargesSeveral(t *testing.T, s *stand) {
	l, one, other := newLimit(s.algorithm, 10, core.PerHour(10)), s.key(), s.key()
	s.allow(t, one, l, 7)
	for name, checks := range map[string][]core.Check{
		"nothing":         {},
		"a mode":          {{Key: one, Limit: l}, {Key: other, Limit: l, Mode: core.Look}},
		"a negative cost": {{Key: one, Limit: l}, {Key: other, Limit: l, Cost: -1}},
		"no limit":        {{Key: one, Limit: l}, {Key: other}},
		"places":          {{Key: one, Limit: l}, {Key: other, Limit: concurrent(3, time.Minute)}},
		"a ban":           {{Key: one, Limit: l}, {Key: other, Limit: core.Ban{Strikes: core.SlidingLog(5, time.Minute)}.Limit()}},
	} {
		if _, err := s.limiter.ChargeAll(t.Context(), checks...); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%s: %v, want an error that is ErrInvalid", name, err)
		}
	}
	decisions, err := s.limiter.ChargeAll(t.Context(),
		core.Check{Key: one, Limit: l, Cost: 8}, core.Check{Key: other, Limit: core.Unlimited, Cost: 3}, core.Check{Key: other, Limit: l, Cost: 4},
		core.Check{Key: one, Limit: l, Cost: 2, Shadow: true})
	if err != nil {
		t.Fatal(err)
	}
	if decisions[0].Remaining != 0 || decisions[1].Limit != core.Unlimited || decisions[2].Remaining != 6 || decisions[3].Remaining != 8 {
		t.Errorf("%+v, want 0, unlimited, 6 and 8 left", decisions)
	}
	for key, want := range map[string]int{one: 0, other: 6} {
		if d := s.peek(t, key, l); d.Remaining != want {
			t.Errorf("%d remain of %s, want %d", d.Remaining, key, want)
		}
	}
}

// passesWithin reports whether all of a limit passes after a wait, and not a tick
// before.
func (s *stand) passesWithin(t *rapid.T, key string, l core.Limit, wait time.Duration) bool {
	all := core.Check{Key: key, Limit: l, Cost: l.Capacity()}
	return !s.peekAt(t, wait-tick(l), all)[0].Allowed && s.peekAt(t, wait, all)[0].Allowed
}

func settledOnce(t *testing.T, s *stand) {
	l, full := of(s.algorithm, 10, time.Hour), of("leaky", 1, time.Hour)
	key := s.key()
	s.allow(t, key, full, 1)
	denied := s.reserve(t, core.Check{Key: key, Limit: l, Cost: 4}, core.Check{Key: key, Limit: full, Cost: 1},
		core.Check{Key: key, Limit: l, Cost: 4, Shadow: true})
	if denied.Allowed() {
		t.Fatal("passes a full limit")
	}
	s.allow(t, key, l, 5)
	settleAs(t, denied, 0, 0, 0)
	if d := s.allow(t, key, l, 0); d.Remaining != 5 {
		t.Errorf("a denied reservation has given back: %d of 10 remain, want 5", d.Remaining)
	}
	if d := s.allowAll(t, core.Check{Key: key, Limit: l, Shadow: true, Mode: core.Look})[0]; d.Remaining != 10 {
		t.Errorf("its shadow has %d of 10 remaining, want all", d.Remaining)
	}
	r := s.reserve(t, core.Check{Key: key, Limit: l, Cost: 3})
	settleAs(t, r, 1)
	if err := r.Settle(t.Context(), 0); err == nil {
		t.Error("settling twice is no error")
	}
	if d := s.allow(t, key, l, 0); d.Remaining != 4 {
		t.Errorf("%d of 10 remain, want 4", d.Remaining)
	}
	r = s.reserve(t, core.Check{Key: key, Limit: l, Cost: 2}, core.Check{Key: key, Limit: l, Cost: 2})
	if err := r.Cancel(t.Context()); err != nil {
		t.Error(err)
	}
	if d := s.allow(t, key, l, 0); d.Remaining != 4 {
		t.Errorf("two checks on one limit cancelled: %d of 10 remain, want 4", d.Remaining)
	}
}

func settledAcrossPlans(t *testing.T, s *stand) {
	plan := func(n int) core.Quota { return of(s.algorithm, n, time.Hour).Named("plan") }
	for _, test := range []struct{ before, after, used int }{{10, 100, 60}, {100, 10, 4}} {
		key := s.key()
		r := s.reserve(t, core.Check{Key: key, Limit: plan(test.before), Cost: 3})
		s.allow(t, key, plan(test.after), test.used)
		settleAs(t, r, 0)
		want := test.after - test.used
		if s.algorithm == "shaping" {
			want -= 3 // others have queued behind
		}
		if d := s.allow(t, key, plan(test.after), 0); d.Remaining != want {
			t.Errorf("3 of a plan of %d given back after %d of %d: %d remain, want %d", test.before, test.used, test.after, d.Remaining, want)
		}
	}
}

func settlementsWithoutSense(t *testing.T, s *stand) {
	l, key := of(s.algorithm, 10, time.Hour), s.key()
	s.allow(t, key, l, 5)
	r := s.reserve(t, core.Check{Key: key, Limit: l, Cost: 1})
	failure := func(_ core.Decision, err error) error { return err }
	for name, err := range map[string]error{
		"a negative refund":   failure(s.limiter.Refund(t.Context(), key, l, -1)),
		"a negative charge":   failure(s.limiter.Charge(t.Context(), key, l, -1)),
		"no key":              failure(s.limiter.Charge(t.Context(), "", l, 1)),
		"no limit":            failure(s.limiter.Refund(t.Context(), key, core.Quota{}, 1)),
		"too few real costs":  r.Settle(t.Context()),
		"too many real costs": r.Settle(t.Context(), 0, 0),
		"a negative cost":     r.Settle(t.Context(), -1),
	} {
		if err == nil {
			t.Errorf("%s is no error", name)
		}
	}
	if _, err := s.limiter.Reserve(t.Context()); err == nil {
		t.Error("to reserve nothing is no error")
	}
	if d := s.allow(t, key, l, 0); d.Remaining != 4 {
		t.Errorf("%d of 10 remain after nothing but errors, want 4", d.Remaining)
	}
}

func denialRenumbersNothing(t *testing.T, s *stand) {
	short, long := core.FixedWindow(6, time.Second).Named("plan"), core.FixedWindow(6, 2*time.Second).Named("plan")
	key := s.key()
	s.allow(t, key, short, 5)
	if d := s.allow(t, key, long, 2); d.Allowed {
		t.Fatalf("2 more than 5 of 6 pass: %+v", answerOf(d))
	}
	s.wait(-time.Second / 2)
	// No window stays open for longer than its own length, and a settlement goes by that.
	if _, err := s.limiter.Charge(tContext(t), key, short, 1); err != nil {
		t.Fatal(err)
	}
	if d := s.peek(t, key, long); d.ResetAfter != time.Second || d.Remaining != 0 {
		t.Errorf("%+v, want nothing left for a second", answerOf(d))
	}
}
