package core

import (
	"fmt"
	"math/bits"
	"time"
)

// meter is the arithmetic of a level that drains at a steady pace and must not
// rise above the capacity. Leaky, shaping, token bucket and GCRA share it.
//
// Its usage is one number, the units used.
type meter struct {
	// absolute says that only the instant is stored at which the level will have
	// drained, as in GCRA and shaping. A clock that steps back then adds the step to
	// the level, where otherwise the level stands until the clock has moved on.
	absolute bool
}

func (meter) units(capacity int, rate Rate) (units, error) {
	for _, tick := range [...]time.Duration{time.Microsecond, time.Millisecond} {
		// rate.Events per rate.Period is events·tick per period in each tick.
		drain, ok := multiply(int64(rate.Events), int64(tick))
		if !ok {
			continue
		}
		weight := int64(rate.Period)
		divisor := greatestCommonDivisor(weight, drain)
		weight, drain = weight/divisor, drain/divisor
		full, ok := multiply(int64(capacity), weight)
		if !ok || weight > most {
			continue
		}
		perTick := tick.Microseconds()
		if divideUp(full, drain) > longest.Microseconds()/perTick {
			return units{}, fmt.Errorf("takes more than %d years to recover", longest/(365*day))
		}
		return units{tick: perTick, weight: weight, drain: drain, capacity: full}, nil
	}
	return units{}, fmt.Errorf("capacity %d at this rate cannot be counted in whole numbers below 2^53, not even in milliseconds: "+
		"take a smaller capacity, or a rate whose period is a rounder number", capacity)
}

func (m meter) observe(l *Limit, s *state, now int64, _ int) (usage, bool) {
	if s.empty() {
		return usage{}, false
	}
	used, repair := m.drained(s, now)
	if s.ruling.limit.units != l.units {
		used = rescaled(used, l.units.weight, s.ruling.limit.units.weight)
		repair = true
	}
	if used > l.units.capacity {
		used = l.units.capacity
	}
	return usage{used: used}, repair
}

// drained returns the units of a state that are left at an instant, and whether
// they are another number than the state should ever come to.
func (m meter) drained(s *state, now int64) (level int64, repair bool) {
	u := &s.ruling.limit.units
	elapsed := u.ticks(now) - u.ticks(s.at)
	if elapsed < 0 && !m.absolute {
		return s.level, true
	}
	drained, ok := multiply(max(elapsed, -elapsed), u.drain)
	switch {
	case elapsed < 0 && (!ok || drained > u.capacity-s.level):
		return u.capacity, true
	case elapsed < 0:
		return s.level + drained, false
	case !ok || drained > s.level:
		return 0, false
	}
	return s.level - drained, false
}

// rescaled returns ceil(level · weight / former), or most if that is less.
func rescaled(level, weight, former int64) int64 {
	high, low := bits.Mul64(uint64(level), uint64(weight))
	low, carry := bits.Add64(low, uint64(former-1), 0)
	high += carry
	if high >= uint64(former) {
		return most
	}
	quotient, _ := bits.Div64(high, low, uint64(former))
	return int64(min(quotient, most))
}

func (meter) store(l *Limit, s *state, u usage, now int64, cost int) {
	s.level, s.at = u.used+int64(cost)*l.units.weight, l.units.ticks(now)*l.units.tick
}

func (m meter) settle(l *Limit, s *state, now int64, c *correction) bool {
	own := s.limitOf(l)
	u, _ := m.observe(own, s, now, 0)
	change := meterChange(l, own, u.used, now, c)
	if change == 0 {
		return false
	}
	m.store(own, s, usage{used: u.used + change}, now, 0)
	// Of a charge that nobody came after nobody has to know.
	alone := c.at.At != 0 && c.low == most && own.units == l.units && u.used == chargeLeft(l, c.at.Used, now, c.at.At)
	c.noted = change < 0 && !alone
	return true
}

// meterChange returns the units by which a correction changes a meter, whose own
// limit may have other numbers by now than the one that was charged.
func meterChange(l, own *Limit, used, now int64, c *correction) int64 {
	events := int64(c.events)
	switch {
	case c.raise:
		return max(0, weighed(events, own)-used)
	case events > 0:
		return min(weighed(events, own), own.units.capacity-used)
	}
	back := min(used, weighed(-events, own))
	if c.at.At == 0 {
		return -back
	}
	left := chargeLeft(own, c.at.Used, now, c.at.At)
	if own.units != l.units {
		// It has drained under both numbers, for unknown times: under which more has.
		left = min(weighed(chargeLeft(l, c.at.Used, now, c.at.At)/l.units.weight, own),
			chargeLeft(own, weighed(c.at.Used/l.units.weight, own), now, c.at.At))
	}
	left = min(left, c.low)
	if own.algorithm == shaping && used > left && !c.firm {
		return 0 // others queue behind
	}
	return -min(back, left)
}

// weighed returns what events weigh under a limit, or full if that is less.
func weighed(events int64, l *Limit) int64 {
	weight, ok := multiply(events, l.units.weight)
	if !ok {
		return l.units.capacity
	}
	return min(weight, l.units.capacity)
}

// chargeLeft returns what is left of a meter that had used so much at an instant, and
// has not been charged since. A meter gets back no more than that, since the rest has
// drained: it would have found the meter empty without the charge.
func chargeLeft(l *Limit, used, now, at int64) int64 {
	ticks := max(0, now/l.units.tick-at/l.units.tick)
	if ticks > used/l.units.drain {
		return 0
	}
	return used - ticks*l.units.drain
}

func (meter) fits(l *Limit, u usage, cost int) bool {
	return int64(cost)*l.units.weight <= l.units.capacity-u.used
}

func (meter) wait(l *Limit, u usage, cost int) int64 {
	excess := u.used + int64(cost)*l.units.weight - l.units.capacity
	return divideUp(excess, l.units.drain) * l.units.tick
}

func (meter) charged(l *Limit, u usage, cost int) usage {
	return usage{used: u.used + int64(cost)*l.units.weight}
}

func (meter) remaining(l *Limit, u usage) int {
	return int((l.units.capacity - u.used) / l.units.weight)
}

func (m meter) next(l *Limit, u usage, remaining int) int64 {
	if u.used == 0 {
		return 0
	}
	return m.wait(l, u, remaining+1)
}

func (meter) reset(l *Limit, u usage) int64 {
	return divideUp(u.used, l.units.drain) * l.units.tick
}
