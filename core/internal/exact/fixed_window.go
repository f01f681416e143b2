package exact

import "time"

// fixed is the arithmetic of a fixed window.
//
// Its Usage is the events counted and the microseconds until the window closes,
// both 0 while none is open. Of a limit with debt that may be more than the capacity, which windows that follow pay.
// For stores that keep states in this process, it also has the microseconds until a debt is paid, as the state was left: a
// limit of the same name with a larger capacity may have left more than this one counts.
type fixed struct{}

func (fixed) units(p *Params) (Units, error) {
	return windowUnits(p, time.Microsecond)
}

func (fixed) numbers(u *Units) []int64 {
	if u.Each > 0 {
		return []int64{u.Window, u.Each}
	}
	return []int64{u.Window}
}

func (f fixed) observe(s *Spec, st *State, now int64, _ int) (Usage, bool) {
	u, told := f.opened(s, st, now)
	used := min(u.Used, s.Full)
	return Usage{Used: used, Second: u.Second, Third: u.Third}, u.Second != told || used != u.Used
}

// opened returns the Usage of an open window, which may be more than the capacity, and the wait
// after which the window was to close. A window in debt is followed by the next one at once, which pays a part of the debt.
func (fixed) opened(s *Spec, st *State, now int64) (u Usage, told int64) {
	if st.spec == nil {
		return Usage{}, 0
	}
	// An open window closes when it was said to, at any length of the next one, but never later than a full window from
	// now.
	count, length, each := st.level, st.spec.Window, st.spec.Each
	told = st.at + length - now
	if told <= 0 {
		passed := 1 + -told/length
		if each == 0 || passed >= DivideUp(count, each) {
			return Usage{}, 0
		}
		count, told = count-passed*each, told+passed*length
	}
	u = Usage{Used: count, Second: min(told, s.Window)}
	if each > 0 && count > each {
		u.Third = told + (DivideUp(count, each)-1)*length
	}
	return u, told
}

func (fixed) store(s *Spec, st *State, u Usage, now int64, cost int, _ Holder) {
	left := u.Second
	if left == 0 {
		left = s.Window
	}
	st.level, st.at = u.Used+int64(cost), now+left-s.Window
}

func (f fixed) settle(s *Spec, st *State, now int64, c *Correction) bool {
	own := st.numbersOf(s)
	u, _ := f.opened(own, st, now) // others may have used more, under other numbers
	opened := now + u.Second - own.Window
	if c.At.At != 0 && (u.Second == 0 || c.At.At < opened) && !s.owes(c) {
		return false // that window has closed
	}
	change := countChange(s, u.Used, c)
	if change == 0 {
		return false
	}
	f.store(own, st, Usage{Used: u.Used + change, Second: u.Second}, now, 0, Holder{})
	return true
}

// countChange returns by how much a correction changes a count.
func countChange(s *Spec, count int64, c *Correction) int64 {
	events := int64(c.Events)
	if c.Raise {
		events = max(0, events-count)
	}
	return max(-count, min(events, max(0, s.Full-count)))
}

func (fixed) fits(s *Spec, u Usage, cost int) bool {
	return int64(cost) <= s.Full-u.Used
}

func (fixed) wait(s *Spec, u Usage, cost int) int64 {
	if s.Each == 0 {
		return u.Second
	}
	return u.Second + (DivideUp(u.Used+int64(cost)-s.Full, s.Each)-1)*s.Window
}

func (fixed) longer(s *Spec, cost, larger int) (int64, bool) { return 0, s.Each == 0 || cost == larger }

func (fixed) charged(s *Spec, u Usage, cost int) Usage {
	if u.Second == 0 {
		u.Second = s.Window
	}
	u.Used += int64(cost)
	return u
}

func (f fixed) left(s *Spec, u Usage) (remaining int, next, reset int64) {
	return int(s.Full - u.Used), u.Second, f.reset(s, u)
}

func (fixed) reset(s *Spec, u Usage) int64 {
	if s.Each == 0 || u.Used == 0 {
		return u.Second
	}
	return u.Second + (DivideUp(u.Used, s.Each)-1)*s.Window
}
