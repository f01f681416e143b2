package storetest

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-go/ratelimit/core"
)

func leaseEndsExactly(t *testing.T, s *stand) {
	for _, lease := range leases {
		check := core.Check{Key: s.key(), Limit: concurrent(2, lease), Cost: 2}
		held := s.must(t, check)
		check.Cost = 1
		s.wait(lease - time.Microsecond)
		if d := s.expectDenied(t, "one microsecond before its end", check); d.RetryAfter != time.Microsecond || d.NextAfter != time.Microsecond {
			t.Errorf("a lease of %v, one microsecond before its end: %+v", lease, answerOf(d))
		}
		s.renew(t, held...)
		s.wait(lease - time.Microsecond)
		s.expectDenied(t, "one microsecond before its end, renewed", check)
		s.wait(time.Microsecond)
		s.expectFree(t, "at the end of the lease", check.Key, check.Limit, 2) // not asked meanwhile
		s.must(t, check)
		s.expectFree(t, "after the end of the lease", check.Key, check.Limit, 1)
	}
}

func givenBackTwice(t *testing.T, s *stand) {
	check := core.Check{Key: s.key(), Limit: concurrent(3, time.Minute)}
	one, other := s.must(t, check), s.must(t, check)
	s.giveBack(t, one...)
	s.expectFree(t, "one of two given back", check.Key, check.Limit, 2)
	s.giveBack(t, one...)
	s.giveBack(t, one...)
	s.expectFree(t, "one of two given back three times", check.Key, check.Limit, 2)
	if lost := s.renew(t, one[0], other[0]); !lost[0] || lost[1] {
		t.Errorf("renewed one that was given back, and one that was not: lost %v", lost)
	}

	r := s.reserve(t, check)
	if d := r.Decisions()[0]; !d.Allowed || d.Token == 0 || d.Remaining != 1 {
		t.Errorf("reserved: %+v, token %d", answerOf(d), d.Token)
	}
	settleAs(t, r, 1) // at any cost
	s.expectFree(t, "a reservation settled", check.Key, check.Limit, 2)
}

func givenBackTooLate(t *testing.T, s *stand) {
	check := core.Check{Key: s.key(), Limit: concurrent(1, time.Second)}
	late := s.must(t, check)
	s.wait(time.Second)
	next := s.must(t, check)
	s.giveBack(t, late...)
	s.expectFree(t, "given back after the lease, when another one has the place", check.Key, check.Limit, 0)
	if lost := s.renew(t, late[0], next[0]); !lost[0] || lost[1] {
		t.Errorf("renewed the former and the present holder: lost %v", lost)
	}
	s.expectDenied(t, "after the former holder has tried to renew", check)
}

func endedIsNotRenewed(t *testing.T, s *stand) {
	check := core.Check{Key: s.key(), Limit: concurrent(2, time.Second)}
	held := s.must(t, check)
	s.wait(time.Second)
	if lost := s.renew(t, held...); !lost[0] {
		t.Error("renewed at its end, which is too late, and not lost")
	}
	s.expectFree(t, "after a renewal that came too late", check.Key, check.Limit, 2)
	never := []*taken{{check: core.Check{Key: s.key(), Limit: check.Limit}, receipt: held[0].receipt}}
	if lost := s.renew(t, never...); !lost[0] {
		t.Error("renewed under a key that was never used, and not lost")
	}
	s.expectFree(t, "after a renewal under another key", never[0].check.Key, check.Limit, 2)
}

func tokensGrow(t *testing.T, s *stand) {
	rapid.Check(t, func(t *rapid.T) {
		s.clock.now.Store(start.UnixMicro())
		check := core.Check{Key: s.key(), Limit: concurrent(2, time.Minute)}
		latest := uint64(0)
		var held []*taken
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0:
				s.wait(-time.Duration(rapid.Int64Range(0, 900).Draw(t, "back")) * time.Second)
			case 1:
				s.wait(time.Duration(rapid.Int64Range(0, 60_000_000).Draw(t, "wait")) * time.Microsecond)
			case 2:
				if err := s.limiter.Reset(t.Context(), check.Key, check.Limit); err != nil {
					t.Fatal(err)
				}
			default:
				decisions, all := s.acquire(t, check)
				if len(all) == 0 {
					s.giveBack(t, held...)
					held = nil
					continue
				}
				if decisions[0].Token <= latest {
					t.Fatalf("token %d after %d", decisions[0].Token, latest)
				}
				latest, held = decisions[0].Token, append(held, all...)
			}
		}
	})
}

func clockBackKeepsPlaces(t *testing.T, s *stand) {
	check := core.Check{Key: s.key(), Limit: concurrent(2, time.Minute)}
	first := s.must(t, check)
	second := s.must(t, check)
	s.wait(-time.Hour)
	if d := s.expectDenied(t, "an hour before", check); d.RetryAfter > 10*time.Minute {
		t.Errorf("an hour before the leases: %+v, want a wait of at most 10 minutes", answerOf(d))
	}
	if lost := s.renew(t, first...); lost[0] {
		t.Error("a holder from the future has lost its place")
	}
	s.wait(time.Minute)
	s.must(t, check) // the first one's lease has begun anew, and ended
	s.wait(9*time.Minute - time.Microsecond)
	s.expectFree(t, "a microsecond before the longest lease", check.Key, check.Limit, 1)
	s.wait(time.Microsecond)
	s.expectFree(t, "after the longest lease", check.Key, check.Limit, 2)
	if lost := s.renew(t, second...); !lost[0] {
		t.Error("a lease was renewed that was cut and has ended")
	}
}
