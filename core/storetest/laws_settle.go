package storetest

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/repeatable"
)

// settling are the laws of corrections after the fact.
var settling = []law{
	{"what is given back is as if it had never been charged", nil, givenBackAsIfNever},
	{"what is added is as if it had been charged at once", nil, addedAsIfAtOnce},
	{"a charge is given back into its window and no other", nil, givenBackIntoItsWindow},
	{"what is given back lets nothing pass that would not have passed without it", exceptFixed, givenBackNeverTooMuch},
	{"reservations that overlap give back nothing that has drained", meters, overlappingGiveBacks},
	{"units that have drained under other numbers in between do not come back", meters, drainedUnderOtherNumbers},
	{"units that came back by a refund do not come back by a settlement", meters, emptiedByARefund},
	{"a charge that finds a key recovered leaves nothing of those before it", []string{"gcra"}, foundRecovered},
	{"reservations that overlap lose nothing", meters, overlappingLoseNothing},
	{"reservations that overlap leave nothing when they are cancelled at once", nil, cancelledAtOnce},
	{"calls that were decided in order are given back one by one", nil, givenBackOneByOne},
	{"nothing is given back to a key that was reset", nil, nothingBackAfterReset},
	{"a log gives back what was charged, whatever its clock has done", []string{"sliding-log"}, logKnowsItsCharges},
	{"an uncharged check is a condition and costs nothing", nil, unchargedIsACondition},
	{"all limits of a call are settled together", mixed, settledTogether},
	{"Refund gives back what Allow has taken and never fills above full", nil, refundIsExact},
	{"Charge takes what is left and never more", nil, chargeTakesWhatIsLeft},
	{"a denied reservation settles nothing, and none settles twice", nil, settledOnce},
	{"a plan that changes in mid-flight settles under its new numbers", nil, settledAcrossPlans},
	{"a denial leaves an open window under the numbers that opened it", []string{"fixed-window"}, denialRenumbersNothing},
	{"a settlement tells what is left when all have been settled", nil, settlementTellsWhatIsLeft},
	{"a settlement that is asked what is left leaves as much", nil, askingChangesNothing},
	{"RefundAll gives back what Refund does", nil, refundAllIsRefund},
	{"ChargeAll charges what Charge does", nil, chargeAllIsCharge},
	{"ChargeAll charges several limits, or none", nil, chargesSeveral},
	{"Refund, Charge and Settle tell what is left", nil, verbsTellWhatIsLeft},
	{"settlements without sense are errors that change nothing", nil, settlementsWithoutSense},
}

func (s *stand) reserve(t rapid.TB, checks ...core.Check) *core.Reservation {
	t.Helper()
	r, err := s.limiter.Reserve(tContext(t), checks...)
	if err != nil {
		t.Fatalf("Reserve(%s): %v", callString(checks), err)
	}
	return r
}

func settleAs(t rapid.TB, r *core.Reservation, costs ...int) {
	t.Helper()
	if err := r.Settle(tContext(t), costs...); err != nil {
		t.Fatalf("Settle(%v): %v", costs, err)
	}
}

// twins are two keys with one history.
func (s *stand) twins(t *rapid.T, l core.Limit) (one, other string) {
	one, other = s.key(), s.key()
	s.clock.now.Store(start.UnixMicro() + rapid.Int64Range(0, 2_000_000).Draw(t, "start"))
	for range rapid.IntRange(0, 5).Draw(t, "requests before") {
		cost := drawCost(t, l, "cost before")
		d := s.allow(t, one, l, cost)
		s.allow(t, other, l, cost)
		s.wait(drawWait(t, d))
	}
	return one, other
}

// expectTwins wants two keys to answer alike, now and until both have recovered.
func (s *stand) expectTwins(t *rapid.T, l core.Limit, one, other string) {
	t.Helper()
	for range 3 {
		got, want := s.peek(t, one, l), s.peek(t, other, l)
		if got != want {
			t.Fatalf("%s: %+v, want %+v", l, answerOf(got), answerOf(want))
		}
		s.wait(want.NextAfter)
	}
}

func givenBackAsIfNever(t *testing.T, s *stand) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLimit(t, s.algorithm)
		settled, never := s.twins(t, l)
		cost := drawCost(t, l, "cost")
		r := s.reserve(t, core.Check{Key: settled, Limit: l, Cost: cost})
		if !r.Allowed() {
			return
		}
		realCost := rapid.IntRange(0, cost).Draw(t, "real cost")
		s.allow(t, never, l, realCost)
		s.wait(drawWait(t, r.Decisions()[0]))
		settleAs(t, r, realCost)
		s.expectTwins(t, l, settled, never)
	})
}

func addedAsIfAtOnce(t *testing.T, s *stand) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLimit(t, s.algorithm)
		settled, once := s.twins(t, l)
		remaining := s.peek(t, settled, l).Remaining
		if remaining == 0 {
			return
		}
		realCost := rapid.IntRange(1, remaining).Draw(t, "real cost")
		r := s.reserve(t, core.Check{Key: settled, Limit: l, Cost: rapid.IntRange(1, realCost).Draw(t, "reserved")})
		s.allow(t, once, l, realCost)
		if !slices.Contains(meters, s.algorithm) && l.Debt() == 0 { // where added units count from now on
			s.wait(drawWait(t, r.Decisions()[0]))
		}
		settleAs(t, r, realCost)
		s.expectTwins(t, l, settled, once)
	})
}

// givenBackIntoItsWindow charges 3, later 4, and gives the 3 back.
func givenBackIntoItsWindow(t *testing.T, s *stand) {
	waits := map[time.Duration]int{10 * time.Second: 6, time.Minute: 6, 2 * time.Minute: 6} // remaining of 10
	if s.algorithm == "shaping" {
		waits[10*time.Second] = 4 // others have queued behind, and 1 has drained
	}
	for wait, want := range waits {
		l, key := of(s.algorithm, 10, time.Minute), s.key()
		if slices.Contains(meters, s.algorithm) {
			l = newLimit(s.algorithm, 10, core.PerMinute(6))
		}
		r := s.reserve(t, core.Check{Key: key, Limit: l, Cost: 3})
		s.wait(wait)
		s.allow(t, key, l, 4)
		settleAs(t, r, 0)
		if d := s.peek(t, key, l); d.Remaining != want {
			t.Errorf("3 charged, 4 after %v, and the 3 given back: %d of 10 remain, want %d", wait, d.Remaining, want)
		}
		s.clock.now.Store(start.UnixMicro())
	}
}

// exceptFixed are the algorithms with a past that can be told anew with other costs. A fixed window opens with its first
// charge, even if all of that is given back.
var exceptFixed = except("fixed-window")

// served is a request that has passed at a cost, and its real cost.
type served struct {
	at         int64
	cost, real int
	r          *core.Reservation
}

// givenBackNeverTooMuch settles reservations that overlap in any order, and tells the story again to the model, with each
// charged its real cost at once: all requests that have passed have to pass there, too. So in no interval more has
// passed, less the units given back, than the limit allows.
func givenBackNeverTooMuch(t *testing.T, s *stand) {
	rapid.Check(t, func(t *rapid.T) {
		l, key := drawLimit(t, s.algorithm), s.key()
		s.clock.now.Store(start.UnixMicro() + rapid.Int64Range(0, 2_000_000).Draw(t, "start"))
		var all []*served
		var open []*served
		last := core.Decision{Limit: l}
		for range rapid.IntRange(2, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0, 1:
				cost := drawCost(t, l, "cost")
				p := &served{at: s.clock.now.Load(), cost: cost, r: s.reserve(t, core.Check{Key: key, Limit: l, Cost: cost})}
				if last = p.r.Decisions()[0]; last.Allowed {
					p.real = cost
					all, open = append(all, p), append(open, p)
				}
			case 2:
				s.wait(drawWait(t, last) / time.Duration(rapid.IntRange(1, 8).Draw(t, "part of the wait")))
			default:
				if len(open) == 0 {
					continue
				}
				s.wait(time.Microsecond) // a server cannot charge and settle in one
				i := rapid.IntRange(0, len(open)-1).Draw(t, "settled")
				p := open[i]
				open = slices.Delete(open, i, i+1)
				p.real = rapid.SampledFrom([]int{0, 0, p.cost / 2, p.cost}).Draw(t, "real cost")
				before := s.peek(t, key, l)
				settleAs(t, p.r, p.real)
				if s.algorithm == "shaping" && s.peek(t, key, l) == before {
					p.real = p.cost // others queue behind
				}
			}
		}
		again := newModel()
		for _, p := range all {
			check := []core.Check{{Key: key, Limit: l, Cost: p.cost}}
			if !again.decide(check, p.at, true)[0].Allowed {
				t.Fatalf("%d under %s at %v have passed, but not if what came before had been charged what it cost: %s",
					p.cost, l, time.UnixMicro(p.at).UTC().Format("15:04:05.000000"), historyOf(all))
			}
			if check[0].Cost = p.real; p.real > 0 {
				again.decide(check, p.at, false)
			}
		}
	})
}

func historyOf(all []*served) string {
	var b strings.Builder
	for _, p := range all {
		fmt.Fprintf(&b, "\nat %v: %d, really %d", time.UnixMicro(p.at).UTC().Format("15:04:05.000000"), p.cost, p.real)
	}
	return b.String()
}

// overlappingGiveBacks has two reserve 5 of 10 each. One gives back; half a second
// later 5 have drained, so that all that was used is gone: others take the 10, and the
// other has nothing to give back.
func overlappingGiveBacks(t *testing.T, s *stand) {
	if s.algorithm == "shaping" {
		return // gives nothing back while others queue behind
	}
	l, key := newLimit(s.algorithm, 10, core.PerSecond(10)), s.key()
	check := core.Check{Key: key, Limit: l, Cost: 5}
	one, other := s.reserve(t, check), s.reserve(t, check)
	s.wait(time.Microsecond)
	settleAs(t, one, 0)
	s.wait(500 * time.Millisecond)
	if d := s.allow(t, key, l, 10); !d.Allowed {
		t.Fatalf("10 of 10 do not pass when 5 were given back and 5 have drained: %+v", answerOf(d))
	}
	settleAs(t, other, 0)
	if d := s.allow(t, key, l, 0); d.Remaining != 0 {
		t.Errorf("%d remain after 10 of 10 at once, because of what has drained before", d.Remaining)
	}
}

// drainedUnderOtherNumbers reserves under a limit of 100 that hardly drains. The limit drains 100 in a second for a while, so
// that nothing is left of the reservation, and others use 31.
func drainedUnderOtherNumbers(t *testing.T, s *stand) {
	if s.algorithm == "shaping" {
		return // gives nothing back while others queue behind
	}
	slow := newLimit(s.algorithm, 100, core.PerHour(1)).Named("plan")
	fast := newLimit(s.algorithm, 100, core.PerSecond(100)).Named("plan")
	for name, last := range map[string]core.Quota{
		"the first numbers again": slow, "third numbers": newLimit(s.algorithm, 100, core.PerHour(2)).Named("plan"),
	} {
		key := s.key()
		reserved := s.reserve(t, core.Check{Key: key, Limit: slow, Cost: 50})
		s.wait(time.Second)
		s.allow(t, key, fast, 1)
		s.wait(time.Second)
		s.allow(t, key, fast, 30)
		s.allow(t, key, last, 1)
		settleAs(t, reserved, 0)
		if d := s.peek(t, key, last); d.Remaining != 69 {
			t.Errorf("%s: %d remain of 100 when 31 are used", name, d.Remaining)
		}
		key = s.key()
		reserved = s.reserve(t, core.Check{Key: key, Limit: slow, Cost: 50})
		s.allow(t, key, fast, 1)
		s.wait(time.Second)
		if _, err := s.limiter.Charge(t.Context(), key, last, 31); err != nil {
			t.Fatal(err)
		}
		settleAs(t, reserved, 0)
		if d := s.peek(t, key, last); d.Remaining != 69 {
			t.Errorf("%s, charged by a verb: %d remain of 100 when 31 are used", name, d.Remaining)
		}
	}
}

// emptiedByARefund reserves 5 of 10, which a refund gives back before the settlement does. Others use 9 under other numbers meanwhile.
func emptiedByARefund(t *testing.T, s *stand) {
	if s.algorithm == "shaping" {
		return // gives nothing back while others queue behind
	}
	first, other := newLimit(s.algorithm, 10, core.PerHour(1)).Named("plan"), newLimit(s.algorithm, 10, core.PerHour(2)).Named("plan")
	for name, use := range map[string]func(key string) (core.Decision, error){
		"checked": func(key string) (core.Decision, error) { return s.limiter.AllowN(t.Context(), key, other, 9) },
		"charged": func(key string) (core.Decision, error) { return s.limiter.Charge(t.Context(), key, other, 9) },
	} {
		key := s.key()
		reserved := s.reserve(t, core.Check{Key: key, Limit: first, Cost: 5})
		s.wait(time.Microsecond)
		if _, err := s.limiter.Refund(t.Context(), key, first, 5); err != nil {
			t.Fatal(err)
		}
		if _, err := use(key); err != nil {
			t.Fatal(err)
		}
		settleAs(t, reserved, 0)
		if d := s.peek(t, key, other); d.Remaining != 1 {
			t.Errorf("9 of 10 are used, %s after all before had come back: %d remain", name, d.Remaining)
		}
	}
}

// foundRecovered reserves 5 of 10. When they have drained, 9 are charged, and the clock steps back to when they had not.
func foundRecovered(t *testing.T, s *stand) {
	l := newLimit(s.algorithm, 10, core.PerSecond(5))
	for _, l := range []core.Quota{l, l.Named("plan")} {
		key := s.key()
		reserved := s.reserve(t, core.Check{Key: key, Limit: l, Cost: 5})
		s.wait(2 * time.Second)
		s.allow(t, key, l, 9)
		s.wait(-1900 * time.Millisecond)
		settleAs(t, reserved, 0)
		if d := s.peek(t, key, l); d.Remaining != 0 {
			t.Errorf("%s: %d remain where a clock that stepped back has filled it", l, d.Remaining)
		}
		s.wait(-100 * time.Millisecond)
	}
}

// overlappingLoseNothing settles reservations far below their estimates, while others are open. At each instant the level
// is that of a replay in which each was charged its real cost at once, and the open ones their estimates. Beside checks
// that cannot be settled it is no lower, and higher by at most 3 % of the charges.
func overlappingLoseNothing(t *testing.T, s *stand) {
	if s.algorithm == "shaping" {
		return // gives nothing back while others queue behind
	}
	for _, overlap := range []struct {
		open, steps, rate int // events that drain in a second; about 5,000 are charged
		histories         int
	}{{32, 100, 4000, 1}, {8, 300, 1, 1}, {16, 300, 9000, 2}, {32, 300, 4000, 2}, {1000, 1500, 6000, 1}} {
		if few := examples() < 10; few && overlap.steps > 100 {
			break
		}
		for _, plain := range []bool{false, true} {
			if plain && overlap.steps <= 100 {
				continue // 3 % of so few charges are one check
			}
			t.Run(fmt.Sprintf("%d open, %d drain in a second, plain checks %t", overlap.open, overlap.rate, plain), func(t *testing.T) {
				random := repeatable.Random(t)
				for range overlap.histories {
					s.overlap(t, repeatable.Split(random), overlap.open, overlap.steps, overlap.rate, plain)
				}
			})
		}
	}
}

// examples returns how many examples rapid draws of each property: fewer of a store that is checked beside another.
func examples() int {
	number, err := strconv.Atoi(flag.Lookup("rapid.checks").Value.String())
	if err != nil {
		return 100 // as rapid has it
	}
	return number
}

// overlap keeps up to most reservations open, beside plain checks that cannot be settled, which are every fifth one or
// none, and compares the units left after each step, or each fifth of many, with those of the same history with the true costs.
func (s *stand) overlap(t *testing.T, random *rand.Rand, most, steps, rate int, plain bool) {
	t.Helper()
	l, key := newLimit(s.algorithm, 1_000_000, core.PerSecond(rate)), s.key()
	type open struct {
		of int // in the history
		r  *core.Reservation
	}
	var all []served
	var reserved []open
	charged, excess := 0, 0
	each := max(1, steps/300) // it compares 300 times
	for step := range steps {
		s.wait(time.Duration(1+random.IntN(3)) * time.Millisecond)
		if random.IntN(50) == 0 {
			s.wait(time.Duration(random.IntN(100)) * time.Millisecond)
		}
		now := s.clock.now.Load()
		switch {
		case plain && random.IntN(5) == 0:
			cost := 1 + random.IntN(30)
			s.allow(t, key, l, cost)
			all, charged = append(all, served{at: now, real: cost}), charged+cost
		case len(reserved) == 0, len(reserved) < most && (len(reserved) < most*9/10 || random.IntN(2) == 0):
			cost := 3 + random.IntN(30)
			reserved = append(reserved, open{len(all), s.reserve(t, core.Check{Key: key, Limit: l, Cost: cost})})
			all, charged = append(all, served{at: now, real: cost}), charged+cost
		default:
			i := random.IntN(len(reserved))
			one, cost := reserved[i], random.IntN(3)
			reserved = slices.Delete(reserved, i, i+1)
			settleAs(t, one.r, cost)
			all[one.of].real = cost
		}
		if step%each > 0 {
			continue
		}
		level, at := int64(0), now // in millionths of an event
		for i, one := range append(all, served{at: now}) {
			if i > 0 {
				level = max(0, level-(one.at-at)*int64(rate))
			}
			level, at = level+1_000_000*int64(one.real), one.at
		}
		more := l.Capacity() - int((level+999_999)/1_000_000) - s.peek(t, key, l).Remaining
		if more < 0 || more > 0 && !plain {
			t.Fatalf("%d open: %d less are left than after the true costs", len(reserved), more)
		}
		excess = max(excess, more)
	}
	if excess*100 > 3*charged {
		t.Errorf("of %d that were charged, up to %d less were left than after the true costs", charged, excess)
	}
	if plain {
		t.Logf("of %d that were charged, up to %d less were left than after the true costs", charged, excess)
	}
}

func cancelledAtOnce(t *testing.T, s *stand) {
	rapid.Check(t, func(t *rapid.T) {
		l, key := drawLimit(t, s.algorithm), s.key()
		var all []*core.Reservation
		for range rapid.IntRange(2, 20).Draw(t, "reservations") {
			if r := s.reserve(t, core.Check{Key: key, Limit: l, Cost: drawCost(t, l, "cost")}); r.Allowed() {
				all = append(all, r)
			}
		}
		if s.algorithm == "shaping" {
			slices.Reverse(all) // only the last turn can be given back
		} else {
			all = rapid.Permutation(all).Draw(t, "order")
		}
		for _, r := range all {
			settleAs(t, r, 0)
		}
		if d := s.allow(t, key, l, 0); d.Remaining != l.Capacity() {
			t.Fatalf("%d reservations under %s were cancelled at once: %d remain", len(all), l, d.Remaining)
		}
	})
}

// givenBackOneByOne decides several calls in order, several times, and cancels some of them.
func givenBackOneByOne(t *testing.T, s *stand) {
	rapid.Check(t, func(t *rapid.T) {
		l, key := drawLimit(t, s.algorithm), s.key()
		kept := 0
		var cancelled []core.Settlement
		for range rapid.IntRange(1, 4).Draw(t, "batches") {
			calls := make([]core.Call, rapid.IntRange(1, 5).Draw(t, "calls"))
			for i := range calls {
				check := core.Check{Key: key, Limit: l, Cost: rapid.IntRange(1, 3).Draw(t, "cost")}
				calls[i] = core.Call{Checks: []core.Check{check}, Decisions: make([]core.Decision, 1), Receipts: make([]core.Receipt, 1)}
			}
			for len(calls) > 0 {
				answered, err := s.store.Decide(tContext(t), calls)
				if err != nil {
					t.Fatalf("Decide: %v", err)
				}
				for _, c := range calls[:answered] {
					switch {
					case !c.Passed():
					case s.algorithm != "shaping" && rapid.Bool().Draw(t, "kept"): // only the last turn can be given back
						kept += c.Checks[0].Cost
					default:
						cancelled = append(cancelled, core.Settlement{Check: c.Checks[0], Receipt: c.Receipts[0]})
					}
				}
				calls = calls[answered:]
			}
		}
		if s.algorithm == "shaping" {
			slices.Reverse(cancelled)
		}
		for _, c := range cancelled {
			if err := s.store.Settle(tContext(t), []core.Settlement{c}); err != nil {
				t.Fatalf("Settle: %v", err)
			}
		}
		if d := s.allow(t, key, l, 0); d.Remaining != l.Capacity()-kept {
			t.Fatalf("%d calls under %s were cancelled, and %d units kept: %d remain", len(cancelled), l, kept, d.Remaining)
		}
	})
}

// unchargedIsACondition asks for a condition that holds, and for one that does not.
func unchargedIsACondition(t *testing.T, s *stand) {
	l, condition, key := of(s.algorithm, 10, time.Hour), of(s.algorithm, 5, time.Hour).Named("condition"), s.key()
	checks := []core.Check{{Key: key, Limit: l, Cost: 2}, {Key: key, Limit: condition, Cost: 5, Mode: core.Condition}}
	r := s.reserve(t, checks...)
	if d := r.Decisions(); !r.Allowed() || d[0].Remaining != 8 || d[1].Remaining != 5 {
		t.Errorf("where all fits: %+v and %+v", answerOf(d[0]), answerOf(d[1]))
	}
	settleAs(t, r, 1, 0)
	s.allow(t, key, condition, 1)
	for _, d := range s.allowAll(t, checks...) {
		if fits := d.Limit.Identity() == l.Identity(); d.Allowed != fits || (d.RetryAfter > 0) == fits {
			t.Errorf("where the condition does not fit: %s %+v", d.Limit, answerOf(d))
		}
	}
	if one, other := s.allow(t, key, l, 0), s.allow(t, key, condition, 0); one.Remaining != 9 || other.Remaining != 4 {
		t.Errorf("%d and %d remain, want 9 and 4", one.Remaining, other.Remaining)
	}
	checks[1].Limit = l
	if _, err := s.limiter.AllowAll(t.Context(), checks...); err == nil {
		t.Error("an uncharged check beside another on its key and limit is no error")
	}
}

func nothingBackAfterReset(t *testing.T, s *stand) {
	for _, l := range []core.Quota{of(s.algorithm, 10, time.Hour), of(s.algorithm, 10, time.Hour).Named("plan")} {
		key := s.key()
		before := s.reserve(t, core.Check{Key: key, Limit: l, Cost: 6})
		s.wait(time.Microsecond)
		if err := s.limiter.Reset(t.Context(), key, l); err != nil {
			t.Fatal(err)
		}
		s.allow(t, key, l, 5)
		after := s.reserve(t, core.Check{Key: key, Limit: l, Cost: 2})
		settleAs(t, before, 0)
		if d := s.allow(t, key, l, 0); d.Remaining != 3 {
			t.Errorf("%s: 7 of 10 after a Reset, and what was charged before it given back: %d remain, want 3", l, d.Remaining)
		}
		settleAs(t, after, 0)
		if d := s.allow(t, key, l, 0); d.Remaining != 5 {
			t.Errorf("%s: 2 of 7 given back that were charged after a Reset: %d remain, want 5", l, d.Remaining)
		}
	}
}

func logKnowsItsCharges(t *testing.T, s *stand) {
	l := of(s.algorithm, 10, time.Hour)
	for name, cancel := range map[string]func(key string){
		"charged after a Reset, on a clock that has stepped back": func(key string) {
			s.allow(t, key, l, 3)
			s.wait(time.Second)
			if err := s.limiter.Reset(t.Context(), key, l); err != nil {
				t.Fatal(err)
			}
			s.wait(-time.Minute)
			r := s.reserve(t, core.Check{Key: key, Limit: l, Cost: 2})
			s.wait(time.Second)
			settleAs(t, r, 0)
		},
		"charged before the clock stepped back": func(key string) {
			r := s.reserve(t, core.Check{Key: key, Limit: l, Cost: 2})
			s.wait(-time.Minute)
			settleAs(t, r, 0)
		},
	} {
		key := s.key()
		cancel(key)
		if d := s.peek(t, key, l); d.Remaining != 10 || d.ResetAfter != 0 {
			t.Errorf("2 of 10, %s, and cancelled: %+v, want none used", name, answerOf(d))
		}
	}
}
