package calendar

import (
	"sync/atomic"
	"time"
)

// Calendar is a [Period] with a known time zone. Any number of goroutines may use it at once. Instants are microseconds
// since 1970.
type Calendar struct {
	period   Period
	location *time.Location
	offset   int64                  // by how much its windows begin later
	latest   atomic.Pointer[window] // that was asked for; nil: none
}

// window is from its start to before its end.
type window struct{ start, end int64 }

// Shifted returns a calendar with windows that begin offset microseconds later.
func (c *Calendar) Shifted(offset int64) *Calendar {
	return &Calendar{period: c.period, location: c.location, offset: offset}
}

// Window returns the window in which an instant lies: the window begins at start and ends before end.
func (c *Calendar) Window(at int64) (start, end int64) {
	if w := c.latest.Load(); w != nil && w.start <= at && at < w.end {
		return w.start, w.end
	}
	start, end = c.find(at - c.offset)
	w := &window{start + c.offset, end + c.offset}
	c.latest.Store(w)
	return w.start, w.end
}

// Length returns the length of the windows, if they all have the same for all time.
func (c *Calendar) Length() (length time.Duration, same bool) {
	switch c.period.Unit {
	case Step:
		return c.period.Step, true
	case Day, Week:
		if start, end := time.Unix(0, 0).In(c.location).ZoneBounds(); start.IsZero() && end.IsZero() {
			return c.period.atLeast(), true
		}
	case None, Month, Year:
	}
	return 0, false
}

// Longest returns a length that no window exceeds.
func (c *Calendar) Longest() time.Duration {
	switch c.period.Unit {
	case Step:
		return c.period.Step
	case Month:
		return (31 + 2) * day
	case Year:
		return (366 + 2) * day
	case None, Day, Week:
	}
	return c.period.atLeast() + 2*day // no zone has ever set its clocks by more
}

// find is Window without an offset.
func (c *Calendar) find(at int64) (start, end int64) {
	if c.period.Unit == Step {
		step := c.period.Step.Microseconds()
		start = floor(at, step) * step
		return start, start + step
	}
	// A window that begins after the time on the clocks may have begun all the same, before they were set back.
	number := c.number(c.clocks(at))
	for end = c.begin(number + 1); end <= at; end = c.begin(number + 1) {
		number++
	}
	return c.begin(number), end
}

// clocks returns the time that the clocks of the zone show at an instant, as if it were an instant in UTC.
func (c *Calendar) clocks(at int64) int64 {
	_, offset := time.UnixMicro(at).In(c.location).Zone()
	return at + int64(offset)*1e6
}

// begin returns the beginning of the window with a number: the first instant at which the clocks show it or
// more. Clocks are never two days off, so the search begins there.
func (c *Calendar) begin(number int64) int64 {
	shown := c.shown(number)
	for at := time.UnixMicro(shown).Add(-2 * day).In(c.location); ; {
		_, offset := at.Zone()
		_, change := at.ZoneBounds()
		// Beyond the table of a zone, [time] takes each year for 365 days. On the last day of a leap year it returns the
		// beginning of that day, which is no change of the clocks.
		if !change.IsZero() && !change.After(at) {
			change = at.Add(day)
		}
		begin := time.UnixMicro(shown - int64(offset)*1e6)
		if begin.Before(at) { // the clocks were set forward beyond it
			begin = at
		}
		if change.IsZero() || begin.Before(change) {
			return begin.UnixMicro()
		}
		at = change
	}
}

const microsecondsOfDay = int64(day / time.Microsecond)

// number returns the number of the last window that begins no later than a time on the clocks.
func (c *Calendar) number(shown int64) (number int64) {
	year, month, _ := time.UnixMicro(shown).UTC().Date()
	switch c.period.Unit {
	case Day:
		return floor(shown, microsecondsOfDay)
	case Week:
		return floor(shown-c.firstWeekday(), 7*microsecondsOfDay)
	case Month:
		number = int64(year)*12 + int64(month) - 1
	case None, Step, Year:
		number = int64(year)
	}
	if c.shown(number) > shown {
		number--
	}
	return number
}

// shown returns the time on the clocks at the beginning of the window with a number.
func (c *Calendar) shown(number int64) int64 {
	switch c.period.Unit {
	case Day:
		return number * microsecondsOfDay
	case Week:
		return number*7*microsecondsOfDay + c.firstWeekday()
	case Month:
		year := floor(number, 12)
		return c.onDay(int(year), time.Month(number-year*12)+1)
	case None, Step, Year:
	}
	return c.onDay(int(number), c.period.Month)
}

// onDay returns the day and time of the period in a month, or on its last day.
func (c *Calendar) onDay(year int, month time.Month) int64 {
	date := time.Date(year, month, min(c.period.Day, daysIn(year, month)), 0, 0, 0, 0, time.UTC)
	return date.UnixMicro() + c.period.Time.Microseconds()
}

// firstWeekday returns the first day since 1970, which began on a Thursday, on which a week begins.
func (c *Calendar) firstWeekday() int64 {
	return int64(c.period.Weekday-time.Thursday+7) % 7 * microsecondsOfDay
}

func daysIn(year int, month time.Month) int {
	return time.Date(year, month+1, 0, 0, 0, 0, 0, time.UTC).Day()
}

// floor returns a/b rounded down.
func floor(a, b int64) int64 {
	quotient := a / b
	if a%b < 0 {
		quotient--
	}
	return quotient
}
