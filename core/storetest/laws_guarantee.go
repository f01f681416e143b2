package storetest

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-go/ratelimit/core"
)

// guarantee is a limit that tenants share, and the part that each of them has for itself.
type guarantee struct {
	limit    core.Limit // of all
	own      []core.Limit
	headroom int
	key      string
	keys     []string
}

// call returns the call of a tenant: it is charged to its own limit, or borrows units that are not guaranteed to others.
// A place of -1 is that of a tenant without a limit of its own.
func (g *guarantee) call(tenant, cost int) []core.Check {
	shared := core.Check{Key: g.key, Limit: g.limit, Cost: cost}
	borrowed := shared
	borrowed.Headroom, borrowed.Mode = g.headroom, core.Condition
	if tenant < 0 {
		shared.Headroom = g.headroom
		return []core.Check{shared}
	}
	return append(core.FirstOf(core.Check{Key: g.keys[tenant], Limit: g.own[tenant], Cost: cost}, borrowed), shared)
}

// drawGuarantee draws a limit for tenants to share. Their guarantees add up to no more than its rate, and to the
// headroom.
func (s *stand) drawGuarantee(t *rapid.T) *guarantee {
	return rapid.Custom(func(t *rapid.T) *guarantee {
		g := &guarantee{limit: drawLimit(t, s.algorithm), key: s.key()}
		n := rapid.IntRange(1, 3).Draw(t, "tenants")
		for range n {
			burst := rapid.IntRange(1, max(1, g.limit.Capacity()/n)).Draw(t, "burst")
			rate := g.limit.Rate()
			if s.algorithm != "sliding-log" { // all its windows are the same
				rate.Period *= time.Duration(n)
			}
			g.own, g.keys = append(g.own, newLimit(s.algorithm, burst, rate)), append(g.keys, s.key())
			g.headroom += burst
		}
		return g
	}).Filter(func(g *guarantee) bool {
		valid := g.headroom <= g.limit.Capacity() && numbersOf(g.limit).tick == 1 && g.limit.Rate().Period < math.MaxInt64/4
		for _, l := range g.own {
			valid = valid && l.Validate() == nil && numbersOf(l).tick == 1
		}
		return valid
	}).Draw(t, "guarantee")
}

// A tenant that borrows leaves the headroom free, which is as much as all are guaranteed at once. From then on,
// guaranteed units are charged no faster than the limit drains: so they always fit.
func guaranteeAndBorrow(t *testing.T, s *stand) {
	t.Run("law", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			g := s.drawGuarantee(t)
			s.clock.now.Store(start.UnixMicro() + rapid.Int64Range(0, 2_000_000).Draw(t, "start"))
			for range rapid.IntRange(1, 40).Draw(t, "calls") {
				tenant := rapid.IntRange(-1, len(g.own)-1).Draw(t, "tenant")
				l := g.limit
				if tenant >= 0 && rapid.Bool().Draw(t, "within") {
					l = g.own[tenant]
				}
				checks := g.call(tenant, drawCost(t, l, "cost"))
				var last core.Decision
				for range rapid.IntRange(1, 4).Draw(t, "greed") {
					d := s.allowAll(t, checks...)
					if last = d[0]; tenant >= 0 && d[0].Allowed && !passes(d) {
						t.Fatalf("%s, of guarantees of %d under %s: %+v", callString(checks), g.headroom, g.limit, d)
					}
				}
				wait := drawWait(t, last) / time.Duration(rapid.IntRange(1, 8).Draw(t, "part of the wait"))
				if s.clock.now.Load()+wait.Microseconds() < early {
					s.wait(wait)
				}
			}
		})
	})
	t.Run("no less headroom will do", func(t *testing.T) {
		l, own := of(s.algorithm, 10, time.Hour), of(s.algorithm, 3, time.Hour)
		for less, want := range []bool{true, false} {
			g := &guarantee{limit: l, own: []core.Limit{own}, headroom: 3 - less, key: s.key(), keys: []string{s.key()}}
			for range 10 {
				s.allowAll(t, g.call(-1, 1)...)
			}
			if d := s.allowAll(t, g.call(0, 3)...); !d[0].Allowed || passes(d) != want {
				t.Errorf("a guarantee of 3, with a headroom of %d: %+v", g.headroom, d)
			}
		}
	})
	t.Run("what nobody uses is borrowed", func(t *testing.T) {
		l, own := of(s.algorithm, 10, time.Hour), of(s.algorithm, 3, time.Hour)
		g := &guarantee{limit: l, own: []core.Limit{own}, headroom: 3, key: s.key(), keys: []string{s.key()}}
		for i := range 11 {
			if d := s.allowAll(t, g.call(0, 1)...); passes(d) != (i < 7) {
				t.Errorf("call %d: %+v", i, d)
			}
		}
		if left := s.peek(t, g.key, l).Remaining; left != 3 {
			t.Errorf("%d are left to others, want 3", left)
		}
	})
}

func guaranteedPlaces(t *testing.T, s *stand) {
	rapid.Check(t, func(t *rapid.T) {
		s.clock.now.Store(start.UnixMicro())
		n := rapid.IntRange(1, 3).Draw(t, "tenants")
		g := &guarantee{limit: concurrent(12, time.Minute), key: s.key()}
		for range n {
			places := rapid.IntRange(1, 4).Draw(t, "places")
			g.own, g.keys, g.headroom = append(g.own, concurrent(places, time.Minute)), append(g.keys, s.key()), g.headroom+places
		}
		var held [][]*taken
		for range rapid.IntRange(1, 40).Draw(t, "calls") {
			if len(held) > 0 && rapid.Bool().Draw(t, "given back") {
				i := rapid.IntRange(0, len(held)-1).Draw(t, "whose")
				s.giveBack(t, held[i]...)
				held = slices.Delete(held, i, i+1)
				continue
			}
			checks := g.call(rapid.IntRange(-1, n-1).Draw(t, "tenant"), rapid.IntRange(1, 3).Draw(t, "cost"))
			d, all := s.acquire(t, checks...)
			if len(checks) > 1 && d[0].Allowed && !passes(d) {
				t.Fatalf("%s, of %d guaranteed places: %+v", callString(checks), g.headroom, d)
			}
			if len(all) > 0 {
				held = append(held, all)
			}
		}
	})
}
