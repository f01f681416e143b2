package storetest

import (
	"cmp"
	"fmt"
	"math"
	"math/big"
	"slices"
	"time"

	"github.com/weir-go/ratelimit/core"
)

// model decides calls as the laws and the documentation of package core say, in exact rational numbers. It shares no
// arithmetic with core: it knows only the units that a key has used at an instant, and finds every wait by searching for
// the first instant at which a condition holds.
type model struct {
	states map[string]state
	notes  map[string]*noted
	resets map[string]reset
	order  int // of notes and resets
	open   map[string][]openCharge
	opened int // how many of them there were

	noting  bool           // charges may be settled
	numbers map[string]int // of the latest notes
}

// reset is when a key was reset.
type reset struct {
	at    int64
	order int
}

func newModel() *model {
	return &model{
		states: make(map[string]state), notes: make(map[string]*noted),
		resets: make(map[string]reset), open: make(map[string][]openCharge), numbers: make(map[string]int),
	}
}

// state is the state of one key under one limit. States are values that never change.
type state interface {
	// understood returns the state as it counts at an instant under a limit. A named
	// limit may have had other numbers when the state was written. understood also
	// reports whether no history of that limit, with a clock that only moves forward,
	// could have left the state.
	understood(l numbers, now int64) (s state, repaired bool)
	// used returns the events that count at an instant, which is not before that
	// of the state.
	used(l numbers, now int64) *big.Rat
	// charged returns the state with more events, which have just been found to fit.
	charged(l numbers, now int64, cost int) state
}

// numbers are those of a limit, in the model's terms.
type numbers struct {
	limit    core.Limit
	capacity *big.Rat
	most     *big.Rat // events that count: the capacity, and the debt of settlements
	tick     int64    // microseconds
	pace     *big.Rat // of a meter: events that drain in a tick
	window   int64    // of a window: ticks
	calendar func(at int64) (start, end int64)
}

// most is the largest number of units that a limit may count.
const most = 1<<53 - 1

// longest is how many microseconds a limit may take to recover: a century.
const longest = 100 * 365 * 24 * 3_600_000_000

func numbersOf(l core.Limit) numbers {
	n := numbers{limit: l, capacity: new(big.Rat).SetInt64(int64(l.Capacity()))}
	n.most = n.capacity
	if q, is := l.(core.Quota); is && q.Debt() < math.MaxInt {
		n.most = new(big.Rat).SetInt64(int64(q.Capacity() + q.Debt()))
	}
	for _, tick := range []int64{1, 1000} {
		n.tick = tick
		ticks := big.NewRat(int64(l.Rate().Period), 1000*tick) // in a period
		switch l.Algorithm() {
		case "calendar":
			n.calendar = calendarOf(l)
			return n
		case "fixed-window", "sliding-log":
			n.window = ticks.Num().Int64()
			n.oweMost()
			return n
		case "sliding-window":
			n.window = ticks.Num().Int64()
			if ticks.IsInt() && fits(new(big.Rat).Mul(n.capacity, ticks)) {
				return n
			}
		default:
			n.pace = new(big.Rat).Quo(new(big.Rat).SetInt64(int64(l.Rate().Events)), ticks)
			if units := new(big.Rat).SetInt(n.pace.Denom()); fits(units.Mul(n.most, units)) {
				n.oweMost()
				return n
			}
		}
	}
	return n
}

// each returns how many events of a debt a window pays, or 0 if there is none.
func (n numbers) each() int64 {
	if q, is := n.limit.(core.Quota); is && q.Debt() > 0 && n.pace == nil {
		return int64(q.Capacity())
	}
	return 0
}

// oweMost has a limit of unlimited debt count as many events as units can, and as drain in the longest time that a limit may
// take to recover.
func (n *numbers) oweMost() {
	q, is := n.limit.(core.Quota)
	switch {
	case !is || q.Debt() < math.MaxInt:
	case n.pace == nil: // as many windows as fit pay it
		windows := big.NewInt(longest / n.window)
		n.most = least(new(big.Rat).SetInt64(most), new(big.Rat).SetInt(windows.Mul(windows, big.NewInt(int64(q.Capacity())))))
	default:
		units := least(new(big.Rat).SetInt64(most), new(big.Rat).Mul(new(big.Rat).SetInt64(longest/n.tick), new(big.Rat).SetInt(n.pace.Num())))
		events := units.Quo(units, new(big.Rat).SetInt(n.pace.Denom()))
		n.most = new(big.Rat).SetInt(new(big.Int).Quo(events.Num(), events.Denom()))
	}
}

// mostCharged returns how many events settlements may use of a limit.
func mostCharged(l core.Limit) int {
	if q, is := l.(core.Quota); !is || q.Debt() == 0 {
		return l.Capacity()
	}
	return int(numbersOf(l).most.Num().Int64())
}

func fits(units *big.Rat) bool { return units.Cmp(new(big.Rat).SetInt64(most)) <= 0 }

func (n numbers) same(other numbers) bool {
	return n.tick == other.tick && n.window == other.window && n.most.Cmp(other.most) == 0 &&
		(n.pace == nil || n.pace.Cmp(other.pace) == 0)
}

// floor returns the beginning of the tick of an instant, in ticks.
func (n numbers) floor(now int64) int64 { return now / n.tick }

// named reports whether a limit has got a name by [core.Quota.Named].
func named(l core.Limit) bool { return l.Identity().Capacity() == 0 }

func identity(c core.Check) string {
	name := c.Limit.String()
	if named(c.Limit) {
		name = c.Limit.Algorithm() + "=" + c.Limit.Name()
	}
	return fmt.Sprintf("%q %s %t", c.Key, name, c.Shadow)
}

// decide answers a call at an instant in microseconds.
func (m *model) decide(checks []core.Check, now int64, peek bool) []core.Decision {
	decisions := make([]core.Decision, len(checks))
	ended := mostEnded
	for _, c := range checks {
		if c.ReserveFor > 0 && !peek {
			m.giveBackEnded(identity(c), now, &ended)
		}
	}
	var gating []int
	for i, c := range checks {
		if !c.Shadow {
			gating = append(gating, i)
		}
	}
	m.decideTogether(checks, gating, decisions, now, peek)
	for i, c := range checks {
		switch {
		case !c.Shadow, c.Or: // it is asked with those before it
		default:
			m.decideTogether(checks, alternativesOf(checks, i), decisions, now, peek)
		}
	}
	return decisions
}

// alternativesOf returns the places of a check and of its alternatives.
func alternativesOf(checks []core.Check, place int) (places []int) {
	for checks[place].Or {
		place--
	}
	places = []int{place}
	for place++; place < len(checks) && checks[place].Or; place++ {
		places = append(places, place)
	}
	return places
}

// waive returns which decisions about a call do not count: of alternatives all but the first that is allowed,
// or the first of those with the shortest wait.
func waive(checks []core.Check, decisions []core.Decision) []bool {
	waived := make([]bool, len(checks))
	for i := range checks {
		if checks[i].Or {
			continue
		}
		either := alternativesOf(checks, i)
		counts := slices.MinFunc(either, func(a, b int) int { return cmp.Compare(decisions[a].RetryAfter, decisions[b].RetryAfter) })
		for _, place := range either {
			waived[place] = place != counts
		}
	}
	return waived
}

// found is the model's result for one check before anything is written.
type found struct {
	identity string
	numbers  numbers
	state    state
	repaired bool
	before   int // units that earlier checks of the call ask of the same state
	total    int // that and the check's own cost
	need     int // that and the check's headroom
	allowed  bool
	waived   bool // an earlier alternative is allowed, or it is not allowed itself and another one is
}

func (m *model) decideTogether(checks []core.Check, which []int, decisions []core.Decision, now int64, peek bool) {
	peek = peek || !slices.ContainsFunc(which, func(i int) bool { return checks[i].Mode == core.Charge })
	asked := make(map[string]int)
	all := make([]found, len(which))
	passed := true
	for i, index := range which {
		c := checks[index]
		f := found{identity: identity(c), numbers: numbersOf(c.Limit)}
		f.state, f.repaired = m.state(f.identity, c.Limit).understood(f.numbers, now)
		alternative := len(alternativesOf(checks, index)) > 1
		if !alternative {
			f.before = asked[f.identity]
		}
		f.total = add(f.before, c.Units())
		f.need = add(f.total, c.Headroom)
		if !alternative {
			asked[f.identity] = f.total
		}
		f.allowed = c.Mode == core.Look || f.room(f.state, now, f.need)
		all[i] = f
	}
	for i := range all {
		either := alternativesOf(checks, which[i])
		first := slices.IndexFunc(either, func(place int) bool { return all[slices.Index(which, place)].allowed })
		all[i].waived = first >= 0 && either[first] != which[i]
		passed = passed && first >= 0
	}
	for i, index := range which {
		f, c := all[i], checks[index]
		d := core.Decision{Allowed: f.allowed, Limit: c.Limit}
		after := f.state
		switch {
		case !f.allowed && f.need > c.Limit.Capacity():
			d.RetryAfter = core.Never
		case !f.allowed:
			d.RetryAfter = f.first(now, func(at int64) bool { return f.room(f.state, at, f.need) })
		case c.Mode != core.Look && (passed || peek) && !f.waived:
			if c.Limit.Algorithm() == "shaping" {
				queue := f.state.charged(f.numbers, now, f.before)
				d.Delay = f.first(now, func(at int64) bool { return queue.used(f.numbers, at).Sign() == 0 })
			}
		}
		if passed && !f.waived && !peek && f.total > 0 && c.Mode != core.Condition {
			after = f.state.charged(f.numbers, now, f.total)
		}
		d.Remaining = f.remaining(after, now)
		if after.used(f.numbers, now).Sign() > 0 {
			d.NextAfter = f.first(now, func(at int64) bool { return f.remaining(after, at) > d.Remaining })
			d.ResetAfter = f.first(now, func(at int64) bool { return after.used(f.numbers, at).Sign() == 0 })
		}
		decisions[index] = d
	}
	for place, waived := range waive(checks, decisions) {
		decisions[place].Waived = waived
	}
	if peek {
		return
	}
	charged := make(map[string]found)
	for i, index := range which {
		f := all[i]
		charges := passed && !f.waived
		if checks[index].Mode != core.Charge || !charges && (!f.repaired || f.state.used(f.numbers, now).Sign() == 0) {
			continue
		}
		m.forgetNotes(f, now)
		m.states[f.identity] = f.state
		if s, is := f.state.(dated); is {
			s.each = f.numbers.each()
			m.states[f.identity] = s
		}
		if charges {
			m.states[f.identity] = f.state.charged(f.numbers, now, f.total)
			charged[f.identity] = f
		}
	}
	for id, f := range charged {
		if m.noting && f.numbers.pace != nil {
			m.numbers[id] = m.note(id, f.numbers, f.state.used(f.numbers, now), now)
		}
	}
}

func (m *model) state(identity string, l core.Limit) state {
	if s := m.states[identity]; s != nil {
		return s
	}
	return algorithmOf(l.Algorithm()).fresh
}

func (m *model) reset(key string, now int64, limits ...core.Limit) {
	for _, l := range limits {
		for _, shadow := range []bool{false, true} {
			id := identity(core.Check{Key: key, Limit: l, Shadow: shadow})
			if before, known := m.resets[id]; known || m.states[id] != nil {
				m.order++
				m.resets[id] = reset{max(before.at, now), m.order}
			}
			delete(m.states, id)
			delete(m.notes, id)
		}
	}
}

func add(a, b int) int {
	if a > math.MaxInt-b {
		return math.MaxInt
	}
	return a + b
}

// room reports whether cost events fit at an instant.
func (f found) room(s state, at int64, cost int) bool {
	sum := new(big.Rat).SetInt64(int64(cost))
	return sum.Add(sum, s.used(f.numbers, at)).Cmp(f.numbers.capacity) <= 0
}

// remaining returns how many whole events still fit.
func (f found) remaining(s state, at int64) int {
	left := new(big.Rat).Sub(f.numbers.capacity, s.used(f.numbers, at))
	if left.Sign() < 0 {
		return 0
	}
	return int(new(big.Int).Quo(left.Num(), left.Denom()).Int64())
}

// first returns the shortest wait, in whole ticks, after which a condition holds. Once it
// holds, it must go on holding.
func (f found) first(now int64, so func(at int64) bool) time.Duration {
	if so(now) {
		return 0
	}
	low, high := int64(0), int64(1) // it is not so after low ticks
	for !so(now + high*f.numbers.tick) {
		if high > most/f.numbers.tick {
			panic("storetest: what is waited for never comes")
		}
		low, high = high, high*2
	}
	for high-low > 1 {
		if middle := low + (high-low)/2; so(now + middle*f.numbers.tick) {
			high = middle
		} else {
			low = middle
		}
	}
	return time.Duration(high*f.numbers.tick) * time.Microsecond
}
