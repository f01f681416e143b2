package storetest

import (
	"math/big"
)

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
	if level.Cmp(to.most) > 0 {
		level = to.most
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

// used is the level less the drained units. While the clock is behind, it stands.
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
	tooMuch := level.Cmp(s.by.most) > 0
	if tooMuch {
		level = s.by.most
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

// fixed is a count and when its window closes. A count of 0 is no window. A window in debt is followed by the next one at once.
type fixed struct {
	by     numbers
	count  int64
	closes int64
}

func (s fixed) understood(l numbers, now int64) (state, bool) {
	s = s.paid(now)
	if s.count == 0 {
		return fixed{by: l}, false
	}
	count, closes := min(s.count, l.most.Num().Int64()), min(s.closes, now+l.window)
	return fixed{by: l, count: count, closes: closes}, count != s.count || closes != s.closes
}

// paid returns the state in the window of an instant: each window that follows in debt pays a part.
func (s fixed) paid(now int64) fixed {
	if each := s.by.each(); s.count > 0 && s.closes <= now && each > 0 {
		passed := min(1+(now-s.closes)/s.by.window, (s.count+each-1)/each)
		s.count, s.closes = max(0, s.count-passed*each), s.closes+passed*s.by.window
	} else if s.closes <= now {
		s.count = 0
	}
	return s
}

func (s fixed) used(_ numbers, now int64) *big.Rat { return new(big.Rat).SetInt64(s.paid(now).count) }

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
		s = s.moved(theirs - theirs%s.by.window)
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
		// The used units are clamped, in whole events of either window.
		taken.current = min(taken.current, capacity)
		weight := big.NewRat(l.window-ticks%l.window, l.window)
		room := weight.Quo(big.NewRat(capacity-taken.current, 1), weight)
		taken.previous = new(big.Int).Quo(room.Num(), room.Denom()).Int64()
		repaired = true
	}
	return taken, repaired
}

// moved returns the state as it counts in an earlier window, after the clock has stepped back: nothing of it
// weighs less than a whole event there.
func (s sliding) moved(start int64) sliding {
	return sliding{by: s.by, current: s.current + s.previous, start: start}
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
