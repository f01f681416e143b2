package storetest

import (
	"math/big"
	"slices"

	"github.com/weir-go/ratelimit/core"
)

// pool is the exact model of a cap and its tenants. Its numbers are events and ticks.
type pool struct {
	numbers numbers
	level   *big.Rat // of the cap
	at      int64    // the tick at which it had the level
	tenants map[string]*tenancy
}

// tenancy is the units of a tenant.
type tenancy struct {
	level  *big.Rat
	lapses int64 // the tick from which on it holds nothing
}

func newPool(l core.Limit) *pool {
	return &pool{numbers: numbersOf(l), level: new(big.Rat), tenants: make(map[string]*tenancy)}
}

// tenant returns the units of a tenant.
func (p *pool) tenant(name string) *tenancy {
	if p.tenants[name] == nil {
		p.tenants[name] = &tenancy{level: new(big.Rat)}
	}
	return p.tenants[name]
}

// drain has the pool drain until an instant. When the cap drains from one level to another, the units of each tenant shrink by their quotient.
func (p *pool) drain(now int64) {
	tick := now / p.numbers.tick
	drained := new(big.Rat).SetInt64(tick - p.at)
	drained.Mul(drained, p.numbers.pace)
	left := new(big.Rat).Sub(p.level, drained)
	if left.Sign() < 0 {
		left.SetInt64(0)
	}
	for _, t := range p.tenants {
		if p.level.Sign() > 0 {
			t.level.Quo(t.level.Mul(t.level, left), p.level)
		}
		if tick >= t.lapses {
			t.level.SetInt64(0)
		}
	}
	p.level, p.at = left, tick
}

// charge charges the cap and a tenant.
func (p *pool) charge(tenant string, cost int) {
	units := new(big.Rat).SetInt64(int64(cost))
	t := p.tenant(tenant)
	t.level.Add(t.level, units)
	p.level.Add(p.level, units)
	recovery := new(big.Rat).Quo(p.level, p.numbers.pace)
	ticks := new(big.Int).Div(new(big.Int).Sub(new(big.Int).Add(recovery.Num(), recovery.Denom()), big.NewInt(1)), recovery.Denom())
	t.lapses = p.at + ticks.Int64()
}

// room returns how many events a tenant may be charged, at least and at most: its own units are rounded.
func (p *pool) room(tenant string, weight, headroom int) (least, most *big.Rat) {
	free := new(big.Rat).SetInt64(int64(headroom))
	free.Sub(new(big.Rat).Sub(p.numbers.capacity, p.level), free)
	free.Mul(free, new(big.Rat).SetInt64(int64(weight)))
	free.Sub(free, p.tenant(tenant).level)
	unit := new(big.Rat).SetFrac(big.NewInt(1), p.numbers.pace.Denom())
	slack := new(big.Rat).Mul(p.numbers.capacity, big.NewRat(1, 1<<40))
	unit.Add(unit, slack) // it is whole units
	return new(big.Rat).Sub(free, unit), new(big.Rat).Add(free, slack)
}

// waterLevels returns the share of a rate that each of some tenants gets by max-min fairness: a tenant that demands less than its part
// gets its demand, and the others share the rest by their weights.
func waterLevels(rate float64, demands, weights []float64) (shares []float64) {
	shares = make([]float64, len(demands))
	open := make([]int, 0, len(demands))
	for i := range demands {
		open = append(open, i)
	}
	slices.SortFunc(open, func(a, b int) int {
		switch x, y := demands[a]/weights[a], demands[b]/weights[b]; {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
	sum := 0.0
	for _, weight := range weights {
		sum += weight
	}
	for _, i := range open { // the smallest demand first
		shares[i] = min(demands[i], rate*weights[i]/sum)
		rate, sum = rate-shares[i], sum-weights[i]
	}
	return shares
}
