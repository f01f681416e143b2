package storetest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/unexported"
)

// growing are the laws of reservations that grow.
var growing = []law{
	{"a reservation that grows and is settled agrees with the exact model", nil, grownAgrees},
	{"growth that is denied changes nothing and passes at its RetryAfter", nil, deniedGrowth},
	{"to grow twice to the same costs is to grow once", nil, growsOnce},
	{"all limits of a reservation grow, or none", mixed, growAllOrNone},
	{"reserved and settled never exceed the limit together", nil, neverBeyondTheLimit},
	{"places that are split off leave alone what has grown", unshaped, splitLeavesGrowth},
	{"growth without sense is an error that changes nothing", nil, growthWithoutSense},
}

func growTo(t rapid.TB, r *core.Reservation, costs ...int) []core.Decision {
	t.Helper()
	decisions, err := r.Grow(tContext(t), costs...)
	if err != nil {
		t.Fatalf("Grow(%v): %v", costs, err)
	}
	return decisions
}

// modelled is a key in a store and in the exact model.
type modelled struct {
	*stand

	model *model
	check core.Check
}

func (m *modelled) now() int64 { return m.clock.now.Load() }

// reserve charges units in the model that may be settled, and returns how it remembers them.
func (m *modelled) reserve(units int) (core.Decision, charge) {
	m.model.noting = true
	defer func() { m.model.noting = false }()
	check := m.check
	check.Cost, check.Mode = units, core.Charge
	d := m.model.decide([]core.Check{check}, m.now(), false)[0]
	c := charge{check: check, at: m.now(), order: m.model.order}
	if n := numbersOf(check.Limit); d.Allowed && n.pace != nil {
		c.used, c.order = m.model.states[identity(check)].used(n, m.now()), m.model.numbers[identity(check)]
	}
	return d, c
}

func (m *modelled) expect(t rapid.TB) {
	t.Helper()
	got := m.peek(t, m.check.Key, m.check.Limit)
	if want := m.model.decide([]core.Check{m.check}, m.now(), true)[0]; got != want {
		t.Fatalf("%s: %+v, want %+v", m.check.Limit, answerOf(got), answerOf(want))
	}
}

// pass has time pass, and another call be served.
func (m *modelled) pass(t *rapid.T, d core.Decision) {
	m.wait(drawWait(t, d) + 1000)
	if rapid.Bool().Draw(t, "somebody else") {
		cost := drawCost(t, m.check.Limit, "cost of somebody else")
		m.allow(t, m.check.Key, m.check.Limit, cost)
		check := m.check
		check.Cost, check.Mode = cost, core.Charge
		m.model.decide([]core.Check{check}, m.now(), false)
		m.wait(1000)
	}
}

func grownAgrees(t *testing.T, s *stand) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLimit(t, s.algorithm)
		s.clock.now.Store(start.UnixMicro())
		m := &modelled{stand: s, model: newModel(), check: core.Check{Key: s.key(), Limit: l, Cost: 1}}
		first := rapid.IntRange(1, max(1, l.Capacity()/2)).Draw(t, "estimate")
		r := s.reserve(t, core.Check{Key: m.check.Key, Limit: l, Cost: first})
		d, c := m.reserve(first)
		charges, total := []charge{c}, first
		for range rapid.IntRange(1, 3).Draw(t, "growths") {
			m.pass(t, d)
			to := total + rapid.IntRange(0, max(1, l.Capacity()/3)).Draw(t, "growth")
			got := asAsked(growTo(t, r, to)...)[0]
			if to == total {
				continue
			}
			want, c := m.reserve(to - total)
			if got != want {
				t.Fatalf("growth from %d to %d: %+v, want %+v", total, to, answerOf(got), answerOf(want))
			}
			if want.Allowed {
				charges, total = append(charges, c), to
			}
			d = want
		}
		m.pass(t, d)
		cost := rapid.OneOf(rapid.IntRange(0, total), rapid.IntRange(0, 2*l.Capacity())).Draw(t, "real cost")
		settleAs(t, r, cost)
		for _, c := range slices.Backward(charges) { // the oldest units are used first
			total -= c.check.Cost
			own := max(0, cost-total)
			cost -= own
			m.model.settle(c, min(own, mostCharged(l))-c.check.Cost, false, m.now())
		}
		m.expect(t)
		if err := r.Settle(t.Context(), 0); !errors.Is(err, core.ErrSettled) {
			t.Fatalf("settled again: %v", err)
		}
		if _, err := r.Grow(t.Context(), l.Capacity()); !errors.Is(err, core.ErrSettled) {
			t.Fatalf("grown after it was settled: %v", err)
		}
		m.expect(t)
		s.wait(d.NextAfter)
		m.expect(t)
	})
}

func deniedGrowth(t *testing.T, s *stand) {
	rapid.Check(t, func(t *rapid.T) {
		l, key := drawLimit(t, s.algorithm), s.key()
		if l.Capacity() < 2 {
			return
		}
		first := rapid.IntRange(1, l.Capacity()-1).Draw(t, "estimate")
		r := s.reserve(t, core.Check{Key: key, Limit: l, Cost: first})
		s.allow(t, key, l, s.peek(t, key, l).Remaining)
		before := s.peek(t, key, l)
		more := rapid.IntRange(1, l.Capacity()).Draw(t, "growth")
		d := growTo(t, r, first+more)[0]
		if d.Allowed || s.peek(t, key, l) != before {
			t.Fatalf("%d more of %s, which is full: %+v, and then %+v", more, l, answerOf(d), answerOf(s.peek(t, key, l)))
		}
		if !r.Decisions()[0].Allowed {
			t.Fatal("a denied growth has denied the reservation")
		}
		s.wait(d.RetryAfter - tick(l))
		if early := growTo(t, r, first+more)[0]; early.Allowed || early.RetryAfter != tick(l) {
			t.Fatalf("one tick before its RetryAfter of %v: %+v", d.RetryAfter, answerOf(early))
		}
		s.wait(tick(l))
		if late := growTo(t, r, first+more)[0]; !late.Allowed || r.Decisions()[0] != late {
			t.Fatalf("at its RetryAfter of %v: %+v", d.RetryAfter, answerOf(late))
		}
	})
}

func growsOnce(t *testing.T, s *stand) {
	rapid.Check(t, func(t *rapid.T) {
		l, key := drawLimit(t, s.algorithm), s.key()
		r := s.reserve(t, core.Check{Key: key, Limit: l, Cost: 1})
		to := rapid.IntRange(1, l.Capacity()).Draw(t, "total")
		for range 3 {
			if d := growTo(t, r, to)[0]; !d.Allowed || d.Remaining != l.Capacity()-to {
				t.Fatalf("grown to %d of %s: %+v", to, l, answerOf(d))
			}
		}
		if d := growTo(t, r, rapid.IntRange(0, to).Draw(t, "less"))[0]; d.Remaining != l.Capacity()-to {
			t.Fatalf("a smaller total has changed something: %+v", answerOf(d))
		}
		cost := rapid.IntRange(0, 2*l.Capacity()).Draw(t, "real cost")
		settleAs(t, r, cost)
		if d := s.peek(t, key, l); d.Remaining != max(0, l.Capacity()-cost) {
			t.Fatalf("settled at %d of %s: %+v", cost, l, answerOf(d))
		}
	})
}

func growAllOrNone(t *testing.T, s *stand) {
	rapid.Check(t, func(t *rapid.T) {
		key := s.key()
		var checks []core.Check
		for _, algorithm := range rapid.SliceOfNDistinct(rapid.SampledFrom(everyAlgorithm), 2, 3, rapid.ID).Draw(t, "algorithms") {
			checks = append(checks, core.Check{Key: key, Limit: drawLimit(t, algorithm), Cost: 1})
		}
		condition := checks[0]
		condition.Mode, condition.Key = core.Condition, s.key()
		shadow := checks[1]
		shadow.Shadow = true
		checks = append(checks, condition, shadow)
		r := s.reserve(t, checks...)
		costs := make([]int, len(checks))
		fits := true
		for i, c := range checks {
			costs[i] = rapid.IntRange(1, c.Limit.Capacity()+1).Draw(t, "total")
			fits = fits && (costs[i] <= c.Limit.Capacity() || i >= len(checks)-2)
		}
		decisions := growTo(t, r, costs...)
		for i, c := range checks {
			d, want := s.allowAll(t, core.Check{Key: c.Key, Limit: c.Limit, Mode: core.Look, Shadow: c.Shadow})[0], c.Limit.Capacity()-1
			switch {
			case c.Mode == core.Condition:
				want++
			case c.Shadow && costs[i] <= c.Limit.Capacity(), !c.Shadow && fits:
				want = c.Limit.Capacity() - costs[i]
			}
			if d.Remaining != want || c.Mode == core.Charge && decisions[i].Allowed != (costs[i] <= c.Limit.Capacity()) {
				t.Fatalf("grown to %v: of check %d, %s, %d remain, want %d; answered %+v", costs, i, callString(checks[i:i+1]), d.Remaining, want, answerOf(decisions[i]))
			}
		}
		if err := r.Cancel(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i, c := range checks {
			if d := s.allowAll(t, core.Check{Key: c.Key, Limit: c.Limit, Mode: core.Look, Shadow: c.Shadow})[0]; d.Remaining != c.Limit.Capacity() {
				t.Fatalf("cancelled: of check %d %d remain", i, d.Remaining)
			}
		}
	})
}

// neverBeyondTheLimit has several workers at the same instant reserve, grow and settle their real costs, which are never
// more than they have reserved.
func neverBeyondTheLimit(t *testing.T, s *stand) {
	rapid.Check(t, func(t *rapid.T) {
		l, key := drawLimit(t, s.algorithm), s.key()
		type worker struct {
			*core.Reservation

			total int
		}
		var open []worker
		settled, charged := 0, 0
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			i := rapid.IntRange(0, len(open)).Draw(t, "worker")
			switch {
			case i == len(open):
				cost := drawCost(t, l, "estimate")
				if r := s.reserve(t, core.Check{Key: key, Limit: l, Cost: cost}); r.Allowed() {
					open, charged = append(open, worker{r, cost}), charged+cost
				}
			case rapid.Bool().Draw(t, "grows"):
				to := open[i].total + rapid.IntRange(0, 3).Draw(t, "growth")
				if growTo(t, open[i].Reservation, to)[0].Allowed {
					charged += to - open[i].total
					open[i].total = to
				}
			default:
				cost := rapid.IntRange(0, open[i].total).Draw(t, "real cost")
				settleAs(t, open[i].Reservation, cost)
				if s.algorithm == "shaping" { // a turn behind which others have queued is not given back
					cost = charged - (l.Capacity() - s.peek(t, key, l).Remaining) // the units that came back
					cost = open[i].total - cost
				}
				settled, charged = settled+cost, charged-open[i].total+cost
				open = append(open[:i:i], open[i+1:]...)
			}
			reserved := 0
			for _, w := range open {
				reserved += w.total
			}
			if used := l.Capacity() - s.peek(t, key, l).Remaining; settled+reserved > l.Capacity() || used != settled+reserved {
				t.Fatalf("%s: %d are settled and %d reserved, and %d are used", l, settled, reserved, used)
			}
		}
	})
}

func growthWithoutSense(t *testing.T, s *stand) {
	l, key := of(s.algorithm, 5, time.Second), s.key()
	r := s.reserve(t, core.Check{Key: key, Limit: l, Cost: 5})
	denied := s.reserve(t, core.Check{Key: key, Limit: l, Cost: 1})
	for name, grow := range map[string]func() ([]core.Decision, error){
		"no cost":              func() ([]core.Decision, error) { return r.Grow(t.Context()) },
		"too many costs":       func() ([]core.Decision, error) { return r.Grow(t.Context(), 6, 6) },
		"a negative cost":      func() ([]core.Decision, error) { return r.Grow(t.Context(), -1) },
		"a denied reservation": func() ([]core.Decision, error) { return denied.Grow(t.Context(), 2) },
	} {
		if _, err := grow(); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if d := growTo(t, r, 6)[0]; d.Allowed || d.RetryAfter <= 0 {
		t.Errorf("more than the limit: %+v", answerOf(d))
	}
	if d := s.peek(t, key, l); d.Remaining != 0 {
		t.Errorf("%+v", answerOf(d))
	}
}

func splitLeavesGrowth(t *testing.T, s *stand) {
	for _, ttl := range []time.Duration{0, time.Minute} {
		l, key := hourly(s.algorithm), s.key()
		r := s.reserve(t, core.Check{Key: key, Limit: l, Cost: 2, ReserveFor: ttl}, core.Check{Key: key, Limit: core.Concurrent(1, time.Minute)})
		growTo(t, r, 6, 1)
		places := unexported.Split(r).(*core.Reservation)
		settleAs(t, places, 0, 0)
		if d := s.peek(t, key, l); d.Remaining != 4 {
			t.Errorf("when the places are back, %d are left of 10, of which 6 are reserved", d.Remaining)
		}
		settleAs(t, r, 5, 1)
		if d := s.peek(t, key, l); d.Remaining != 5 {
			t.Errorf("%d are left of 10, of which 5 are used", d.Remaining)
		}
	}
}
