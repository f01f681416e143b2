package storetest

import (
	"math/big"
	"slices"
	"time"

	"github.com/weir-go/ratelimit/core"
)

// charge is what the model remembers of a check that was charged.
type charge struct {
	check core.Check
	at    int64    // 0: not known
	used  *big.Rat // of a meter after the charge, in events
	order int      // how often something had been given back by then
	name  int      // of an open charge
}

// givenBack is when something was given back, or a key was reset, and the level that
// this has left.
type givenBack struct {
	by    numbers
	level *big.Rat // in events
	at    int64
	order int
}

// note remembers that the level of a key was lowered. If the clock has stepped back since
// the last time, it is not known how long ago that is: the model assumes an empty level.
func (m *model) note(id string, by numbers, level *big.Rat, now int64) {
	m.order++
	before := m.lowered[id]
	if last := len(before) - 1; last >= 0 && now < before[last].at {
		level, now = new(big.Rat), before[last].at
	}
	m.lowered[id] = append(before, givenBack{by: by, level: level, at: now, order: m.order})
}

// low returns the least that a level may have been since a charge. Between one lowering and
// the next, all charges may have come at the end. nil means that it was not lowered.
func (m *model) low(id string, c charge, own numbers, now int64) *big.Rat {
	var low *big.Rat
	all := m.lowered[id]
	for i, g := range all {
		if g.at < c.at || g.at == c.at && g.order <= c.order {
			continue
		}
		until := now
		if i+1 < len(all) {
			until = all[i+1].at
		}
		if g.level.Sign() == 0 || !g.by.same(own) || now < g.at {
			return new(big.Rat)
		}
		level := stillLeft(own, g.level, g.at, until)
		if low == nil || level.Cmp(low) < 0 {
			low = level
		}
	}
	return low
}

// settle changes what was charged by events, or raises what is used to them.
func (m *model) settle(c charge, events int, raise bool, now int64) {
	id, asked := identity(c.check), numbersOf(c.check.Limit)
	events = max(-c.check.Limit.Capacity(), min(events, c.check.Limit.Capacity()))
	if events == 0 {
		return
	}
	found := m.state(id, c.check.Limit)
	if m.states[id] != nil && recovered(found, now) {
		found = newModel().state(id, c.check.Limit) // what it was left with means nothing
	}
	var low *big.Rat
	if _, log := found.(logged); events < 0 && c.at != 0 && !log { // a log knows what was charged when
		if c.at > now {
			return // before the clock stepped back
		}
		if low = m.low(id, c, boundBy(found, asked), now); low != nil && low.Sign() == 0 {
			return
		}
	}
	var after state
	changed := true
	switch s := found.(type) {
	case metered:
		own := s.by
		if s.level == nil {
			own = asked
		}
		level := m.corrected(id, c, asked, own, s, low, events, raise, now)
		if level == nil {
			return
		}
		after = metered{by: own, level: level, at: own.floor(now)}
	case scheduled:
		own := s.by
		if s.free == nil {
			own = asked
		}
		level := m.corrected(id, c, asked, own, s, low, events, raise, now)
		if level == nil {
			return
		}
		start := new(big.Rat).SetInt64(own.floor(now))
		after = scheduled{by: own, free: start.Add(start, new(big.Rat).Quo(level, own.pace))}
	case fixed:
		after, changed = s.settled(c, asked, events, raise, now)
	case dated:
		after, changed = s.settled(c, asked, events, raise, now)
	case sliding:
		after, changed = s.settled(c, asked, events, raise, now)
	case logged:
		after, changed = s.settled(c, asked, events, raise, now)
	}
	if !changed {
		return
	}
	if after.used(asked, now).Sign() == 0 && empty(after) {
		delete(m.states, id)
		return
	}
	m.states[id] = after
}

// boundBy returns the numbers that a state has, or those asked if it has none.
func boundBy(s state, asked numbers) numbers {
	switch s := s.(type) {
	case metered:
		if s.level != nil {
			return s.by
		}
	case scheduled:
		if s.free != nil {
			return s.by
		}
	}
	return asked
}

// lower remembers that a level was lowered, unless there can have been no other charge
// between the one that was given back and now.
func (m *model) lower(id string, c charge, asked, own numbers, used, level, low *big.Rat, now int64) {
	alone := c.at != 0 && low == nil && own.same(asked) && used.Cmp(stillLeft(asked, c.used, c.at, now)) == 0
	if level.Cmp(used) < 0 && !alone {
		m.note(id, own, level, now)
	}
}

// corrected returns the level of a meter after a correction, or nil if that changes
// nothing.
func (m *model) corrected(id string, c charge, asked, own numbers, s state, low *big.Rat, events int, raise bool, now int64) *big.Rat {
	taken, _ := s.understood(own, now)
	used := taken.used(own, now)
	change := meterChange(c, asked, own, used, low, events, raise, now)
	if change.Sign() == 0 {
		return nil
	}
	level := new(big.Rat).Add(change, used)
	m.lower(id, c, asked, own, used, level, low, now)
	return level
}

// forgettable reports whether stores may know nothing of a state any more, since it recovered an hour ago or
// earlier, and so did what was noted of it.
func (m *model) forgettable(id string, l core.Limit, now int64) bool {
	ago, lowered := now-time.Hour.Microseconds(), m.lowered[id]
	switch s := m.states[id].(type) {
	case nil:
		if len(lowered) == 0 {
			return false // a reset changes nothing
		}
	case dated:
		if taken, _ := s.understood(s.by, ago); taken.used(s.by, ago).Sign() > 0 {
			return false
		}
	default:
		if !recovered(s, ago) {
			return false
		}
	}
	return len(lowered) == 0 || lowered[len(lowered)-1].at+recovery(l) <= ago
}

// recovered reports whether nothing is used of a state, under whatever numbers.
func recovered(s state, now int64) bool {
	var by numbers
	switch s := s.(type) {
	case metered:
		by = s.by
	case scheduled:
		by = s.by
	case fixed:
		by = s.by
	case sliding:
		by = s.by
	case logged, dated:
		return false // the instants, or the window, are all there is
	}
	taken, _ := s.understood(by, now)
	return taken.used(by, now).Sign() == 0
}

// empty reports whether a state is that of a key that was never used.
func empty(s state) bool {
	switch s := s.(type) {
	case fixed:
		return s.count == 0
	case dated:
		return s.count == 0
	case sliding:
		return s.current == 0 && s.previous == 0
	case logged:
		return len(s.instants) == 0
	}
	return true
}

// meterChange returns by how many events the level of a meter changes.
func meterChange(c charge, asked, own numbers, used, low *big.Rat, events int, raise bool, now int64) *big.Rat {
	n := least(new(big.Rat).SetInt64(int64(events)), own.capacity)
	switch {
	case raise:
		return most0(n.Sub(n, used))
	case events > 0:
		return least(n, new(big.Rat).Sub(own.capacity, used))
	}
	back := least(n.Neg(n), used)
	back = least(back, own.capacity)
	if c.at == 0 {
		return new(big.Rat).Neg(back)
	}
	left := stillLeft(asked, c.used, c.at, now)
	if !own.same(asked) {
		left = least(whole(left), stillLeft(own, least(whole(c.used), own.capacity), c.at, now))
	}
	if low != nil {
		left = least(left, low)
	}
	if c.check.Limit.Algorithm() == "shaping" && used.Cmp(left) > 0 {
		return new(big.Rat)
	}
	return new(big.Rat).Neg(least(back, left))
}

// stillLeft returns what is left of a charged meter after what has drained since.
func stillLeft(n numbers, used *big.Rat, at, now int64) *big.Rat {
	drained := new(big.Rat).SetInt64(max(0, n.floor(now)-n.floor(at)))
	drained.Mul(drained, n.pace)
	return most0(drained.Sub(used, drained))
}

func least(a, b *big.Rat) *big.Rat {
	if a.Cmp(b) < 0 {
		return new(big.Rat).Set(a)
	}
	return new(big.Rat).Set(b)
}

func most0(a *big.Rat) *big.Rat {
	if a.Sign() < 0 {
		return new(big.Rat)
	}
	return a
}

func whole(a *big.Rat) *big.Rat {
	return new(big.Rat).SetInt(new(big.Int).Quo(a.Num(), a.Denom()))
}

// counted returns a count after a correction.
func counted(count int64, capacity, events int, raise bool) int64 {
	n := int64(events)
	if raise {
		n = max(0, n-count)
	}
	return max(0, count+min(n, max(0, int64(capacity)-count)))
}

func (s fixed) settled(c charge, asked numbers, events int, raise bool, now int64) (after state, changed bool) {
	own := s.by
	open := s.count > 0 && s.closes > now
	if s.count == 0 {
		own = asked
	}
	if !open {
		s = fixed{by: own, closes: now + own.window}
	}
	s.closes = min(s.closes, now+own.window)
	if c.at != 0 && (!open || c.at < s.closes-own.window) {
		return s, false
	}
	count := counted(s.count, c.check.Limit.Capacity(), events, raise)
	if count == s.count {
		return s, false
	}
	s.count = count
	return s, true
}

func (s sliding) settled(c charge, asked numbers, events int, raise bool, now int64) (after state, changed bool) {
	own := s.by
	if s.current == 0 && s.previous == 0 {
		own = asked
		s = sliding{by: own}
	}
	ticks := own.floor(now)
	begin := ticks - ticks%own.window
	if begin < s.start {
		s = s.moved(begin)
	}
	current, previous := s.at(now)
	window := int64(0)
	if c.at != 0 {
		window = (begin - (own.floor(c.at) - own.floor(c.at)%own.window)) / own.window
	}
	before := [2]int64{current, previous}
	switch {
	case window <= 0:
		weighted := roundedUp(new(big.Rat).Mul(big.NewRat(own.window-ticks%own.window, own.window), new(big.Rat).SetInt64(previous))).Int64()
		n := int64(events)
		if raise {
			n = max(0, n-current-weighted)
		}
		if n > 0 {
			n = max(0, min(n, int64(c.check.Limit.Capacity())-current-weighted))
		}
		fromBefore := min(0, current+n)
		current = max(0, current+n)
		if c.at == 0 {
			previous = max(0, previous+fromBefore)
		}
	case window == 1:
		previous = counted(previous, c.check.Limit.Capacity(), events, raise)
	}
	return sliding{by: own, current: current, previous: previous, start: begin}, before != [2]int64{current, previous}
}

func (s logged) settled(c charge, asked numbers, events int, raise bool, now int64) (after state, changed bool) {
	instants := slices.Clone(s.instants)
	counts := func(at int64) bool { return at > now-asked.window }
	if events < 0 {
		for range -events {
			last := len(instants) - 1
			if c.at != 0 {
				last = lastIndex(instants, c.at)
			}
			if last < 0 {
				break
			}
			instants = slices.Delete(instants, last, last+1)
		}
		return logged{instants}, len(instants) != len(s.instants)
	}
	at := c.at
	if at == 0 {
		at = now
	}
	instants = slices.DeleteFunc(instants, func(other int64) bool { return !counts(other) })
	used := len(instants)
	if raise {
		events -= used
	}
	n := min(events, c.check.Limit.Capacity()-used)
	if n <= 0 || !counts(at) {
		return s, false
	}
	instants = append(instants, slices.Repeat([]int64{at}, n)...)
	slices.Sort(instants)
	return logged{instants}, true
}

func lastIndex(instants []int64, at int64) int {
	for i, other := range slices.Backward(instants) {
		if other == at {
			return i
		}
	}
	return -1
}
