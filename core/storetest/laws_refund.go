package storetest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-go/ratelimit/core"
)

// oldestPlacesAreGivenBack compares a store with the model, at random, where places are given back without telling whose.
// Time goes on with each step, so that no two leases of a key end at once.
func oldestPlacesAreGivenBack(t *testing.T, s *stand) {
	rapid.Check(t, func(t *rapid.T) {
		l, key := concurrent(rapid.IntRange(1, 12).Draw(t, "n"), rapid.SampledFrom(leases).Draw(t, "lease")), s.key()
		if rapid.Bool().Draw(t, "named") {
			l = l.Named("plan")
		}
		shadow := rapid.Bool().Draw(t, "shadow")
		check := func(cost int) core.Check { return core.Check{Key: key, Limit: l, Cost: cost, Shadow: shadow} }
		var model places
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			s.wait(time.Microsecond)
			now := s.clock.now.Load()
			switch rapid.IntRange(0, 7).Draw(t, "step") {
			case 0, 1, 2:
				cost := rapid.IntRange(1, l.Capacity()).Draw(t, "cost")
				want := model.decide(l, cost, 0, now, true, true)
				decisions, taken := s.acquire(t, check(cost))
				expectPlaces(t, decisions[0], want)
				if want.Allowed {
					own := model.taken[len(model.taken)-1]
					own.check, own.receipt = taken[0].check, taken[0].receipt
				}
			case 3, 4, 5:
				n := rapid.SampledFrom([]int{1, 1, 2, 3, l.Capacity(), 256}).Draw(t, "given back")
				model.giveBackOldest(n, now)
				decisions, err := s.limiter.RefundAll(tContext(t), check(n))
				if err != nil {
					t.Fatalf("RefundAll of %d: %v", n, err)
				}
				expectPlaces(t, decisions[0], model.decide(l, 0, 0, now, false, false))
			case 6:
				if some := slices.DeleteFunc(slices.Clone(model.taken), func(one *taken) bool { return one.ends == 0 }); len(some) > 0 {
					own := rapid.SampledFrom(some).Draw(t, "settled")
					if rapid.Bool().Draw(t, "renew") {
						s.renewAsModelled(t, own, now)
					} else {
						own.giveBack()
						s.giveBack(t, own)
					}
				}
			default:
				s.wait(rapid.SampledFrom([]time.Duration{l.Rate().Period / 3, l.Rate().Period}).Draw(t, "wait").Truncate(time.Microsecond))
			}
			want := model.decide(l, 0, 0, s.clock.now.Load(), false, false)
			expectPlaces(t, s.peekAt(t, 0, core.Check{Key: key, Limit: l, Mode: core.Look, Shadow: shadow})[0], want)
		}
	})
}

// renewAsModelled renews places of which some may have been given back: then there is no lease to renew.
func (s *stand) renewAsModelled(t *rapid.T, own *taken, now int64) {
	want := own.cost < own.check.Units() || own.renew(own.check.Limit, now)
	if lost := s.renew(t, own); lost[0] != want {
		t.Fatalf("renewed %d of %d places: lost %t, want %t", own.cost, own.check.Units(), lost[0], want)
	}
}

// A call gives back places of several keys, and units of quotas beside them, all in one go.
func refundsOfSeveralLimits(t *testing.T, s *stand) {
	rate, l := core.FixedWindow(10, time.Hour), concurrent(5, time.Minute)
	one, other, rated := s.key(), s.key(), s.key()
	s.must(t, core.Check{Key: one, Limit: l, Cost: 4})
	s.must(t, core.Check{Key: other, Limit: l, Cost: 5})
	s.allow(t, rated, rate, 7)
	s.allowAll(t, core.Check{Key: rated, Limit: rate, Cost: 9, Shadow: true})
	ban := core.Ban{Strikes: core.SlidingLog(5, time.Minute)}
	if _, err := s.limiter.Strike(t.Context(), rated, ban, 4); err != nil {
		t.Fatal(err)
	}
	decisions, err := s.limiter.RefundAll(t.Context(),
		core.Check{Key: one, Limit: l, Cost: 3}, core.Check{Key: rated, Limit: rate, Cost: 2}, core.Check{Key: one, Limit: core.Unlimited},
		core.Check{Key: rated, Limit: rate, Cost: 4, Shadow: true}, core.Check{Key: other, Limit: l}, core.Check{Key: rated, Limit: ban.Limit(), Cost: 3})
	if err != nil {
		t.Fatal(err)
	}
	var remaining []int
	for _, i := range []int{0, 1, 3, 4, 5} {
		remaining = append(remaining, decisions[i].Remaining)
	}
	if !slices.Equal(remaining, []int{4, 5, 5, 1, 4}) || decisions[2].Limit != core.Unlimited {
		t.Errorf("%v remain, want 4 places, 5 units, 5 of the shadow, 1 place, and 4 strikes: %+v", remaining, decisions)
	}
	s.expectFree(t, "afterwards", one, l, 4)
	s.expectFree(t, "afterwards", other, l, 1)
}

// refundAllIsRefund gives the same units of two keys back, by either verb.
func refundAllIsRefund(t *testing.T, s *stand) {
	rapid.Check(t, func(t *rapid.T) {
		l, one, other := drawLimit(t, s.algorithm), s.key(), s.key()
		for range rapid.IntRange(1, 8).Draw(t, "steps") {
			cost := drawCost(t, l, "cost")
			if rapid.Bool().Draw(t, "charge") {
				s.allow(t, one, l, cost)
				s.allow(t, other, l, cost)
				continue
			}
			want, err := s.limiter.Refund(tContext(t), one, l, cost)
			if err != nil {
				t.Fatal(err)
			}
			got, err := s.limiter.RefundAll(tContext(t), core.Check{Key: other, Limit: l, Cost: cost})
			if err != nil || got[0] != want {
				t.Fatalf("RefundAll of %d: %+v, %v, want %+v", cost, answerOf(got[0]), err, answerOf(want))
			}
			s.wait(drawWait(t, got[0]))
		}
	})
}

func refundsWithoutSense(t *testing.T, s *stand) {
	key, l, ctx := s.key(), concurrent(300, time.Minute), t.Context()
	s.must(t, core.Check{Key: key, Limit: l, Cost: 300})
	for name, checks := range map[string][]core.Check{
		"nothing":                 {},
		"a mode":                  {{Key: key, Limit: l, Mode: core.Condition}},
		"a headroom":              {{Key: key, Limit: l, Headroom: 1}},
		"a negative cost":         {{Key: key, Limit: l, Cost: -1}},
		"no key":                  {{Limit: l}},
		"no limit":                {{Key: key}},
		"257 places":              {{Key: key, Limit: l, Cost: 257}},
		"257 places in two parts": {{Key: key, Limit: l, Cost: 256}, {Key: s.key(), Limit: l}},
	} {
		if _, err := s.limiter.RefundAll(ctx, checks...); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%s: %v, want an error that is ErrInvalid", name, err)
		}
	}
	s.expectFree(t, "after nothing but errors", key, l, 0)
}
