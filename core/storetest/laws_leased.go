package storetest

import (
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-go/ratelimit/core"
)

// leasing are the laws about units that are charged ahead of time and spent later, as a store of [core.Lease] does it.
var leasing = []law{
	{"what is leased never passes the bound, whatever its holders do", leased, leaseBound},
	{"what is leased can reach the bound", []string{"leaky", "token-bucket", "gcra", "sliding-log"}, leaseReachesBound},
}

// leased are the algorithms that may be leased.
var leased = except("shaping")

// lessor is a limit with the terms of its leases, and everything that its holders have spent. It knows nothing of package core's
// leases but how they are documented.
type lessor struct {
	*stand

	key     string
	limit   core.Limit
	n       int64
	period  int64 // microseconds in which n flow, and the window
	lasts   int64 // microseconds
	most    int64
	meter   core.Limit
	closes  bool
	slides  bool
	holders []*lessee
	spent   []passage
}

// passage is units that have passed at an instant. window is when the window ends that they were charged in.
type passage struct{ at, units, window int64 }

// lessee is a lease: the units that a holder may still spend, and until when.
type lessee struct {
	units, spent, until, window int64
	receipt                     core.Receipt
}

// newLessor returns a lessor for n in a period, with percent of the units to admit too much at most.
func (s *stand) newLessor(n, period, percent int64) *lessor {
	if s.algorithm == "calendar" { // which has no shorter windows
		period = max(period, 1_000_000)
	}
	l := &lessor{
		stand: s, key: s.key(), limit: newLimit(s.algorithm, int(n), core.Per(int(n), time.Duration(period)*time.Microsecond)),
		n: n, period: period, closes: s.algorithm == "fixed-window" || s.algorithm == "calendar",
		slides: s.algorithm == "sliding-window" || s.algorithm == "sliding-log",
	}
	part := int64(100)
	if l.slides {
		part *= 2
	}
	l.lasts, l.most = period*percent/part, n*percent/part
	l.meter = core.Leaky(int(l.most), core.Per(int(l.most), time.Duration(l.lasts)*time.Microsecond)).Named("meter")
	return l
}

// grant has the store charge units, which were asked for some time ago.
func (l *lessor) grant(t rapid.TB, want int, ago int64) {
	t.Helper()
	checks := []core.Check{{Key: l.key, Limit: l.limit}}
	if l.slides {
		checks = append(checks, core.Check{Key: l.key, Limit: l.meter})
	}
	calls := []core.Call{{Checks: checks, Decisions: make([]core.Decision, len(checks)), Receipts: make([]core.Receipt, len(checks)), Times: want}}
	if _, err := l.store.Decide(tContext(t), calls); err != nil {
		t.Fatal(err)
	}
	c := &calls[0]
	for i := range c.Decisions {
		if !c.Decisions[i].Allowed {
			return
		}
	}
	now, window := l.clock.now.Load(), c.Decisions[0].ResetAfter.Microseconds()
	one := &lessee{units: int64(max(1, c.Granted)), until: now - ago + l.lasts, window: now + window, receipt: c.Receipts[0]}
	if l.closes {
		one.until = min(one.until, now-ago+window)
	}
	l.holders = append(l.holders, one)
}

// spend spends units of a lease, if it may.
func (l *lessor) spend(h *lessee, units int64) {
	now := l.clock.now.Load()
	if units = min(units, h.units-h.spent); units > 0 && now < h.until {
		h.spent += units
		l.spent = append(l.spent, passage{now, units, h.window})
	}
}

// settle gives back the units left of a lease.
func (l *lessor) settle(t rapid.TB, place int) {
	t.Helper()
	h := l.holders[place]
	l.holders = append(l.holders[:place], l.holders[place+1:]...)
	err := l.store.Settle(tContext(t), []core.Settlement{{
		Check: core.Check{Key: l.key, Limit: l.limit, Cost: int(h.units)}, Cost: int(h.spent), Receipt: h.receipt,
	}})
	if err != nil {
		t.Fatal(err)
	}
}

// exact asks the store for units without a lease.
func (l *lessor) exact(t rapid.TB, units int) {
	t.Helper()
	if d := l.allow(t, l.key, l.limit, units); d.Allowed {
		now := l.clock.now.Load()
		l.spent = append(l.spent, passage{now, int64(units), now + d.ResetAfter.Microseconds()})
	}
}

// excess returns the most units that have passed beyond the bound, in any time: 0 or less is lawful.
func (l *lessor) excess() *big.Rat {
	worst := big.NewRat(-1<<50, 1)
	for i := range l.spent {
		sum, last := int64(0), l.spent[i]
		for j := i; j >= 0; j-- {
			one := l.spent[j]
			var bound *big.Rat
			switch l.algorithm {
			case "fixed-window", "calendar":
				if one.window == last.window {
					sum += one.units
				}
				bound = big.NewRat(l.n, 1)
			case "sliding-log":
				if last.at-one.at >= l.period {
					continue
				}
				sum += one.units
				bound = big.NewRat(l.n+2*l.most, 1)
			case "sliding-window":
				continue
			default:
				sum += one.units
				bound = new(big.Rat).Add(big.NewRat(l.n, 1), big.NewRat(l.n*(last.at-one.at+l.lasts), l.period))
			}
			if over := new(big.Rat).Sub(big.NewRat(sum, 1), bound); over.Cmp(worst) > 0 {
				worst = over
			}
		}
		if l.algorithm == "sliding-window" {
			if over := l.estimateExcess(i); over.Cmp(worst) > 0 {
				worst = over
			}
		}
	}
	return worst
}

// estimateExcess returns by how much the estimate of a sliding counter over the spent units, up to a place, exceeds the
// limit.
func (l *lessor) estimateExcess(place int) *big.Rat {
	now := l.spent[place].at
	current, previous := int64(0), int64(0)
	for _, one := range l.spent[:place+1] {
		switch now/l.period - one.at/l.period {
		case 0:
			current += one.units
		case 1:
			previous += one.units
		}
	}
	estimate := new(big.Rat).Mul(big.NewRat(previous, 1), big.NewRat(l.period-now%l.period, l.period))
	estimate.Add(estimate, big.NewRat(current, 1))
	return estimate.Sub(estimate, big.NewRat(l.n+2*l.most, 1))
}

func leaseBound(t *testing.T, s *stand) {
	rapid.Check(t, func(t *rapid.T) {
		s.clock.now.Store(start.UnixMicro() + rapid.Int64Range(0, 2_000_000).Draw(t, "start"))
		l := s.newLessor(rapid.SampledFrom([]int64{20, 50, 100}).Draw(t, "n"), rapid.SampledFrom([]int64{100_000, 1_000_000}).Draw(t, "period"),
			rapid.SampledFrom([]int64{20, 50, 80}).Draw(t, "percent"))
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			l.step(t)
		}
		if over := l.excess(); over.Sign() > 0 {
			t.Fatalf("%s admitted units beyond the bound, with leases of %d that last %d µs", over.FloatString(3), l.most, l.lasts)
		}
	})
}

// step has one of the holders do something.
func (l *lessor) step(t *rapid.T) {
	place := rapid.IntRange(0, max(0, len(l.holders)-1)).Draw(t, "lease")
	switch what := rapid.IntRange(0, 9).Draw(t, "step"); {
	case what <= 2:
		ago := rapid.SampledFrom([]int64{0, 0, 1, l.lasts / 3, l.lasts}).Draw(t, "microseconds on the way")
		l.wait(time.Duration(ago) * time.Microsecond)
		l.grant(t, rapid.IntRange(1, int(l.most)).Draw(t, "want"), ago)
	case what == 3:
		l.exact(t, rapid.IntRange(1, int(l.n)).Draw(t, "exact"))
	case what <= 5 && len(l.holders) > 0: // at the last moment
		if h := l.holders[place]; h.until > l.clock.now.Load() {
			l.clock.now.Store(h.until - 1)
		}
		for _, h := range l.holders {
			l.spend(h, h.units)
		}
	case what == 6 && len(l.holders) > 0:
		l.spend(l.holders[place], int64(rapid.IntRange(1, int(l.most)).Draw(t, "units")))
	case what == 7 && len(l.holders) > 0:
		l.settle(t, place)
	default:
		l.wait(time.Duration(rapid.Int64Range(0, l.period).Draw(t, "wait")) * time.Microsecond)
	}
}

// Holders keep their units until the last moment, and then spend them together with all that has become free meanwhile.
func leaseReachesBound(t *testing.T, s *stand) {
	l := s.newLessor(100, 1_000_000, 50)
	l.exact(t, int(l.n)) // all that there is, and so it is free again after the period
	l.spent = nil
	if l.slides {
		// All that may be unspent is, and passes at one instant. Then the log has room for as much again, for a moment less
		// than the window.
		s.wait(time.Duration(l.period) * time.Microsecond)
		l.grant(t, int(l.most), 0)
		s.wait(time.Duration(l.lasts-2) * time.Microsecond)
		l.grant(t, int(l.most), 0)
		s.wait(time.Microsecond)
		for _, h := range l.holders {
			l.spend(h, h.units)
		}
		for _, wait := range []int64{0, l.period - l.lasts + 1, l.lasts - 2} {
			s.wait(time.Duration(wait) * time.Microsecond)
			for l.exactOne(t) {
			}
		}
	} else {
		s.wait(time.Duration(l.period) * time.Microsecond)
		l.grant(t, int(l.most), 0)
		s.wait(time.Duration(l.lasts-1) * time.Microsecond)
		l.spend(l.holders[0], l.most)
		for l.exactOne(t) {
		}
	}
	if over := l.excess(); over.Sign() > 0 || over.Cmp(big.NewRat(-2, 1)) < 0 {
		t.Errorf("%s units more than the bound have passed: want the bound, less the microsecond and the fraction of a unit", over.FloatString(3))
	}
}

// exactOne asks for a unit without a lease, and reports whether it has passed.
func (l *lessor) exactOne(t rapid.TB) bool {
	t.Helper()
	before := len(l.spent)
	l.exact(t, 1)
	return len(l.spent) > before
}
