package exact

import (
	"fmt"
	"math/bits"
	"time"
)

// meter is the arithmetic of a level that drains at a steady pace and must not
// rise above the capacity. Leaky, shaping, token bucket and GCRA share it.
//
// Its Usage is one number, the units used.
type meter struct {
	// absolute says that only the instant is stored at which the level will have
	// drained, as in GCRA and shaping. A clock that steps back then adds the step to
	// the level, where otherwise the level stands until the clock has moved on.
	absolute bool
	// forgets says that a check which finds nothing used forgets the notes, as in GCRA. In Redis it is a string again then.
	forgets bool
}

func (meter) units(p *Params) (Units, error) {
	for _, tick := range [...]time.Duration{time.Microsecond, time.Millisecond} {
		// p.Events per p.Period are events·tick per period in each tick.
		drain, ok := multiply(int64(p.Events), int64(tick))
		if !ok {
			continue
		}
		weight := int64(p.Period)
		divisor := greatestCommonDivisor(weight, drain)
		weight, drain = weight/divisor, drain/divisor
		full, ok := multiply(int64(p.Capacity), weight)
		if !ok || weight > most {
			continue
		}
		perTick := tick.Microseconds()
		if DivideUp(full, drain) > Longest.Microseconds()/perTick {
			return Units{}, fmt.Errorf("takes more than %d years to recover", Longest/(365*day))
		}
		return Units{Tick: perTick, Weight: weight, Drain: drain, Full: full}, nil
	}
	return Units{}, fmt.Errorf("capacity %d at this rate cannot be counted in whole numbers below 2^53, not even in milliseconds: "+
		"take a smaller capacity, or a rate with a rounder period", p.Capacity)
}

func (meter) numbers(u *Units) []int64 { return []int64{u.Full, u.Weight, u.Drain, u.Tick} }

func (m meter) observe(s *Spec, st *State, now int64, _ int) (Usage, bool) {
	if st.spec == nil {
		return Usage{}, false
	}
	used, repair := m.drained(st, now)
	if st.spec.Units != s.Units {
		used = rescaled(used, s.Weight, st.spec.Weight)
		repair = true
	}
	if used > s.Full {
		used = s.Full
	}
	return Usage{Used: used}, repair
}

// drained returns the units of a state that are left at an instant, and whether
// they are another number than the state should ever come to.
func (m meter) drained(st *State, now int64) (level int64, repair bool) {
	u := &st.spec.Units
	elapsed := u.ticks(now) - u.ticks(st.at)
	if elapsed < 0 && !m.absolute {
		return st.level, true
	}
	drained, ok := multiply(max(elapsed, -elapsed), u.Drain)
	switch {
	case elapsed < 0 && (!ok || drained > u.Full-st.level):
		return u.Full, true
	case elapsed < 0:
		return st.level + drained, false
	case !ok || drained > st.level:
		return 0, false
	}
	return st.level - drained, false
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

func (m meter) store(s *Spec, st *State, u Usage, now int64, cost int, _ Holder) {
	switch {
	case m.forgets && u.Used == 0:
		st.list = nil
	case st.spec != nil && st.spec.Units != s.Units && st.list != nil && st.notes(st.spec) == nil:
		st.list.notes = nil // it has drained under numbers of which the notes know nothing
	}
	st.level, st.at = u.Used+int64(cost)*s.Weight, s.ticks(now)*s.Tick
}

func (m meter) settle(s *Spec, st *State, now int64, c *Correction) bool {
	own := st.numbersOf(s)
	u, _ := m.observe(own, st, now, 0)
	n, events := st.notes(own), own.weighed(max(0, int64(c.Events)))
	var change int64
	closed := false
	switch {
	case c.Raise:
		change = max(0, events-u.Used)
	case events > 0:
		change = min(events, own.Full-u.Used)
	default:
		var back int64
		back, closed = m.refund(s, own, st, u.Used, now, c)
		change = -back
	}
	if change == 0 && !closed {
		return false
	}
	if change == 0 { // of a slot that is closed nothing was left
		return true
	}
	m.store(own, st, Usage{Used: u.Used + change}, now, 0, Holder{})
	if n != nil {
		n.drain(own, min(u.Used, u.Used+change), now)
		n.level, n.at = u.Used+change, now
	}
	return true
}

// refund returns how many units a correction gives back, and whether it has closed a slot of the notes for that. Its own
// spec may have other numbers by now than the one that was charged.
func (meter) refund(s, own *Spec, st *State, used, now int64, c *Correction) (back int64, closed bool) {
	back = min(used, own.weighed(-int64(c.Events)))
	if c.At.At == 0 {
		return back, false
	}
	units, n := s.weighed(-int64(c.Events)), st.notes(own)
	if own.Algorithm.Delays() && !c.Firm {
		units = c.At.Used
		if used > own.leftOf(s, units, c.At.At, now) {
			return 0, false // others have queued behind it
		}
	}
	switch {
	case c.At.Order != 0 && n != nil:
		return n.take(own, c.At.Order, back, used, now)
	case c.At.Order != 0 && (st.list == nil || st.list.notes == nil), c.At.At > now, c.At.Order == 0 && n != nil && c.At.At <= n.at:
		return 0, false // it is not known how low the level has been
	}
	// The drain takes no more from all such charges together than from each of them.
	return min(back, own.leftOf(s, units, c.At.At, now)), false
}

// leftOf returns how many units, charged under a spec at an instant, are certainly left.
func (s *Spec) leftOf(charged *Spec, units, at, now int64) int64 {
	if s.Units == charged.Units {
		return s.left(units, now, at)
	}
	// They have drained under both numbers, for unknown times: under which more has.
	return min(s.weighed(charged.left(units, now, at)/charged.Weight), s.left(s.weighed(units/charged.Weight), now, at))
}

func (meter) fits(s *Spec, u Usage, cost int) bool {
	return int64(cost)*s.Weight <= s.Full-u.Used
}

func (meter) wait(s *Spec, u Usage, cost int) int64 {
	excess := u.Used + int64(cost)*s.Weight - s.Full
	return DivideUp(excess, s.Drain) * s.Tick
}

func (meter) longer(s *Spec, cost, larger int) (int64, bool) {
	more := int64(larger-cost) * s.Weight
	return more / s.Drain * s.Tick, more%s.Drain == 0
}

func (meter) charged(s *Spec, u Usage, cost int) Usage {
	return Usage{Used: u.Used + int64(cost)*s.Weight}
}

func (m meter) left(s *Spec, u Usage) (remaining int, next, reset int64) {
	if remaining = int((s.Full - u.Used) / s.Weight); u.Used == 0 {
		return remaining, 0, 0
	}
	return remaining, m.wait(s, u, remaining+1), m.reset(s, u)
}

func (meter) reset(s *Spec, u Usage) int64 {
	return DivideUp(u.Used, s.Drain) * s.Tick
}
