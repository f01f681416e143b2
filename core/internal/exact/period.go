package exact

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unique"

	"github.com/weir-go/ratelimit/core/internal/calendar"
)

// CalendarParams returns the Params of a limit with windows that a calendar cuts.
func CalendarParams(capacity int, period calendar.Period) Params {
	p := Params{Algorithm: Calendar, Capacity: capacity, Events: capacity}
	p.setCalendar(period)
	return p
}

// setCalendar sets the Calendar of some Params, and their Period with it.
func (p *Params) setCalendar(period calendar.Period) {
	p.Calendar, p.Period = unique.Make(period), 0
	if c, err := period.Calendar(); err == nil {
		p.Period, _ = c.Length()
	}
}

// unitNames are the names of the units by which a period repeats.
var unitNames = map[calendar.Unit]string{
	calendar.Step: "every", calendar.Day: "day", calendar.Week: "week", calendar.Month: "month", calendar.Year: "year",
}

// appendPeriod appends a period in its canonical form: "day Europe/Berlin".
func appendPeriod(b []byte, of unique.Handle[calendar.Period]) []byte {
	if of == (unique.Handle[calendar.Period]{}) {
		return b
	}
	return append(b, PeriodString(of.Value())...)
}

// PeriodString returns a period in its canonical form: "every 1h", "day Europe/Berlin", "week@monday UTC",
// "month@15T08:30 UTC", "year@04-06 Europe/London", with its jitter behind it, as in "day UTC jitter 5m".
func PeriodString(p calendar.Period) string {
	b := append(make([]byte, 0, 48), unitNames[p.Unit]...)
	switch p.Unit {
	case calendar.Step:
		b = appendDuration(append(b, ' '), p.Step)
	case calendar.Week:
		b = append(append(b, '@'), strings.ToLower(p.Weekday.String())...)
	case calendar.Month:
		b = strconv.AppendInt(append(b, '@'), int64(p.Day), 10)
		b = appendTimeOfDay(b, p.Time)
	case calendar.Year:
		b = fmt.Appendf(b, "@%02d-%02d", int(p.Month), p.Day)
	case calendar.None, calendar.Day:
	}
	if p.Zone != "" {
		b = append(append(b, ' '), p.Zone...)
	}
	if p.Jitter != 0 {
		b = appendDuration(append(b, " jitter "...), p.Jitter)
	}
	return string(b)
}

// appendTimeOfDay appends a time of day, unless it is midnight: "T08:30", "T23:59:59.5".
func appendTimeOfDay(b []byte, since time.Duration) []byte {
	if since == 0 {
		return b
	}
	at := time.Unix(0, 0).UTC().Add(since)
	switch {
	case since%time.Minute == 0:
		return at.AppendFormat(b, "T15:04")
	case since%time.Second == 0:
		return at.AppendFormat(b, "T15:04:05")
	}
	return at.AppendFormat(b, "T15:04:05.999999999")
}

// parsePeriod sets the Calendar of Params from a text.
func (p *Params) parsePeriod(text string) error {
	fields := strings.Fields(text)
	if len(fields) != 2 && len(fields) != 4 || len(fields) == 4 && fields[2] != "jitter" {
		return fmt.Errorf("period %q is none such as %q, %q, %q, %q or %q, with %q behind it if need be",
			text, "day Europe/Berlin", "week@monday UTC", "month@15 Europe/Berlin", "year@04-06 UTC", "every 1h", "jitter 5m")
	}
	period, err := parseUnit(fields[0], fields[1])
	if err != nil {
		return err
	}
	if len(fields) == 4 {
		if period.Jitter, err = parseDuration(fields[3]); err != nil {
			return err
		}
	}
	p.setCalendar(period)
	return nil
}

// parseUnit reads a unit with its anchor, and the zone or the length behind it.
func parseUnit(text, behind string) (p calendar.Period, err error) {
	name, anchor, anchored := strings.Cut(text, "@")
	for unit, known := range unitNames {
		if known == name {
			p.Unit = unit
		}
	}
	if p.Zone = behind; p.Unit == calendar.Step {
		p.Zone = ""
		p.Step, err = parseDuration(behind)
	}
	switch {
	case p.Unit == calendar.None:
		return p, fmt.Errorf("unit %q is none of every, day, week, month and year", name)
	case err != nil:
		return p, err
	case !anchored && p.Unit == calendar.Week:
		p.Weekday = time.Monday
	case !anchored && p.Unit == calendar.Month:
		p.Day = 1
	case !anchored && p.Unit == calendar.Year:
		p.Month, p.Day = time.January, 1
	case anchored:
		return p, parseAnchor(&p, anchor)
	}
	return p, nil
}

// parseAnchor reads the text after a unit: the weekday, the day of the month and a time, or the day of the year.
func parseAnchor(p *calendar.Period, anchor string) error {
	switch p.Unit {
	case calendar.Week:
		for weekday := time.Sunday; weekday <= time.Saturday; weekday++ {
			if strings.ToLower(weekday.String()) == anchor {
				p.Weekday = weekday
				return nil
			}
		}
		return fmt.Errorf("weekday %q is none such as %q", anchor, "monday")
	case calendar.Month:
		date, clock, timed := strings.Cut(anchor, "T")
		if timed {
			at, err := parseTimeOfDay(clock)
			if err != nil {
				return err
			}
			p.Time = at
		}
		var err error
		p.Day, err = parseNumber("day", date)
		return err
	case calendar.Year:
		named, of, _ := strings.Cut(anchor, "-")
		month, err := time.Parse("01", named)
		date, wrong := time.Parse("02", of) // of a month of 31 days: a shorter one begins on its last day
		if err != nil || wrong != nil {
			return fmt.Errorf("day of the year %q is none such as %q", anchor, "04-06")
		}
		p.Month, p.Day = month.Month(), date.Day()
		return nil
	case calendar.None, calendar.Step, calendar.Day:
	}
	return fmt.Errorf("a period of a %s has no day such as %q", unitNames[p.Unit], anchor)
}

// parseTimeOfDay reads a time of day.
func parseTimeOfDay(text string) (time.Duration, error) {
	for _, layout := range [...]string{"15:04", "15:04:05"} { // a fraction may follow the seconds
		if at, err := time.Parse(layout, text); err == nil {
			return at.Sub(time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC)), nil
		}
	}
	return 0, fmt.Errorf("time of day %q is none such as %q", text, "08:30")
}
