package storetest

import (
	"math"
	"math/big"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-go/ratelimit/core"
)

// Agree checks that stores answer the same random histories as an exact model
// does, field by field: takes and peeks of every cost and headroom, mixes of algorithms with
// duplicates and shadows, resets, changed numbers of named limits, long waits and
// clocks that step back. [Run] does it with one store; with several, all of them
// see the same histories.
func Agree(t *testing.T, newStores ...Factory) {
	agree := func(t *testing.T, drawLimits func(*rapid.T) []core.Quota) {
		stands := make([]*stand, len(newStores))
		for i, newStore := range newStores {
			stands[i] = newStand(t, newStore)
		}
		rapid.Check(t, func(t *rapid.T) { newHistory(t, stands, drawLimits(t)).run(t) })
	}
	for _, algorithm := range everyAlgorithm {
		t.Run(algorithm, func(t *testing.T) {
			agree(t, func(t *rapid.T) []core.Quota { return []core.Quota{drawLimit(t, algorithm)} })
		})
		t.Run(algorithm+" with changing numbers", func(t *testing.T) {
			agree(t, func(t *rapid.T) []core.Quota { return drawVersions(t, algorithm) })
		})
	}
	t.Run("mixes", func(t *testing.T) { agree(t, drawMixed) })
}

// drawMixed draws some limits, some of them with changing numbers.
func drawMixed(t *rapid.T) []core.Quota {
	var limits []core.Quota
	for range rapid.IntRange(1, 3).Draw(t, "limits") {
		algorithm := rapid.SampledFrom(everyAlgorithm).Draw(t, "algorithm")
		if rapid.IntRange(0, 2).Draw(t, "named") == 0 {
			limits = append(limits, drawVersions(t, algorithm)...)
		} else {
			limits = append(limits, drawLimit(t, algorithm))
		}
	}
	return limits
}

// drawVersions draws a named limit and the numbers to which it changes: mostly to about the same, so that used units
// still count. The windows of a named log are short, since no store needs to remember instants for a longer window after
// they have left a shorter one.
func drawVersions(t *rapid.T, algorithm string) []core.Quota {
	valid := func(l core.Quota) bool {
		return l.Validate() == nil && (algorithm != "sliding-log" || l.Rate().Period <= time.Minute && l.Capacity() <= mostLogged)
	}
	versions := []core.Quota{drawLimit(t, algorithm)}
	if first := &versions[0]; !valid(*first) {
		*first = newLimit(algorithm, first.Capacity(), core.PerMinute(1))
	}
	for range rapid.IntRange(1, 2).Draw(t, "versions") {
		before := versions[len(versions)-1]
		versions = append(versions, rapid.Custom(func(t *rapid.T) core.Quota {
			scale := func(n int64, label string) int64 {
				by := rapid.SampledFrom([][2]int64{{1, 1}, {1, 1}, {2, 1}, {1, 2}, {3, 7}, {10, 3}}).Draw(t, label)
				return max(1, n/by[1]*by[0], n*by[0]/by[1])
			}
			rate := before.Rate()
			rate.Period = time.Duration(scale(int64(rate.Period), "period"))
			if algorithm == "calendar" {
				capacity := int(scale(int64(before.Capacity()), "capacity"))
				l := rapid.SampledFrom([]core.Quota{drawCalendar(t, capacity), resized(algorithm, before, capacity)}).Draw(t, "version")
				return drawDebt(t, l)
			}
			if algorithmOf(algorithm).window {
				rate.Period = max(time.Microsecond, rate.Period.Truncate(time.Microsecond))
			}
			rate.Events = int(scale(int64(rate.Events), "events"))
			return drawDebt(t, newLimit(algorithm, int(scale(int64(before.Capacity()), "capacity")), rate))
		}).Filter(valid).Draw(t, "version"))
	}
	for i := range versions {
		versions[i] = versions[i].Named("plan")
	}
	return versions
}

// history is one random history on several stores and the model.
type history struct {
	stands []*stand
	model  *model
	now    int64
	back   time.Duration // how far the clock may still step back
	keys   []string
	limits []core.Quota
	last   core.Decision
	// reserved are the charges that have not been settled.
	reserved []reserved
}

// reserved is a check that was charged, as the model remembers it and as each store
// does.
type reserved struct {
	charge   charge
	receipts []core.Receipt
}

// mostBack bounds the steps back of one history, since stores keep states for them no longer.
const mostBack = 20 * time.Minute

func newHistory(t *rapid.T, stands []*stand, limits []core.Quota) *history {
	h := &history{stands: stands, model: newModel(), limits: limits, back: mostBack}
	h.set(start.UnixMicro() + rapid.Int64Range(0, 3_000_000).Draw(t, "start"))
	h.keys = []string{stands[0].key()}
	h.last.Limit = limits[0]
	// A store that spreads keys over servers may charge some of them, and give that
	// back when another denies. The counts are the same, but the states have been
	// rewritten, which a clock that steps back or new numbers would bring to light.
	anyNamed := slices.ContainsFunc(limits, func(l core.Quota) bool { return named(l) })
	if !anyNamed && rapid.IntRange(0, 3).Draw(t, "spread") == 0 {
		h.keys = append(h.keys, stands[0].key())
		h.back = 0
	}
	return h
}

func (h *history) run(t *rapid.T) {
	for range rapid.IntRange(1, 25).Draw(t, "steps") {
		switch rapid.IntRange(0, 19).Draw(t, "step") {
		case 0, 1:
			h.stepBack(t)
		case 2, 3, 4, 5, 6:
			h.wait(t)
		case 7, 8:
			h.ask(t, true)
		case 9:
			h.correct(t)
		case 10, 11:
			h.settle(t)
		case 19:
			h.reset(t)
		default:
			h.ask(t, false)
		}
	}
}

func (h *history) wait(t *rapid.T) {
	wait := drawWait(t, h.last).Microseconds()
	if wait > latest-h.now {
		wait = 0
	}
	h.set(h.now + wait)
}

func (h *history) stepBack(t *rapid.T) {
	step := rapid.OneOf(
		rapid.SampledFrom([]time.Duration{time.Microsecond, time.Millisecond, time.Second, h.back}),
		rapid.Custom(func(t *rapid.T) time.Duration {
			return time.Duration(rapid.Int64Range(0, h.last.ResetAfter.Microseconds()).Draw(t, "microseconds")) * time.Microsecond
		}),
	).Draw(t, "step back")
	if n := numbersOf(h.last.Limit); n.pace != nil && rapid.Bool().Draw(t, "until full") {
		// A step back adds itself to a state that only has an instant, until the limit is full.
		full := roundedUp(new(big.Rat).Quo(n.capacity, n.pace)).Int64() - h.last.ResetAfter.Microseconds()/n.tick
		ticks := full - rapid.Int64Range(-1, 2).Draw(t, "less")
		step = time.Duration(max(0, min(ticks, mostBack.Microseconds()/n.tick))*n.tick) * time.Microsecond
	}
	step = min(step, h.back)
	h.back -= step
	h.set(h.now - step.Microseconds())
}

// set changes the clock to an instant, or to the first one after it in which no charge was made that is still open: stores
// number charges by the instant at which they began to, so after a reset they could not tell two of one microsecond apart.
func (h *history) set(now int64) {
	for now != h.now && slices.ContainsFunc(h.reserved, func(r reserved) bool { return r.charge.at == now }) {
		now++
	}
	h.now = now
	for _, s := range h.stands {
		s.clock.now.Store(now)
	}
}

func (h *history) reset(t *rapid.T) {
	key, l := rapid.SampledFrom(h.keys).Draw(t, "key"), rapid.SampledFrom(h.limits).Draw(t, "limit")
	h.tick()
	t.Logf("reset of %q under %s", key, l)
	for _, shadow := range []bool{false, true} {
		if h.model.forgettable(identity(core.Check{Key: key, Limit: l, Shadow: shadow}), l, h.now) {
			h.back = 0 // a store that has forgotten the state notes no reset, and knows of none after a step back
		}
	}
	h.model.reset(key, h.now, l)
	for _, s := range h.stands {
		if err := s.limiter.Reset(t.Context(), key, l); err != nil {
			t.Fatalf("Reset(%q, %s): %v", key, l, err)
		}
	}
}

func (h *history) ask(t *rapid.T, peek bool) {
	checks := h.drawCall(t)
	h.model.noting = !peek && (h.now%2 == 0 || slices.ContainsFunc(checks, func(c core.Check) bool { return c.ReserveFor > 0 }))
	if !peek && slices.ContainsFunc(checks, h.renumbersInOneInstant) {
		h.tick()
	}
	want := h.model.decide(checks, h.now, peek)
	t.Logf("at %v (peek %t): %s", time.UnixMicro(h.now).UTC().Format("2006-01-02 15:04:05.000000"), peek, callString(checks))
	receipts := make([][]core.Receipt, len(h.stands))
	for i, s := range h.stands {
		got := make([]core.Decision, len(checks))
		if h.model.noting {
			receipts[i] = make([]core.Receipt, len(checks))
		}
		var err error
		if peek {
			got, err = s.limiter.PeekAll(t.Context(), checks...)
		} else {
			_, err = s.store.Decide(t.Context(), []core.Call{{Checks: checks, Decisions: got, Receipts: receipts[i]}})
		}
		if err != nil {
			t.Fatalf("%T: %v", s.store, err)
		}
		asAsked(got...)
		for j := range want {
			if got[j] != want[j] {
				t.Fatalf("store %d, a %T, disagrees with the model about check %d, %s:\n got %+v\nwant %+v",
					i, s.store, j, callString(checks[j:j+1]), answerOf(got[j]), answerOf(want[j]))
			}
		}
	}
	h.last = want[rapid.IntRange(0, len(want)-1).Draw(t, "waiting for")]
	if !peek && receipts[0] != nil {
		h.remember(checks, want, receipts)
	}
}

// renumbersInOneInstant reports whether a check brings other numbers to a state that has an open charge of this instant. A store on Redis
// may then forget that charge, and numbers the next ones from the instant on. If one is made in the same instant, it has the same number
// as the forgotten charge, and units come back which the model does not know.
func (h *history) renumbersInOneInstant(c core.Check) bool {
	return slices.ContainsFunc(h.reserved, func(r reserved) bool {
		return r.charge.at == h.now && identity(r.charge.check) == identity(c) && !numbersOf(r.charge.check.Limit).same(numbersOf(c.Limit))
	})
}

// remember keeps charges, to be settled later. Of several checks on one state it keeps none: each settles the charges of
// all of them.
func (h *history) remember(checks []core.Check, decisions []core.Decision, receipts [][]core.Receipt) {
	decided := core.Call{Checks: checks, Decisions: decisions}
	for i, c := range checks {
		once := 0
		for _, other := range checks {
			if identity(other) == identity(c) {
				once++
			}
		}
		if c.Mode != core.Charge || once > 1 || c.Shadow && !decisions[i].Allowed || !c.Shadow && !decided.Passed() || decisions[i].Waived {
			continue
		}
		r := reserved{charge: charge{check: c, at: h.now, order: h.model.order}}
		n := numbersOf(c.Limit)
		if n.pace != nil {
			r.charge.used, r.charge.order = h.model.states[identity(c)].used(n, h.now), h.model.numbers[identity(c)]
		}
		if c.ReserveFor > 0 {
			r.charge = h.model.reserve(r.charge)
		}
		for _, own := range receipts {
			r.receipts = append(r.receipts, own[i])
		}
		h.reserved = append(h.reserved, r)
	}
}

// together reports whether two charges look like those of one call, which count
// as one.
func (r reserved) together(other reserved) bool {
	return identity(r.charge.check) == identity(other.charge.check) && r.charge.at == other.charge.at
}

// settle settles some of the charges, in one call.
func (h *history) settle(t *rapid.T) {
	h.tick()
	count := min(len(h.reserved), rapid.IntRange(1, 3).Draw(t, "settlements"))
	var chosen []reserved
	for range count {
		i := rapid.IntRange(0, len(h.reserved)-1).Draw(t, "settled")
		r := h.reserved[i]
		h.reserved = slices.Delete(h.reserved, i, i+1)
		if !slices.ContainsFunc(chosen, func(other reserved) bool { return other.together(r) }) {
			chosen = append(chosen, r)
		}
	}
	count = len(chosen)
	ended := mostEnded
	for _, r := range chosen { // ended reservations come back before anything is corrected
		if r.charge.check.ReserveFor > 0 {
			h.model.giveBackEnded(identity(r.charge.check), h.now, &ended)
		}
	}
	costs := make([]int, count)
	for i, r := range chosen {
		reserved := r.charge.check.Units()
		costs[i] = rapid.SampledFrom([]int{0, 1, reserved / 2, reserved, reserved + 1, 2 * reserved, math.MaxInt}).Draw(t, "real cost")
		t.Logf("at %v: settled %s of %v at %d", time.UnixMicro(h.now).UTC().Format("2006-01-02 15:04:05.000000"),
			callString([]core.Check{r.charge.check}), time.UnixMicro(r.charge.at).UTC().Format("15:04:05.000000"), costs[i])
		h.model.settleOpen(r.charge, costs[i], h.now)
	}
	asked := rapid.Bool().Draw(t, "asked")
	for j := range h.stands {
		settlements := make([]core.Settlement, count)
		for i, r := range chosen {
			settlements[i] = core.Settlement{Check: r.charge.check, Cost: costs[i], Receipt: r.receipts[j]}
		}
		h.settleIn(t, j, asked, settlements)
	}
}

// settleIn settles in one of the stores. If the store is asked for the numbers afterwards, they must be the model's.
func (h *history) settleIn(t *rapid.T, place int, asked bool, settlements []core.Settlement) {
	s, told := h.stands[place], make([]core.Decision, len(settlements))
	for i := range settlements {
		if asked {
			settlements[i].Decision = &told[i]
		}
	}
	if err := s.store.Settle(t.Context(), settlements); err != nil {
		t.Fatalf("%T: %v", s.store, err)
	}
	for i := range settlements {
		if !asked {
			continue
		}
		checks := []core.Check{look(settlements[i].Check)}
		if want := h.model.decide(checks, h.now, true)[0]; told[i] != want {
			t.Fatalf("store %d, a %T, disagrees with the model about what is left after settlement %d, of %s:\n got %+v\nwant %+v",
				place, s.store, i, callString(checks), answerOf(told[i]), answerOf(want))
		}
	}
}

// tick has a microsecond pass: a store on a server cannot charge and settle in one.
func (h *history) tick() { h.set(h.now + 1) }

// correct refunds, charges or raises units of unknown charges.
func (h *history) correct(t *rapid.T) {
	h.tick()
	key, l := rapid.SampledFrom(h.keys).Draw(t, "key"), rapid.SampledFrom(h.limits).Draw(t, "limit")
	s := core.Settlement{Check: core.Check{Key: key, Limit: l, Mode: core.Look}}
	n := drawCost(t, l, "units")
	switch rapid.IntRange(0, 2).Draw(t, "verb") {
	case 0:
		s.Check.Mode, s.Check.Cost = core.Charge, n
	case 1:
		s.Cost = n
	default:
		s.Cost, s.Raise = n, true
	}
	t.Logf("at %v: corrected %q under %s: %d instead of %d, raise %t",
		time.UnixMicro(h.now).UTC().Format("2006-01-02 15:04:05.000000"), key, l, s.Cost, s.Check.Units(), s.Raise)
	h.model.settle(charge{check: s.Check}, s.Cost-s.Check.Units(), s.Raise, h.now)
	asked := rapid.Bool().Draw(t, "asked")
	for i := range h.stands {
		h.settleIn(t, i, asked, []core.Settlement{s})
	}
}

// answerOf returns a Decision for a failure's message: without the limit.
func answerOf(d core.Decision) any {
	return struct {
		Allowed, Waived                          bool
		Remaining                                int
		RetryAfter, NextAfter, ResetAfter, Delay time.Duration
	}{d.Allowed, d.Waived, d.Remaining, d.RetryAfter, d.NextAfter, d.ResetAfter, d.Delay}
}
