package calendar

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// Unit is the unit by which a Period repeats.
type Unit uint8

// The units. The zero value is none of them.
const (
	None Unit = iota
	Step      // of a length that is always the same, since 1970
	Day
	Week
	Month
	Year
)

// Period says how time is cut into windows. It is comparable, and its zero value is not valid. Fields that a
// unit does not use are zero.
type Period struct {
	Unit Unit
	// Zone is the name of a time zone: "Europe/Berlin", "UTC". A Step has none.
	Zone string
	// Weekday is the day on which a Week begins.
	Weekday time.Weekday
	// Month is the month in which a Year begins.
	Month time.Month
	// Day is the day of the month on which a Month or a Year begins, from 1.
	Day int
	// Time is the time of day at which a Month begins, on the zone's clocks.
	Time time.Duration
	// Step is the length of a Step.
	Step time.Duration
	// Jitter is the bound of how much later the windows of a key begin.
	Jitter time.Duration
}

const (
	day = 24 * time.Hour
	// shortest leaves a caller and a server time to agree on the window.
	shortest = time.Second
	// longest is the longest Step.
	longest = 366 * day
)

// atLeast returns how long the windows of a period are at least, but for the changes of its zone's clocks.
func (p *Period) atLeast() time.Duration {
	switch p.Unit {
	case Step:
		return p.Step
	case Day:
		return day
	case Week:
		return 7 * day
	case Month:
		return 28 * day
	case Year:
		return 365 * day
	case None:
	}
	return 0
}

// validate returns the reason why a period makes no sense.
func (p *Period) validate() error {
	if p.Unit == None || p.Unit > Year {
		return errors.New("the zero Period has no unit: use a constructor such as core.Daily")
	}
	if p.Unit == Step && (p.Step < shortest || p.Step > longest || p.Step%time.Microsecond != 0) {
		return fmt.Errorf("%v is not from %v to %d days, in whole microseconds", p.Step, shortest, longest/day)
	}
	if p.Weekday < time.Sunday || p.Weekday > time.Saturday {
		return fmt.Errorf("weekday %d is not from 0, a Sunday, to 6", p.Weekday)
	}
	if err := p.validateDay(); err != nil {
		return err
	}
	if p.Time < 0 || p.Time >= day || p.Time%time.Microsecond != 0 {
		return fmt.Errorf("time of day %v is not from 0 to 24 hours, in whole microseconds", p.Time)
	}
	if p.Jitter < 0 || p.Jitter >= p.atLeast() || p.Jitter%time.Microsecond != 0 {
		return fmt.Errorf("jitter %v is not from 0 to less than a window, in whole microseconds", p.Jitter)
	}
	return nil
}

// validateDay returns the reason why no window can begin on the day of the period.
func (p *Period) validateDay() error {
	switch {
	case p.Unit != Month && p.Unit != Year:
		if p.Day != 0 {
			return fmt.Errorf("only a month begins on a day such as %d: leave From out, or use core.Monthly", p.Day)
		}
		return nil
	case p.Unit == Year && (p.Month < time.January || p.Month > time.December):
		return fmt.Errorf("month %d is not from 1 to 12", p.Month)
	}
	const most = 31 // a shorter month begins on its last day
	if p.Day < 1 || p.Day > most {
		return fmt.Errorf("day %d is not from 1 to %d", p.Day, most)
	}
	return nil
}

// Calendar returns the calendar of a period. A Period that makes no sense is an error, and so is a time zone that is not
// known here.
func (p Period) Calendar() (*Calendar, error) {
	if err := p.validate(); err != nil {
		return nil, err
	}
	c := &Calendar{period: p, location: time.UTC}
	if p.Unit == Step {
		return c, nil
	}
	var err error
	if c.location, err = load(p.Zone); err != nil {
		return nil, err
	}
	return c, nil
}

// locations are the time zones that have been loaded, by their names.
var locations sync.Map

// load returns the time zone with a name.
func load(zone string) (*time.Location, error) {
	if known, ok := locations.Load(zone); ok {
		return known.(*time.Location), nil //nolint:forcetypeassert // the map holds nothing else
	}
	if zone == "" || zone == "Local" {
		return nil, fmt.Errorf("time zone %q is not the same everywhere: name it, as in %q or %q", zone, "UTC", "Europe/Berlin")
	}
	location, err := time.LoadLocation(zone)
	if err != nil {
		return nil, fmt.Errorf("time zone %q is not known here (%w): write its name as in the IANA database, such as %q; "+
			"if this machine has no such database, import _ \"time/tzdata\"", zone, err, "Europe/Berlin")
	}
	locations.Store(zone, location)
	return location, nil
}

// MonthlySince returns the months that begin on the day and at the time of day of an instant, on the clocks of its zone if
// that has the same name and clocks everywhere, and otherwise on those of UTC.
func MonthlySince(anchor time.Time) Period {
	if !isNamed(anchor) {
		anchor = anchor.UTC()
	}
	hour, minute, second := anchor.Clock()
	since := time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute + time.Duration(second)*time.Second
	return Period{
		Unit: Month, Zone: anchor.Location().String(), Day: anchor.Day(),
		Time: since + time.Duration(anchor.Nanosecond()).Truncate(time.Microsecond),
	}
}

// isNamed reports whether an instant is in a zone that has the same name and clocks everywhere.
func isNamed(at time.Time) bool {
	name := at.Location().String()
	if name == "" || name == "Local" {
		return false
	}
	named, err := time.LoadLocation(name)
	if err != nil {
		return false
	}
	_, offset := at.Zone()
	_, same := at.In(named).Zone()
	return offset == same
}
