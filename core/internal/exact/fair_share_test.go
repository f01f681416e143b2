package exact

import (
	"math"
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// drawCap draws a cap, and a share of it for each of some tenants.
func drawCap(t *rapid.T) (of *Spec, shares []*Spec) {
	of = rapid.Custom(func(t *rapid.T) *Spec {
		return NewSpec(Params{
			Algorithm: rapid.SampledFrom([]Algorithm{Leaky, TokenBucket}).Draw(t, "algorithm"),
			Capacity:  rapid.IntRange(1, 1000).Draw(t, "capacity"),
			Events:    rapid.IntRange(1, 1000).Draw(t, "events"),
			Period:    time.Duration(rapid.IntRange(1, 3_000_000).Draw(t, "period")) * time.Microsecond,
		}, nil)
	}).Filter(func(s *Spec) bool { return s.Problem() == nil && s.Full < parts/(2*spare) }).Draw(t, "cap")
	for _, tenant := range []string{"a", "b", "c"} {
		shares = append(shares, NewSpec(FairParams(of.Params, tenant, rapid.IntRange(1, 4).Draw(t, "weight")), nil))
	}
	return of, shares
}

// exactLevels are the levels of tenants in rational numbers.
type exactLevels struct{ tenants []*big.Rat }

// drain drains a cap from a level to another one.
func (l *exactLevels) drain(from, to int64) {
	for _, level := range l.tenants {
		if from > 0 {
			level.Mul(level, big.NewRat(to, from))
		}
	}
}

// The level of a tenant is that of the rational numbers, or a little more: by less than 2^-40 of the capacity.
func TestALevelIsRoundedAgainstTheTenant(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		of, shares := drawCap(t)
		var pool State
		states, model := make([]State, len(shares)), exactLevels{}
		for range shares {
			model.tenants = append(model.tenants, new(big.Rat))
		}
		now, before := int64(1_800_000_000_000_000), int64(0)
		lapsed := make([]int64, len(shares)) // when a share ends, however much is left of it
		for range rapid.IntRange(1, 60).Draw(t, "calls") {
			now += rapid.Int64Range(0, 2*of.Period.Microseconds()/int64(of.Events)+1).Draw(t, "later") / of.Tick * of.Tick
			i, cost := rapid.IntRange(0, len(shares)-1).Draw(t, "tenant"), rapid.IntRange(1, max(1, of.Capacity/4)).Draw(t, "cost")
			u, _ := of.Observe(&pool, now, cost)
			model.drain(before, u.Used)
			before = u.Used
			for j := range lapsed {
				if now >= lapsed[j] {
					model.tenants[j].SetInt64(0)
				}
			}
			own, found := shares[i].ObserveShare(&states[i], &pool, u.Used, now)
			want := new(big.Rat).Mul(model.tenants[i], big.NewRat(shares[i].scale(), 1))
			got := new(big.Rat).SetInt64(own.Used)
			if got.Cmp(want) < 0 {
				t.Fatalf("the level is %v parts, less than %v", own.Used, want.FloatString(3))
			}
			most := want.Add(want, big.NewRat(1<<12, 1))
			if got.Cmp(most) > 0 {
				t.Fatalf("the level is %v parts, more than %v", own.Used, want.FloatString(3))
			}
			if !of.Fits(u, cost) || !shares[i].Fits(own, cost) {
				continue
			}
			of.Store(&pool, u, now, cost, Holder{})
			shares[i].StoreShare(&states[i], &pool, own, found, now, cost)
			model.tenants[i].Add(model.tenants[i], big.NewRat(of.Weigh(cost), 1))
			before += of.Weigh(cost)
			lapsed[i] = shares[i].lapse(&states[i])
		}
	})
}

// A denied tenant passes after its wait, and not two ticks before.
func TestTheWaitOfAShareIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		of, shares := drawCap(t)
		var pool State
		states := make([]State, len(shares))
		now := int64(1_800_000_000_000_000)
		denied := 0
		for range rapid.IntRange(1, 60).Draw(t, "calls") {
			now += rapid.Int64Range(0, of.Period.Microseconds()/int64(of.Events)+1).Draw(t, "later") / of.Tick * of.Tick
			i, cost := rapid.IntRange(0, len(shares)-1).Draw(t, "tenant"), rapid.IntRange(1, max(1, of.Capacity/2)).Draw(t, "cost")
			at := func(now int64) (of0, own Usage, found Product) {
				of0, _ = of.Observe(&pool, now, cost)
				own, found = shares[i].ObserveShare(&states[i], &pool, of0.Used, now)
				return of0, own, found
			}
			u, own, found := at(now)
			if !shares[i].Fits(own, cost) {
				denied++
				wait, _ := shares[i].Wait(own, cost)
				if wait <= 0 || wait > shares[i].Reset(own) {
					t.Fatalf("the wait is %d, and the reset %d", wait, shares[i].Reset(own))
				}
				_, early, _ := at(now + max(0, wait-2*of.Tick))
				_, late, _ := at(now + wait)
				if shares[i].Fits(early, cost) || !shares[i].Fits(late, cost) {
					t.Fatalf("wait %d: fits %t before, %t then: %+v", wait, shares[i].Fits(early, cost), shares[i].Fits(late, cost), own)
				}
				continue
			}
			if remaining, next, _ := shares[i].Left(own); next > 0 {
				_, early, _ := at(now + max(0, next-2*of.Tick))
				_, late, _ := at(now + next)
				if shares[i].Remaining(early) != remaining || shares[i].Remaining(late) <= remaining {
					t.Fatalf("%d remain, %d before %d, %d then", remaining, shares[i].Remaining(early), next, shares[i].Remaining(late))
				}
			}
			if of.Fits(u, cost) {
				of.Store(&pool, u, now, cost, Holder{})
				shares[i].StoreShare(&states[i], &pool, own, found, now, cost)
			}
		}
	})
}

// A product in short is its quotient to within 2^-38.
func TestProductsInShort(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newProduct(1, product{})
		var earlier product
		after := rapid.IntRange(0, 50).Draw(t, "after")
		for i := range 60 {
			if i == after {
				earlier = p
			}
			p = p.times(rapid.Float64Range(1, 1000).Draw(t, "level"), rapid.Float64Range(0, 1000).Draw(t, "drained"))
		}
		if got, want := p.perShort(earlier.short()), p.per(earlier); math.Abs(got-want) > want*0x1p-37 {
			t.Fatalf("%g, want %g", got, want)
		}
	})
}
