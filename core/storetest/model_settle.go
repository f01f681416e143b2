package storetest

import (
	"math/big"
	"slices"
	"time"

	"github.com/weir-go/ratelimit/core"
)

// charge is the model's memory of a check that was charged.
type charge struct {
	check core.Check
	at    int64    // 0: not known
	used  *big.Rat // of a meter after the charge, in events
	order int      // of a meter the number of its note; else how many resets there had been
	name  int      // of an open charge
}

// noted is the model's memory of the charges of a meter that may be settled.
type noted struct {
	by    numbers          // when they were counted
	least map[int]*big.Rat // how low the level has been since a charge
	level *big.Rat         // when something was noted or settled last
	at    int64            // the instant of that
}

// drain counts the units that may have drained since a charge was noted or settled, given the used units now.
func (n *noted) drain(used *big.Rat, now int64) {
	low := least(used, stillLeft(n.by, n.level, n.at, now))
	for order, level := range n.least {
		n.least[order] = least(level, low)
	}
}

// note remembers a charge that may be settled, of a meter of which so much was used before, and returns its number.
func (m *model) note(id string, own numbers, used *big.Rat, now int64) int {
	n := m.notes[id]
	if n == nil || !n.by.same(own) {
		n = &noted{by: own, least: make(map[int]*big.Rat), level: new(big.Rat), at: now}
		m.notes[id] = n
	}
	n.drain(used, now)
	m.order++
	level := m.states[id].used(own, now)
	n.least[m.order], n.level, n.at = level, level, now
	return m.order
}

// forgetNotes forgets the notes of a meter that a check writes under its own numbers, if it was left by other numbers that are
// not those of the notes: it has drained under numbers of which they know nothing. A charge of GCRA forgets them, too, if it
// finds nothing used.
func (m *model) forgetNotes(f found, now int64) {
	id, own := f.identity, f.numbers
	n := m.notes[id]
	if n == nil {
		return
	}
	var by numbers
	switch s := m.states[id].(type) {
	case metered:
		by = s.by
	case scheduled:
		by = s.by
	default:
		return
	}
	unused := own.limit.Algorithm() == "gcra" && f.total > 0 && f.state.used(own, now).Sign() == 0
	if unused || !by.same(own) && !n.by.same(by) {
		delete(m.notes, id)
	}
}

// givenBack remembers that something was given back of a charge.
func (n *noted) givenBack(order int, back *big.Rat) {
	left := new(big.Rat).Sub(n.least[order], back)
	for other, before := range n.least {
		if other > order {
			n.least[other] = new(big.Rat).Sub(before, back)
		} else {
			n.least[other] = least(before, left)
		}
	}
	delete(n.least, order)
}

// settle changes a charge by events, or raises the used units to them.
func (m *model) settle(c charge, events int, raise bool, now int64) {
	id := identity(c.check)
	events = max(-mostCharged(c.check.Limit), min(events, mostCharged(c.check.Limit)))
	if raise { // without debt
		events = min(events, c.check.Limit.Capacity())
	}
	if events == 0 {
		return
	}
	found, notes := m.state(id, c.check.Limit), m.notes[id]
	if m.states[id] != nil && recovered(found, now) {
		// The former state means nothing, nor do its notes.
		found = newModel().state(id, c.check.Limit)
		delete(m.notes, id)
	}
	if !m.settleIn(found, c, events, raise, now) && notes != nil {
		m.notes[id] = notes
	}
}

// settleIn settles a charge in a state. It reports whether that has changed.
func (m *model) settleIn(found state, c charge, events int, raise bool, now int64) (changed bool) {
	id, asked := identity(c.check), numbersOf(c.check.Limit)
	if _, log := found.(logged); events < 0 && c.at != 0 && asked.pace == nil && !log { // a log knows its charges and their instants
		if c.at > now {
			return false // before the clock stepped back
		}
		if reset, ok := m.resets[id]; ok && (reset.at > c.at || reset.at == c.at && reset.order > c.order) {
			return false
		}
	}
	var after state
	changed = true
	switch s := found.(type) {
	case metered:
		own := s.by
		if s.level == nil {
			own = asked
		}
		level := m.corrected(id, c, asked, own, s, events, raise, now)
		if level == nil {
			return false
		}
		after = metered{by: own, level: level, at: own.floor(now)}
	case scheduled:
		own := s.by
		if s.free == nil {
			own = asked
		}
		level := m.corrected(id, c, asked, own, s, events, raise, now)
		if level == nil {
			return false
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
		return false
	}
	if after.used(asked, now).Sign() == 0 && empty(after) {
		delete(m.states, id)
		delete(m.notes, id) // nothing is left of any charge
		return true
	}
	m.states[id] = after
	return true
}

// corrected returns the level of a meter after a correction, or nil if that changes
// nothing.
func (m *model) corrected(id string, c charge, asked, own numbers, s state, events int, raise bool, now int64) *big.Rat {
	taken, _ := s.understood(own, now)
	used := taken.used(own, now)
	notes, n := m.notes[id], least(new(big.Rat).SetInt64(int64(max(events, -events))), own.most)
	if notes != nil && !notes.by.same(own) {
		notes = nil // they mean nothing any more
	}
	switch {
	case raise:
		n = most0(n.Sub(n, used))
	case events > 0:
		n = least(n, new(big.Rat).Sub(own.most, used))
	case c.at == 0:
		n = least(n, used)
		n.Neg(n)
	default:
		n = m.refunded(id, c, asked, own, notes, used, -events, now)
		if n == nil {
			return nil
		}
		n.Neg(n)
	}
	level := new(big.Rat).Add(n, used)
	if notes != nil && n.Sign() != 0 {
		notes.drain(least(used, level), now)
		notes.level, notes.at = level, now
	}
	if n.Sign() == 0 {
		return nil
	}
	return level
}

// refunded returns how many of the events of a charge come back, or nil if that changes nothing.
func (m *model) refunded(id string, c charge, asked, own numbers, notes *noted, used *big.Rat, events int, now int64) *big.Rat {
	units := new(big.Rat).SetInt64(int64(events))
	back := least(least(units, own.most), used)
	if c.check.Limit.Algorithm() != "shaping" {
		c.used = units
	} else if used.Cmp(leftOf(c, asked, own, now)) > 0 {
		return nil // others have queued behind it
	}
	switch {
	case m.notes[id] == nil, notes == nil && c.at > now:
		return nil
	case notes == nil:
		return least(back, leftOf(c, asked, own, now))
	}
	notes.drain(used, now)
	if notes.least[c.order] == nil {
		return new(big.Rat)
	}
	back = least(back, notes.least[c.order])
	notes.givenBack(c.order, back)
	return back
}

// leftOf returns the units left of a charge if it was the last one.
func leftOf(c charge, asked, own numbers, now int64) *big.Rat {
	left := stillLeft(asked, c.used, c.at, now)
	if !own.same(asked) {
		left = least(whole(left), stillLeft(own, least(whole(c.used), own.most), c.at, now))
	}
	return left
}

// forgettable reports whether stores may know nothing of a state any more, since it recovered an hour ago or earlier, and
// so did its notes.
func (m *model) forgettable(id string, l core.Limit, now int64) bool {
	ago := now - time.Hour.Microseconds()
	reset, known := m.resets[id]
	switch s := m.states[id].(type) {
	case nil:
		if !known {
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
	return !known || reset.at+recovery(l) <= ago
}

// recovered reports whether nothing is used of a state, under any numbers.
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

// stillLeft returns the units left of a charged meter, less those drained since.
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
	s = s.paid(now)
	open := s.count > 0 && s.closes > now
	if s.count == 0 {
		own = asked
	}
	if !open {
		s = fixed{by: own, closes: now + own.window}
	}
	s.closes = min(s.closes, now+own.window)
	if c.at != 0 && (!open || c.at < s.closes-own.window) && (asked.each() == 0 || events < 0) {
		return s, false
	}
	count := counted(s.count, mostCharged(c.check.Limit), events, raise)
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
