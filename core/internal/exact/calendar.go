package exact

import (
	"errors"
	"time"
	"unique"

	"github.com/weir-go/ratelimit/core/internal/calendar"
)

// dated is the arithmetic of windows that a calendar cuts.
//
// Its Usage is the events counted, and the microseconds until their window ends, or until the one ends in which the next
// event would count. Of a limit with debt the microseconds until the debt is paid come third. For stores that keep states
// in this process, it also has the microseconds for which the state has to be kept.
//
// A state contains its window, since the check that opened it may have reckoned otherwise: a named limit may have had
// another period, and another process may know other rules of a time zone. Events count until the end of the window in
// which they were counted, and the next window opens then. No check moves that end, also while the clock has
// stepped back into the window before. If it has stepped back further, they count as those of the window in which it is. Where the
// same window ends a little later by this reckoning, they count until then: see linger.
type dated struct{}

func (dated) units(p *Params) (Units, error) {
	c, err := p.calendar()
	if err != nil {
		return Units{}, err
	}
	longest := *p
	longest.Period = c.Longest()
	return windowUnits(&longest, time.Microsecond)
}

// calendar returns the calendar of Params with a dated algorithm.
func (p *Params) calendar() (*calendar.Calendar, error) {
	if p.Calendar == (unique.Handle[calendar.Period]{}) {
		return nil, errors.New("there is no period: use a constructor such as core.Daily")
	}
	c, err := p.Calendar.Value().Calendar()
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (dated) numbers(*Units) []int64 { return nil } // each state has its own window

// counted is the content of a state at an instant.
type counted struct {
	count      int64 // may be more than the capacity
	start, end int64 // of the window in which it was counted, or in which it would be now
	until      int64 // when the next one opens
	each       int64 // of a debt that a window pays, by the limit that left the count
	repair     bool
}

// counted returns the content of a state at an instant by the calendar of a spec.
func (dated) counted(s *Spec, st *State, now int64) counted {
	start, end := s.calendar.Window(now)
	fresh := counted{start: start, end: end, until: end}
	if st.spec == nil || st.level == 0 {
		return fresh
	}
	c := counted{count: st.level, start: st.at, end: st.previous, each: st.spec.Each}
	if c.start-end > c.linger() { // the clock has stepped back, behind the window before
		c.start, c.end, c.repair = start, end, true
	}
	c.until = c.end
	switch {
	case c.end < end:
		c.lingerUntil(start, end)
	case c.end > end:
		c.lingerUntil(s.calendar.Window(end))
	}
	if c.until <= now {
		if c.paid(s) > now {
			fresh.count = c.count - s.Each
		}
		return fresh
	}
	return c
}

// paid returns when the rest of a count in debt is paid: when the window ends that begins where the count's own closes. It
// is 0 without a debt, and if a limit of the same name has left the count that has another capacity, no debt, or another
// period, by which the count is of no window.
func (c *counted) paid(s *Spec) int64 {
	if s.Each == 0 || c.each != s.Each || c.count <= s.Each {
		return 0
	}
	start, end := s.calendar.Window(c.until)
	before, _ := s.calendar.Window(start - 1)
	if near := c.linger(); start != c.until || c.start-before > near || before-c.start > near {
		return 0
	}
	return end
}

// lingerUntil has events count until the end of a window if that is the one in which they were counted, and another
// process has reckoned an earlier end.
func (c *counted) lingerUntil(start, end int64) {
	near := c.linger()
	if c.end < end && end-c.end <= near && -near <= start-c.start && start-c.start <= near {
		c.until = end
	}
}

// mostLinger is longer than clocks are usually set by.
const mostLinger = int64(3 * time.Hour / time.Microsecond)

// longestDated is longer than any window that a calendar cuts.
const longestDated = int64(368 * day / time.Microsecond)

// linger returns by how much two reckonings of one window may differ at each of its ends, since processes know other
// rules of a time zone. Its events count until the later end, so that no key gets twice as many in it.
func (c *counted) linger() int64 { return min(mostLinger, (c.end-c.start)/8) }

func (d dated) observe(s *Spec, st *State, now int64, _ int) (Usage, bool) {
	c := d.counted(s, st, now)
	u := Usage{Used: min(c.count, s.Full), Second: c.until - now, Third: c.until - now, Fourth: c.end + c.linger() - now}
	if s.Each > 0 && c.count > s.Each {
		u.Fourth = c.end + (c.end-c.start)*5/4 - now // the next window pays, and is not longer by more than a quarter
		if paid := c.paid(s); paid > 0 {
			u.Third = paid - now
		}
	}
	return u, c.repair || u.Used != c.count
}

func (d dated) store(s *Spec, st *State, u Usage, now int64, cost int, _ Holder) {
	c := d.counted(s, st, now)
	st.level, st.at, st.previous = u.Used+int64(cost), c.start, c.end
}

func (d dated) settle(s *Spec, st *State, now int64, c *Correction) bool {
	own := d.counted(s, st, now)
	start, _ := s.calendar.Window(now)
	if c.At.At != 0 && c.At.At < min(own.start, start) && !s.owes(c) {
		return false // that window has closed
	}
	change := countChange(s, own.count, c)
	if change == 0 {
		return false
	}
	if own.count += change; own.count == 0 {
		own.start, own.end = 0, 0
	}
	st.level, st.at, st.previous = own.count, own.start, own.end
	return true
}

func (dated) fits(s *Spec, u Usage, cost int) bool { return int64(cost) <= s.Full-u.Used }

func (dated) wait(s *Spec, u Usage, cost int) int64 {
	if s.Each > 0 && u.Used+int64(cost)-s.Full > s.Each {
		return u.Third
	}
	return u.Second
}

func (dated) longer(s *Spec, cost, larger int) (int64, bool) { return 0, s.Each == 0 || cost == larger }

func (dated) charged(_ *Spec, u Usage, cost int) Usage {
	u.Used += int64(cost)
	return u
}

func (d dated) left(s *Spec, u Usage) (remaining int, next, reset int64) {
	if u.Used == 0 {
		return int(s.Full), 0, 0
	}
	return int(s.Full - u.Used), u.Second, d.reset(s, u)
}

func (dated) reset(s *Spec, u Usage) int64 {
	switch {
	case u.Used == 0:
		return 0
	case s.Each > 0 && u.Used > s.Each:
		return u.Third
	}
	return u.Second
}
