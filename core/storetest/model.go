package storetest

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"time"

	"github.com/weir-go/ratelimit/core"
)

// model decides questions as the laws and the documentation of package core say,
// in exact rational numbers. It shares no arithmetic with core: it knows only what
// a key has used at an instant, and finds every wait by searching for the first
// instant at which what is waited for is so.
type model struct {
	states  map[string]state
	lowered map[string][]givenBack
	order   int // of what was given back
}

func newModel() *model {
	return &model{states: make(map[string]state), lowered: make(map[string][]givenBack)}
}

// state is what one key has left under one limit. States are values that never
// change.
type state interface {
	// understood returns the state as it is to be taken at an instant under a limit,
	// which may be another than wrote it if it is named, and whether that differs
	// from what any history of that limit with a clock that moves forward could
	// have left.
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
	tick     int64    // microseconds
	pace     *big.Rat // of a meter: events that drain in a tick
	window   int64    // of a window: ticks
}

// most is the largest number of units that a limit may count.
const most = 1<<53 - 1

func numbersOf(l core.Limit) numbers {
	n := numbers{limit: l, capacity: new(big.Rat).SetInt64(int64(l.Capacity()))}
	for _, tick := range []int64{1, 1000} {
		n.tick = tick
		ticks := big.NewRat(int64(l.Rate().Period), 1000*tick) // in a period
		switch l.Algorithm() {
		case "fixed-window", "sliding-log":
			n.window = ticks.Num().Int64()
			return n
		case "sliding-window":
			n.window = ticks.Num().Int64()
			if ticks.IsInt() && fits(new(big.Rat).Mul(n.capacity, ticks)) {
				return n
			}
		default:
			n.pace = new(big.Rat).Quo(new(big.Rat).SetInt64(int64(l.Rate().Events)), ticks)
			if fits(new(big.Rat).Mul(n.capacity, new(big.Rat).SetInt(n.pace.Denom()))) {
				return n
			}
		}
	}
	return n
}

func fits(units *big.Rat) bool { return units.Cmp(new(big.Rat).SetInt64(most)) <= 0 }

func (n numbers) same(other numbers) bool {
	return n.tick == other.tick && n.window == other.window && n.capacity.Cmp(other.capacity) == 0 &&
		(n.pace == nil || n.pace.Cmp(other.pace) == 0)
}

// floor returns the beginning of the tick of an instant, in ticks.
func (n numbers) floor(now int64) int64 { return now / n.tick }

func identity(c core.Check) string {
	name := c.Limit.String()
	if c.Limit.Given() {
		name = c.Limit.Algorithm() + "=" + c.Limit.Name()
	}
	return fmt.Sprintf("%q %s %t", c.Key, name, c.Shadow)
}

// decide answers a question at an instant in microseconds.
func (m *model) decide(checks []core.Check, now int64, peek bool) []core.Decision {
	decisions := make([]core.Decision, len(checks))
	var gating []int
	for i, c := range checks {
		if !c.Shadow {
			gating = append(gating, i)
		}
	}
	m.decideTogether(checks, gating, decisions, now, peek)
	for i, c := range checks {
		if c.Shadow {
			m.decideTogether(checks, []int{i}, decisions, now, peek)
		}
	}
	return decisions
}

// found is what the model makes of one check before anything is written.
type found struct {
	identity string
	numbers  numbers
	state    state
	repaired bool
	before   int // what earlier checks of the question ask of the same state
	total    int // that and the check's own cost
	allowed  bool
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
		f.before = asked[f.identity]
		f.total = add(f.before, c.Units())
		asked[f.identity] = f.total
		f.allowed = c.Mode == core.Look || f.room(f.state, now, f.total)
		passed = passed && f.allowed
		all[i] = f
	}
	for i, index := range which {
		f, c := all[i], checks[index]
		d := core.Decision{Allowed: f.allowed, Limit: c.Limit}
		after := f.state
		switch {
		case !f.allowed && f.total > c.Limit.Capacity():
			d.RetryAfter = core.Never
		case !f.allowed:
			d.RetryAfter = f.first(now, func(at int64) bool { return f.room(f.state, at, f.total) })
		case c.Mode != core.Look && (passed || peek):
			if c.Limit.Algorithm() == "shaping" {
				queue := f.state.charged(f.numbers, now, f.before)
				d.Delay = f.first(now, func(at int64) bool { return queue.used(f.numbers, at).Sign() == 0 })
			}
		}
		if passed && !peek && f.total > 0 && c.Mode != core.Condition {
			after = f.state.charged(f.numbers, now, f.total)
		}
		d.Remaining = f.remaining(after, now)
		if after.used(f.numbers, now).Sign() > 0 {
			d.NextAfter = f.first(now, func(at int64) bool { return f.remaining(after, at) > d.Remaining })
			d.ResetAfter = f.first(now, func(at int64) bool { return after.used(f.numbers, at).Sign() == 0 })
		}
		decisions[index] = d
	}
	if peek {
		return
	}
	for i, index := range which {
		switch f := all[i]; {
		case checks[index].Mode != core.Charge:
		case passed:
			m.states[f.identity] = f.state.charged(f.numbers, now, f.total)
		case f.repaired && f.state.used(f.numbers, now).Sign() > 0:
			m.states[f.identity] = f.state
		}
	}
}

func (m *model) state(identity string, l core.Limit) state {
	if s := m.states[identity]; s != nil {
		return s
	}
	switch l.Algorithm() {
	case "fixed-window":
		return fixed{}
	case "sliding-window":
		return sliding{}
	case "sliding-log":
		return logged{}
	case "gcra", "shaping":
		return scheduled{}
	}
	return metered{}
}

func (m *model) reset(key string, now int64, limits ...core.Limit) {
	for _, l := range limits {
		for _, shadow := range []bool{false, true} {
			id := identity(core.Check{Key: key, Limit: l, Shadow: shadow})
			if m.states[id] != nil || m.lowered[id] != nil {
				m.note(id, numbersOf(l), new(big.Rat), now)
			}
			delete(m.states, id)
		}
	}
}

func add(a, b int) int {
	if a > math.MaxInt-b {
		return math.MaxInt
	}
	return a + b
}

// room reports whether so many events fit at an instant.
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

// first returns the shortest wait, in whole ticks, after which something is so
// that then stays so.
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

// metered is a level that drains: leaky and token bucket.
type metered struct {
	by    numbers
	level *big.Rat // events at the tick at; nil: never used
	at    int64
}

func (s metered) understood(l numbers, now int64) (state, bool) {
	if s.level == nil {
		return metered{by: l, level: new(big.Rat), at: l.floor(now)}, false
	}
	level, repaired := s.used(s.by, now), s.by.floor(now) < s.at
	level, renumbered := renumbered(level, s.by, l)
	return metered{by: l, level: level, at: l.floor(now)}, repaired || renumbered
}

// renumbered returns the level of a meter under the numbers of another limit: it
// is rounded up to the units in which that one counts, and no more than full.
func renumbered(level *big.Rat, from, to numbers) (*big.Rat, bool) {
	if from.same(to) {
		return level, false
	}
	units := new(big.Rat).Mul(level, new(big.Rat).SetInt(to.pace.Denom()))
	level = new(big.Rat).SetFrac(roundedUp(units), to.pace.Denom())
	if level.Cmp(to.capacity) > 0 {
		level = to.capacity
	}
	return level, true
}

func roundedUp(r *big.Rat) *big.Int {
	quotient, rest := new(big.Int).QuoRem(r.Num(), r.Denom(), new(big.Int))
	if rest.Sign() > 0 {
		quotient.Add(quotient, big.NewInt(1))
	}
	return quotient
}

// used is the level after what has drained. While the clock is behind, it stands.
func (s metered) used(_ numbers, now int64) *big.Rat {
	ticks := max(0, s.by.floor(now)-s.at)
	drained := new(big.Rat).SetInt64(ticks)
	drained.Mul(drained, s.by.pace)
	if drained.Cmp(s.level) >= 0 {
		return new(big.Rat)
	}
	return drained.Sub(s.level, drained)
}

func (s metered) charged(_ numbers, _ int64, cost int) state {
	level := new(big.Rat).SetInt64(int64(cost))
	s.level = level.Add(level, s.level)
	return s
}

// scheduled is the instant at which a level will have drained: GCRA and shaping.
type scheduled struct {
	by   numbers
	free *big.Rat // in ticks since 1970; nil: never used
}

func (s scheduled) understood(l numbers, now int64) (state, bool) {
	start := new(big.Rat).SetInt64(l.floor(now))
	if s.free == nil {
		return scheduled{by: l, free: start}, false
	}
	level := s.used(s.by, now)
	tooMuch := level.Cmp(s.by.capacity) > 0
	if tooMuch {
		level = s.by.capacity
	}
	level, renumbered := renumbered(level, s.by, l)
	return scheduled{by: l, free: start.Add(start, new(big.Rat).Quo(level, l.pace))}, tooMuch || renumbered
}

func (s scheduled) used(_ numbers, now int64) *big.Rat {
	level := new(big.Rat).SetInt64(s.by.floor(now))
	level.Sub(s.free, level)
	if level.Sign() < 0 {
		return new(big.Rat)
	}
	return level.Mul(level, s.by.pace)
}

func (s scheduled) charged(l numbers, _ int64, cost int) state {
	free := new(big.Rat).SetInt64(int64(cost))
	free.Quo(free, l.pace)
	s.free = free.Add(free, s.free)
	return s
}

// fixed is a count and when its window closes. A count of 0 is no window.
type fixed struct {
	by     numbers
	count  int64
	closes int64
}

func (s fixed) understood(l numbers, now int64) (state, bool) {
	if s.count == 0 || s.closes <= now {
		return fixed{by: l}, false
	}
	count, closes := min(s.count, int64(l.limit.Capacity())), min(s.closes, now+l.window)
	return fixed{by: l, count: count, closes: closes}, count != s.count || closes != s.closes
}

func (s fixed) used(_ numbers, now int64) *big.Rat {
	if s.closes <= now {
		return new(big.Rat)
	}
	return new(big.Rat).SetInt64(s.count)
}

func (s fixed) charged(l numbers, now int64, cost int) state {
	if s.count == 0 && cost > 0 {
		s.closes = now + l.window
	}
	s.count += int64(cost)
	return s
}

// sliding is the counts of the window that starts at a tick and of that before it.
type sliding struct {
	by                numbers
	current, previous int64
	start             int64
}

func (s sliding) understood(l numbers, now int64) (state, bool) {
	ticks := l.floor(now)
	taken := sliding{by: l, start: ticks - ticks%l.window}
	if s.current == 0 && s.previous == 0 {
		return taken, false
	}
	repaired := false
	if theirs := s.by.floor(now); theirs-theirs%s.by.window < s.start {
		s.start = theirs - theirs%s.by.window
		repaired = true
	}
	if s.by.window == l.window && s.by.tick == l.tick {
		taken.current, taken.previous = s.at(now)
	} else {
		taken.current = roundedUp(s.used(s.by, now)).Int64()
		repaired = repaired || l.limit.Rate().Period < s.by.limit.Rate().Period // only a shorter window is kept
	}
	capacity := int64(l.limit.Capacity())
	if (!s.by.same(l) || taken.current > capacity || taken.previous > capacity) && taken.used(l, now).Cmp(l.capacity) > 0 {
		// What is used is clamped, in whole events of either window.
		taken.current = min(taken.current, capacity)
		weight := big.NewRat(l.window-ticks%l.window, l.window)
		room := weight.Quo(big.NewRat(capacity-taken.current, 1), weight)
		taken.previous = new(big.Int).Quo(room.Num(), room.Denom()).Int64()
		repaired = true
	}
	return taken, repaired
}

// at returns the counts as they stand at an instant.
func (s sliding) at(now int64) (current, previous int64) {
	switch (s.by.floor(now) - s.start) / s.by.window {
	case 0:
		return s.current, s.previous
	case 1:
		return 0, s.current
	}
	return 0, 0
}

func (s sliding) used(_ numbers, now int64) *big.Rat {
	current, previous := s.at(now)
	left := s.by.window - s.by.floor(now)%s.by.window
	used := big.NewRat(left, s.by.window)
	used.Mul(used, new(big.Rat).SetInt64(previous))
	return used.Add(used, new(big.Rat).SetInt64(current))
}

func (s sliding) charged(_ numbers, _ int64, cost int) state {
	s.current += int64(cost)
	return s
}

// logged is the instants at which units were admitted, oldest first.
type logged struct {
	instants []int64
}

func (s logged) understood(l numbers, now int64) (state, bool) {
	var taken logged
	repaired := false
	for _, at := range s.instants {
		if at > now {
			at, repaired = now, true
		}
		if at > now-l.window {
			taken.instants = append(taken.instants, at)
		}
	}
	if excess := len(taken.instants) - l.limit.Capacity(); excess > 0 {
		taken.instants, repaired = taken.instants[excess:], true
	}
	return taken, repaired
}

func (s logged) used(l numbers, now int64) *big.Rat {
	var count int64
	for _, at := range s.instants {
		if at > now-l.window {
			count++
		}
	}
	return new(big.Rat).SetInt64(count)
}

func (s logged) charged(_ numbers, now int64, cost int) state {
	instants := append([]int64(nil), s.instants...)
	for range cost {
		instants = append(instants, now)
	}
	return logged{instants}
}
