package storetest

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-go/ratelimit/core"
)

// places are held under this algorithm alone.
var concurrently = []string{"concurrent"}

// holding are the laws of places that a check takes, and holds until they are given back or their lease ends.
var holding = []law{
	{"never more than n places are held, and never fewer than fit", concurrently, neverMoreThanPlaces},
	{"a named limit with other numbers evicts nobody", concurrently, otherNumbersEvictNobody},
	{"a lease ends at its end and not one microsecond before", concurrently, leaseEndsExactly},
	{"places given back twice are given back once", concurrently, givenBackTwice},
	{"what is given back after its lease is nobody else's", concurrently, givenBackTooLate},
	{"a lease that has ended is not renewed", concurrently, endedIsNotRenewed},
	{"all places of a call have one lease", concurrently, placesOfOneCall},
	{"a call takes places of all its keys, or none", concurrently, placesOfSeveralKeys},
	{"renewals of several keys are told apart", concurrently, renewalsAreToldApart},
	{"a call that is denied takes no place and charges no rate", concurrently, deniedTakesNothing},
	{"tokens grow, whatever the clock does", concurrently, tokensGrow},
	{"a clock that steps back frees no place and locks nobody out longer than the longest lease", concurrently, clockBackKeepsPlaces},
	{"a look and a peek take no place", concurrently, peekTakesNoPlace},
	{"a shadow has places of its own", concurrently, shadowPlaces},
	{"Reset gives all places back", concurrently, resetGivesBack},
	{"the oldest places are given back, and never more than are held", concurrently, oldestPlacesAreGivenBack},
	{"places of several keys and units are given back together", concurrently, refundsOfSeveralLimits},
	{"refunds without sense are errors that change nothing", concurrently, refundsWithoutSense},
	{"a limit that holds is estimated where it denies", concurrently, deniedIsEstimated},
	{"calls that cannot give a place back are errors that change nothing", concurrently, keptPlacesWithoutSense},
}
var leases = []time.Duration{10 * time.Millisecond, 999_999 * time.Microsecond, time.Second, 30 * time.Second, 10 * time.Minute}

func neverMoreThanPlaces(t *testing.T, s *stand) {
	rapid.Check(t, func(t *rapid.T) {
		l := concurrent(rapid.IntRange(1, 6).Draw(t, "n"), rapid.SampledFrom(leases).Draw(t, "lease"))
		s.agreeOnPlaces(t, []core.Places{l})
	})
}

func otherNumbersEvictNobody(t *testing.T, s *stand) {
	rapid.Check(t, func(t *rapid.T) {
		var versions []core.Places
		for range rapid.IntRange(2, 4).Draw(t, "versions") {
			versions = append(versions, concurrent(rapid.IntRange(1, 8).Draw(t, "n"), rapid.SampledFrom(leases).Draw(t, "lease")).Named("plan"))
		}
		s.agreeOnPlaces(t, versions)
	})

	key := s.key()
	plan := func(n int, lease time.Duration) core.Places { return concurrent(n, lease).Named("plan") }
	check := func(n int) core.Check { return core.Check{Key: key, Limit: plan(n, time.Minute)} }
	var all []*taken
	for range 5 {
		all = append(all, s.must(t, check(5))...)
	}
	s.expectDenied(t, "5 held, and n made 2", check(2))
	for i, lost := range s.renew(t, all...) {
		if lost {
			t.Errorf("holder %d of 5 has lost its place when n was made 2", i)
		}
	}
	s.giveBack(t, all[:3]...)
	s.expectDenied(t, "2 held of 2", check(2))
	s.giveBack(t, all[3])
	s.must(t, check(2))
	s.must(t, check(3)) // made larger, it admits at once
}

// agreeOnPlaces compares a store with the model, at random, in which all holders have places under any
// version of a limit.
func (s *stand) agreeOnPlaces(t *rapid.T, versions []core.Places) {
	s.clock.now.Store(start.UnixMicro() + rapid.Int64Range(0, 2_000_000).Draw(t, "start"))
	keys := []string{s.key(), s.key()}
	models := map[string]*places{keys[0]: {}, keys[1]: {}}
	var all []*taken
	for range rapid.IntRange(1, 40).Draw(t, "steps") {
		key, l := rapid.SampledFrom(keys).Draw(t, "key"), rapid.SampledFrom(versions).Draw(t, "limit")
		model, now := models[key], s.clock.now.Load()
		switch rapid.IntRange(0, 6).Draw(t, "step") {
		case 0, 1, 2:
			check := core.Check{Key: key, Limit: l, Cost: rapid.IntRange(1, l.Capacity()+1).Draw(t, "cost")}
			if rapid.IntRange(0, 2).Draw(t, "with headroom") == 0 {
				check.Headroom = drawHeadroom(t, check)
			}
			want := model.decide(l, check.Cost, check.Headroom, now, true, true)
			decisions, taken := s.acquire(t, check)
			expectPlaces(t, decisions[0], want)
			if !want.Allowed {
				break
			}
			if decisions[0].Token <= model.token {
				t.Fatalf("token %d after %d", decisions[0].Token, model.token)
			}
			model.token = decisions[0].Token
			own := model.taken[len(model.taken)-1]
			own.check, own.receipt = taken[0].check, taken[0].receipt
			all = append(all, own)
		case 3:
			want := model.decide(l, 1, 0, now, false, false)
			expectPlaces(t, s.peek(t, key, l), want)
			expectPlaces(t, s.peekAt(t, 0, core.Check{Key: key, Limit: l, Mode: core.Look})[0], model.decide(l, 0, 0, now, false, false))
		case 4, 5:
			if len(all) == 0 {
				continue
			}
			some := rapid.SliceOfNDistinct(rapid.IntRange(0, len(all)-1), 1, min(3, len(all)), rapid.ID).Draw(t, "settled")
			renew := rapid.Bool().Draw(t, "renew")
			var settled []*taken
			for _, i := range some {
				if renew {
					all[i].check.Limit = rapid.SampledFrom(versions).Draw(t, "renewed under")
				}
				settled = append(settled, all[i])
			}
			s.settleAsModelled(t, renew, now, settled)
		default:
			waits := []time.Duration{0, time.Microsecond, l.Rate().Period / 3, l.Rate().Period}
			for _, ends := range model.ends(now) {
				waits = append(waits, since(now, ends)-time.Microsecond, since(now, ends))
			}
			s.wait(rapid.SampledFrom(waits).Draw(t, "wait").Truncate(time.Microsecond))
		}
	}
}

// expectPlaces compares a decision with that of the model.
func expectPlaces(t rapid.TB, got, want core.Decision) {
	t.Helper()
	if (got.ResetAfter == 0) != (want.NextAfter == 0) || got.ResetAfter < want.NextAfter || got.Allowed && got.Token == 0 && want.Token != 0 {
		t.Fatalf("%+v, whose ResetAfter and Token do not fit %+v", got, want)
	}
	got.Token, got.ResetAfter = 0, 0
	if got != want {
		t.Fatalf("%s: %+v estimated %t, want %+v estimated %t", got.Limit, answerOf(got), got.Estimated, answerOf(want), want.Estimated)
	}
}

func placesOfOneCall(t *testing.T, s *stand) {
	l := concurrent(9, time.Minute)
	check := func(key string, cost int) core.Check { return core.Check{Key: key, Limit: l, Cost: cost} }
	for _, alike := range []bool{false, true} {
		key := s.key()
		checks := []core.Check{check(key, 5)}
		if alike {
			checks = []core.Check{check(key, 3), check(key, 2)}
		}
		held := s.must(t, checks...)
		s.expectFree(t, "5 of 9 taken", key, l, 4)
		s.wait(50 * time.Second)
		if lost := s.renew(t, held...); lost[0] || lost[len(lost)-1] {
			t.Errorf("5 renewed: lost %v", lost)
		}
		s.wait(50 * time.Second)
		s.expectFree(t, "5 of 9 renewed", key, l, 4)
		s.giveBack(t, held...)
		s.expectFree(t, "5 of 9 given back", key, l, 9)
		s.must(t, check(key, 9))
		s.expectFree(t, "all taken", key, l, 0)
	}
	large := concurrent(3000, time.Minute)
	key := s.key()
	held := s.must(t, core.Check{Key: key, Limit: large, Cost: 2500})
	s.expectFree(t, "2500 of 3000 taken", key, large, 500)
	s.renew(t, held...)
	s.giveBack(t, held...)
	s.expectFree(t, "2500 of 3000 given back", key, large, 3000)
}

func renewalsAreToldApart(t *testing.T, s *stand) {
	l := concurrent(1, time.Second)
	var all []*taken
	for range 12 {
		all = append(all, s.must(t, core.Check{Key: s.key(), Limit: l})...)
	}
	for i, one := range all {
		if i%3 == 0 {
			s.giveBack(t, one)
		}
	}
	for i, lost := range s.renew(t, all...) {
		if lost != (i%3 == 0) {
			t.Errorf("renewal %d: lost %t", i, lost)
		}
	}
}

func deniedTakesNothing(t *testing.T, s *stand) {
	for _, several := range []bool{false, true} {
		key, other := s.key(), s.key()
		if !several {
			other = key
		}
		places, rate := core.Check{Key: key, Limit: concurrent(1, time.Minute)}, core.Check{Key: other, Limit: core.FixedWindow(2, time.Hour)}
		held := s.must(t, places, rate)[:1]
		for range 3 {
			if decisions, all := s.acquire(t, places, rate); len(all) > 0 || decisions[0].Token != 0 {
				t.Fatalf("passes where no place is free: %+v", decisions)
			}
		}
		if d := s.peek(t, other, rate.Limit); d.Remaining != 1 {
			t.Errorf("%d of 2 remain of the rate after calls that found no place", d.Remaining)
		}
		s.giveBack(t, held...)
		s.allow(t, other, rate.Limit, 1)
		for range 3 {
			if decisions, all := s.acquire(t, places, rate); len(all) > 0 || decisions[0].Token != 0 || !decisions[0].Allowed {
				t.Fatalf("where the rate denies: %+v", decisions)
			}
		}
		s.expectFree(t, "after calls that a rate has denied", key, places.Limit, 1)
	}
}

func peekTakesNoPlace(t *testing.T, s *stand) {
	check := core.Check{Key: s.key(), Limit: concurrent(2, time.Minute)}
	for free := 2; free >= 0; free-- {
		for range 3 {
			d, look := s.peek(t, check.Key, check.Limit), s.allowAll(t, core.Check{Key: check.Key, Limit: check.Limit, Mode: core.Look})[0]
			if d.Remaining != free || d.Allowed != (free > 0) || d.Token != 0 || d.Estimated != (free == 0) {
				t.Fatalf("%d of 2 are free: %+v, token %d, estimated %t", free, answerOf(d), d.Token, d.Estimated)
			}
			if !look.Allowed || look.Remaining != free || look.Token != 0 || look.Estimated {
				t.Fatalf("%d of 2 are free, and a look: %+v", free, answerOf(look))
			}
			condition := core.Check{Key: check.Key, Limit: check.Limit, Mode: core.Condition}
			if decisions, _ := s.acquire(t, condition, core.Check{Key: check.Key, Limit: core.Leaky(1000, core.PerHour(1))}); decisions[0].Allowed != (free > 0) {
				t.Fatalf("%d of 2 are free, and a condition: %+v", free, answerOf(decisions[0]))
			}
		}
		if free > 0 {
			s.must(t, check)
		}
	}
}

func shadowPlaces(t *testing.T, s *stand) {
	key := s.key()
	l, gate := concurrent(1, time.Minute), core.Check{Key: key, Limit: core.Leaky(100, core.PerHour(1))}
	shadow := core.Check{Key: key, Limit: l, Shadow: true}
	held := s.must(t, shadow, gate)
	if decisions, all := s.acquire(t, shadow, gate); decisions[0].Allowed || !decisions[1].Allowed || len(all) != 1 {
		t.Fatalf("a full shadow: %+v", decisions)
	}
	s.must(t, core.Check{Key: key, Limit: l}) // which the shadow has left alone
	if lost := s.renew(t, held[0]); lost[0] {
		t.Error("the shadow's place is lost")
	}
	s.giveBack(t, held[0])
	s.expectFree(t, "the shadow's place given back", key, l, 0)
	if decisions, _ := s.acquire(t, shadow, gate); !decisions[0].Allowed {
		t.Errorf("the shadow's place is not free: %+v", answerOf(decisions[0]))
	}
}

func resetGivesBack(t *testing.T, s *stand) {
	for _, l := range []core.Places{concurrent(3, time.Minute), concurrent(3, time.Minute).Named("plan")} {
		check := core.Check{Key: s.key(), Limit: l}
		one, other := s.must(t, check), s.must(t, check)
		before := s.reserve(t, check)
		s.wait(time.Microsecond)
		if err := s.limiter.Reset(t.Context(), check.Key, l); err != nil {
			t.Fatal(err)
		}
		if d := s.peek(t, check.Key, l); d.Remaining != 3 || d.ResetAfter != 0 || d.NextAfter != 0 {
			t.Errorf("%s after a Reset: %+v", l, answerOf(d))
		}
		if lost := s.renew(t, one[0], other[0]); !lost[0] || !lost[1] {
			t.Errorf("%s renewed after a Reset: lost %v", l, lost)
		}
		check.Cost = 2
		after := s.must(t, check)
		settleAs(t, before, 0)
		s.expectFree(t, "given back what a Reset had given back", check.Key, l, 1)
		s.wait(-time.Minute) // the clock steps back behind the Reset
		s.giveBack(t, after...)
		s.expectFree(t, "given back what was taken after a Reset", check.Key, l, 3)
	}
}

func deniedIsEstimated(t *testing.T, s *stand) {
	check := core.Check{Key: s.key(), Limit: concurrent(3, time.Minute)}
	rate := core.Check{Key: check.Key, Limit: core.FixedWindow(1, time.Hour)}
	var all []*taken
	for i := range 3 {
		all = append(all, s.must(t, check)...)
		if i < 2 {
			s.wait(10 * time.Second)
		}
	}
	for cost, want := range map[int]time.Duration{1: 40 * time.Second, 2: 50 * time.Second, 3: time.Minute, 4: core.Never} {
		check.Cost = cost
		d := s.expectDenied(t, "all held", check)
		if d.RetryAfter != want || d.Estimated != (cost <= 3) || d.NextAfter != 40*time.Second || d.Token != 0 {
			t.Errorf("%d of 3 that are held: %+v, estimated %t, want a wait of %v", cost, answerOf(d), d.Estimated, want)
		}
	}
	check.Cost = 1
	s.allow(t, rate.Key, rate.Limit, 1)
	s.giveBack(t, all[0]) // so it was an upper bound
	decisions, _ := s.acquire(t, check, rate)
	if decisions[0].Estimated || decisions[1].Estimated || !decisions[0].Allowed || decisions[1].Allowed {
		t.Errorf("a rate denies: %+v", decisions)
	}
	if decisions[0].Remaining != 1 || decisions[0].NextAfter != time.Minute {
		t.Errorf("a rate denies, and a place is free: %+v, want to be told the lease", answerOf(decisions[0]))
	}
	if d := s.peek(t, check.Key, check.Limit); d.NextAfter != 50*time.Second {
		t.Errorf("a peek, 50 s before the first lease ends: %+v", answerOf(d))
	}
}

func keptPlacesWithoutSense(t *testing.T, s *stand) {
	key, l, ctx := s.key(), concurrent(2, time.Minute), t.Context()
	check := core.Check{Key: key, Limit: l}
	for name, call := range map[string]func() error{
		"AllowAll": func() error { _, err := s.limiter.AllowAll(ctx, check); return err },
		"a shadow": func() error {
			_, err := s.limiter.AllowAll(ctx, core.Check{Key: key, Limit: l, Shadow: true})
			return err
		},
		"no place at all": func() error {
			_, err := s.limiter.Reserve(ctx, core.Check{Key: key, Limit: concurrent(0, time.Minute)})
			return err
		},
		"too short a lease": func() error {
			_, err := s.limiter.Reserve(ctx, core.Check{Key: key, Limit: concurrent(1, 9*time.Millisecond)})
			return err
		},
		"too long a lease": func() error {
			_, err := s.limiter.Reserve(ctx, core.Check{Key: key, Limit: concurrent(1, 11*time.Minute)})
			return err
		},
	} {
		if err := call(); err == nil {
			t.Errorf("%s is no error", name)
		}
	}
	s.expectFree(t, "after nothing but errors", key, l, 2)

	// A call that is made several times takes places once, since they have one receipt.
	calls := []core.Call{{Checks: []core.Check{check}, Decisions: make([]core.Decision, 1), Receipts: make([]core.Receipt, 1), Times: 2}}
	if _, err := s.store.Decide(ctx, calls); err != nil || calls[0].Granted != 1 {
		t.Fatalf("a call made twice: granted %d, %v", calls[0].Granted, err)
	}
	s.expectFree(t, "after a call made twice", key, l, 1)
	s.giveBack(t, &taken{check: check, receipt: calls[0].Receipts[0]})
	s.expectFree(t, "after it was given back", key, l, 2)
}
