package exact

import (
	"fmt"
	"time"
)

// sliding is the arithmetic of two weighted counters.
//
// Its Usage is the events of the current window, those of the previous one, and
// the ticks since the current one began.
type sliding struct{}

func (sliding) units(p *Params) (Units, error) {
	var problem error
	for _, tick := range [...]time.Duration{time.Microsecond, time.Millisecond} {
		u, err := windowUnits(p, tick)
		if err != nil {
			problem = err
			continue
		}
		if _, ok := multiply(u.Full, u.Window); ok {
			return u, nil
		}
		problem = fmt.Errorf("%d events weighted by %v cannot be counted in whole numbers below 2^53, not even in milliseconds: "+
			"take a smaller capacity or a shorter window", p.Capacity, p.Period)
	}
	return Units{}, problem
}

func (sliding) numbers(u *Units) []int64 { return []int64{u.Window, u.Tick, u.Full} }

func (a sliding) observe(s *Spec, st *State, now int64, _ int) (Usage, bool) {
	u, repair := a.counted(s, st, now)
	full := s.Full
	if st.spec == nil || st.spec.Units == s.Units && u.Used <= full && u.Second <= full {
		return u, repair
	}
	// Counts of another capacity stand as far as their weighted use fits in this one.
	used, window, left := min(u.Used, full), s.Window, s.Window-u.Third
	second := u.Second
	if room := (full - used) * window; second*left > room {
		second = room / left
	}
	repair = repair || used != u.Used || second != u.Second
	return Usage{Used: used, Second: second, Third: u.Third}, repair
}

// counted is observe for a Usage that may be more than the capacity.
func (sliding) counted(s *Spec, st *State, now int64) (u Usage, repair bool) {
	elapsed := now / s.Tick % s.Window
	if st.spec == nil {
		return Usage{Third: elapsed}, false
	}
	current, previous, repair := rolled(st, now)
	if st.spec.Window != s.Window || st.spec.Tick != s.Tick {
		// Windows of another length: the used events move into the current window. A denial leaves them there only if
		// that window ends sooner. Else two lengths that take turns, as during a deployment, would put the end off for
		// ever.
		former := st.spec.Window
		current += DivideUp(previous*(former-now/st.spec.Tick%former), former)
		previous = 0
		repair = repair || s.Window*s.Tick < former*st.spec.Tick
	}
	return Usage{Used: current, Second: previous, Third: elapsed}, repair
}

// rolled returns the counts of a state as they stand in the window of an instant,
// and whether the state is from a later one. Then the clock has stepped back, and all
// that was counted moves into the window of the instant, where it weighs no less than before.
func rolled(st *State, now int64) (current, previous int64, future bool) {
	ticks := now / st.spec.Tick
	age := ticks - ticks%st.spec.Window - st.at/st.spec.Tick
	switch {
	case age < 0:
		return st.level + st.previous, 0, true
	case age < st.spec.Window:
		return st.level, st.previous, false
	case age < 2*st.spec.Window:
		return 0, st.level, false
	}
	return 0, 0, false
}

func (sliding) store(s *Spec, st *State, u Usage, now int64, cost int, _ Holder) {
	st.level, st.previous = u.Used+int64(cost), u.Second
	st.at = now - now%s.Tick - u.Third*s.Tick
}

func (a sliding) settle(s *Spec, st *State, now int64, c *Correction) bool {
	own := st.numbersOf(s)
	u, _ := a.counted(own, st, now)                // others may have used more, under other numbers
	before, window, age := u, own.Window, int64(0) // from the charge to the current window
	if c.At.At != 0 {
		age = now/own.Tick - c.At.At/own.Tick - u.Third
	}
	switch {
	case age <= 0:
		weighted := DivideUp(u.Second*(window-u.Third), window)
		change := int64(c.Events)
		if c.Raise {
			change = max(0, change-u.Used-weighted)
		}
		if change > 0 {
			change = max(0, min(change, s.Full-u.Used-weighted))
		}
		rest := min(0, u.Used+change)
		u.Used += change - rest
		if c.At.At == 0 {
			u.Second = max(0, u.Second+rest)
		}
	case age <= window:
		u.Second += countChange(s, u.Second, c)
	}
	if u == before {
		return false
	}
	a.store(own, st, u, now, 0, Holder{})
	return true
}

func (sliding) fits(s *Spec, u Usage, cost int) bool {
	room := s.Full - u.Used - int64(cost)
	return room >= 0 && u.Second*(s.Window-u.Third) <= room*s.Window
}

// wait solves previous·(window−elapsed) ≤ room·window for the elapsed ticks: in this window if its own events leave room,
// and otherwise in the next one, where they are the previous ones. Nothing jumps at the turn of the window, so a cost
// that does not fit now fits from that tick on.
func (sliding) wait(s *Spec, u Usage, cost int) int64 {
	current, previous, left := u.Used, u.Second, s.Window-u.Third
	room := s.Full - int64(cost)
	if room >= current {
		return (left - (room-current)*s.Window/previous) * s.Tick
	}
	return (left + s.Window - room*s.Window/current) * s.Tick
}

func (sliding) longer(*Spec, int, int) (int64, bool) { return 0, false }

func (sliding) charged(_ *Spec, u Usage, cost int) Usage {
	u.Used += int64(cost)
	return u
}

func (a sliding) left(s *Spec, u Usage) (remaining int, next, reset int64) {
	weighted := DivideUp(u.Second*(s.Window-u.Third), s.Window)
	if remaining = int(max(0, s.Full-u.Used-weighted)); u.Used == 0 && u.Second == 0 {
		return remaining, 0, a.reset(s, u)
	}
	return remaining, a.wait(s, u, remaining+1), a.reset(s, u)
}

func (sliding) reset(s *Spec, u Usage) int64 {
	left := s.Window - u.Third
	switch {
	case u.Used > 0:
		return (left + s.Window) * s.Tick
	case u.Second > 0:
		return left * s.Tick
	}
	return 0
}
