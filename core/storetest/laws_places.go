package storetest

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-go/ratelimit/core"
)

// placesOfSeveralKeys compares a store with the model, at random, where a call takes places of several keys and
// is charged to a rate. A store that spreads keys over servers has to decide such a call on all of them.
func placesOfSeveralKeys(t *testing.T, s *stand) {
	rapid.Check(t, func(t *rapid.T) {
		lease := rapid.SampledFrom(leases).Draw(t, "lease")
		l, rate := concurrent(rapid.IntRange(1, 4).Draw(t, "n"), lease), core.FixedWindow(12, 365*24*time.Hour)
		keys, models := make([]string, 4), make([]places, 4)
		for i := range keys {
			keys[i] = s.key()
		}
		charged, rated := 0, s.key()
		var all []*taken
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			now := s.clock.now.Load()
			some := rapid.SliceOfNDistinct(rapid.IntRange(0, len(keys)-1), 1, 3, rapid.ID).Draw(t, "keys")
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0:
				s.wait(rapid.SampledFrom([]time.Duration{time.Microsecond, lease / 2, lease - time.Microsecond, lease}).Draw(t, "wait").Truncate(time.Microsecond))
			case 1:
				if len(all) > 0 {
					settled := rapid.SliceOfNDistinct(rapid.SampledFrom(all), 1, min(6, len(all)), rapid.ID).Draw(t, "settled")
					s.settleAsModelled(t, rapid.Bool().Draw(t, "renew"), now, settled)
				}
			default:
				checks, fits := make([]core.Check, 0, len(some)+1), true
				for _, i := range some {
					c := core.Check{Key: keys[i], Limit: l, Cost: rapid.IntRange(1, l.Capacity()).Draw(t, "cost")}
					checks, fits = append(checks, c), fits && models[i].decide(l, c.Cost, 0, now, false, false).Allowed
				}
				if rapid.Bool().Draw(t, "with a rate") {
					checks = append(checks, core.Check{Key: rated, Limit: rate, Cost: 1})
					fits = fits && charged < rate.Capacity()
				}
				decisions, taken := s.acquire(t, checks...)
				if (len(taken) > 0) != fits {
					t.Fatalf("%s: passes: %t, want %t: %+v", callString(checks), !fits, fits, decisions)
				}
				for place, i := range some {
					expectPlaces(t, decisions[place], models[i].decide(l, checks[place].Cost, 0, now, true, fits))
					if !fits {
						continue
					}
					if decisions[place].Token <= models[i].token {
						t.Fatalf("token %d after %d", decisions[place].Token, models[i].token)
					}
					own := models[i].taken[len(models[i].taken)-1]
					own.check, own.receipt, models[i].token = taken[place].check, taken[place].receipt, decisions[place].Token
					all = append(all, own)
				}
				if fits && len(checks) > len(some) {
					charged++
				}
			}
			for i := range keys {
				s.expectFree(t, "afterwards", keys[i], l, l.Capacity()-len(models[i].ends(s.clock.now.Load())))
			}
			if d := s.peek(t, rated, rate); d.Remaining != rate.Capacity()-charged {
				t.Fatalf("%d of the rate remain, want %d", d.Remaining, rate.Capacity()-charged)
			}
		}
	})
}

// settleAsModelled renews places, or gives them back, in a store and in the model of their keys.
func (s *stand) settleAsModelled(t *rapid.T, renew bool, now int64, settled []*taken) {
	if !renew {
		for _, one := range settled {
			one.ends = 0
		}
		s.giveBack(t, settled...)
		return
	}
	want := make([]bool, 0, len(settled))
	for _, one := range settled {
		want = append(want, one.renew(one.check.Limit, now))
	}
	if lost := s.renew(t, settled...); !slices.Equal(lost, want) {
		t.Fatalf("renewed: lost %v, want %v", lost, want)
	}
}
