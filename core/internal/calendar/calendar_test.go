package calendar

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // for machines without a database of their own

	"pgregory.net/rapid"
)

func mustCalendar(t rapid.TB, p Period) *Calendar {
	t.Helper()
	c, err := p.Calendar()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Days begin and end as another library says, wherever a zone has changed its clocks: days.py wrote the file.
func TestDaysAroundEachChangeOfTheClocks(t *testing.T) {
	text, err := os.ReadFile("testdata/days.txt")
	if err != nil {
		t.Fatal(err)
	}
	days := 0
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if fields[0] == "#" {
			continue
		}
		c := mustCalendar(t, Period{Unit: Day, Zone: fields[0]})
		for _, day := range fields[1:] {
			date, rest, _ := strings.Cut(day, ":")
			from, length, _ := strings.Cut(rest, ":")
			start, end := number(t, from)*1e6, number(t, from)*1e6+number(t, length)*1e6
			days++
			if start == end {
				if before, after := c.Window(start - 1); after != start || before == start {
					t.Errorf("%s %s: a skipped day has a window", fields[0], date)
				}
				continue
			}
			for _, at := range []int64{start, start + 1, start + 1800e6, (start + end) / 2, end - 1800e6, end - 1} {
				if gotStart, gotEnd := c.Window(at); gotStart != start || gotEnd != end {
					t.Errorf("%s %s: the window of %s is from %s to %s, want %s to %s", fields[0], date, moment(at), moment(gotStart), moment(gotEnd), moment(start), moment(end))
				}
			}
		}
	}
	if days < 5000 {
		t.Errorf("only %d days", days)
	}
}

func number(t *testing.T, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func moment(at int64) string { return time.UnixMicro(at).UTC().Format("2006-01-02T15:04:05.000000") }

func instant(t testing.TB, zone, local string) int64 {
	t.Helper()
	location, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	at, err := time.ParseInLocation("2006-01-02 15:04:05", local, location)
	if err != nil {
		t.Fatal(err)
	}
	return at.UnixMicro()
}

// Windows by name: the anchors, and what is rare.
func TestWindows(t *testing.T) {
	for _, test := range []struct {
		about          string
		period         Period
		at, start, end string // on the zone's clocks
	}{
		{"the 31st in February", Period{Unit: Month, Zone: "UTC", Day: 31}, "2026-02-27 23:59:59", "2026-01-31 00:00:00", "2026-02-28 00:00:00"},
		{"the 31st in February, from its last day on", Period{Unit: Month, Zone: "UTC", Day: 31}, "2026-02-28 00:00:00", "2026-02-28 00:00:00", "2026-03-31 00:00:00"},
		{"the 31st in a leap year", Period{Unit: Month, Zone: "UTC", Day: 31}, "2028-02-29 00:00:00", "2028-02-29 00:00:00", "2028-03-31 00:00:00"},
		{"the 30th in April", Period{Unit: Month, Zone: "Europe/Berlin", Day: 31}, "2026-04-30 12:00:00", "2026-04-30 00:00:00", "2026-05-31 00:00:00"},
		{"a month with a change of the clocks", Period{Unit: Month, Zone: "Europe/Berlin", Day: 15}, "2026-03-29 03:00:00", "2026-03-15 00:00:00", "2026-04-15 00:00:00"},
		{"the 30th of February", Period{Unit: Year, Zone: "UTC", Month: time.February, Day: 30}, "2027-02-28 12:00:00", "2027-02-28 00:00:00", "2028-02-29 00:00:00"},
		{"the 31st of June", Period{Unit: Year, Zone: "UTC", Month: time.June, Day: 31}, "2026-06-29 12:00:00", "2025-06-30 00:00:00", "2026-06-30 00:00:00"},
		{"a billing period since a time of day", Period{Unit: Month, Zone: "UTC", Day: 31, Time: 8*time.Hour + 30*time.Minute}, "2026-02-28 08:29:59", "2026-01-31 08:30:00", "2026-02-28 08:30:00"},
		{"a year from a leap day", Period{Unit: Year, Zone: "UTC", Month: time.February, Day: 29}, "2026-02-28 00:00:00", "2026-02-28 00:00:00", "2027-02-28 00:00:00"},
		{"a year up to a leap day", Period{Unit: Year, Zone: "UTC", Month: time.February, Day: 29}, "2028-02-28 23:00:00", "2027-02-28 00:00:00", "2028-02-29 00:00:00"},
		{"a tax year", Period{Unit: Year, Zone: "Europe/London", Month: time.April, Day: 6}, "2026-04-05 23:59:59", "2025-04-06 00:00:00", "2026-04-06 00:00:00"},
		{"a week from a Monday", Period{Unit: Week, Zone: "Europe/Berlin", Weekday: time.Monday}, "2026-03-29 23:59:59", "2026-03-23 00:00:00", "2026-03-30 00:00:00"},
		{"a week from a Sunday", Period{Unit: Week, Zone: "America/New_York", Weekday: time.Sunday}, "2026-03-08 00:00:00", "2026-03-08 00:00:00", "2026-03-15 00:00:00"},
		{"midnight is skipped", Period{Unit: Day, Zone: "America/Sao_Paulo"}, "2018-11-04 12:00:00", "2018-11-04 01:00:00", "2018-11-05 00:00:00"},
		{"a day is skipped", Period{Unit: Day, Zone: "Pacific/Apia"}, "2011-12-29 12:00:00", "2011-12-29 00:00:00", "2011-12-31 00:00:00"},
		{"a month before 1970", Period{Unit: Month, Zone: "UTC", Day: 1}, "1969-12-31 23:59:59", "1969-12-01 00:00:00", "1970-01-01 00:00:00"},
		{"six hours", Period{Unit: Step, Step: 6 * time.Hour}, "2026-03-08 17:59:59", "2026-03-08 12:00:00", "2026-03-08 18:00:00"},
	} {
		zone := test.period.Zone
		start, end := mustCalendar(t, test.period).Window(instant(t, zone, test.at))
		if wantStart, wantEnd := instant(t, zone, test.start), instant(t, zone, test.end); start != wantStart || end != wantEnd {
			t.Errorf("%s: from %s to %s, want %s to %s", test.about, moment(start), moment(end), moment(wantStart), moment(wantEnd))
		}
	}
}

// The zones with the rarest changes, and some of everyday.
var zones = []string{
	"UTC", "Europe/Berlin", "America/New_York", "America/Sao_Paulo", "America/St_Johns", "Asia/Beirut", "Africa/Cairo", "Asia/Kolkata",
	"Pacific/Apia", "Pacific/Kwajalein", "Pacific/Chatham", "Australia/Lord_Howe", "Antarctica/Troll", "Africa/Casablanca", "Asia/Manila", "America/Juneau",
}

func drawPeriod(t *rapid.T) Period {
	p := Period{Unit: Unit(rapid.IntRange(int(Step), int(Year)).Draw(t, "unit"))}
	if p.Unit == Step {
		p.Step = time.Duration(rapid.Int64Range(1e6, 366*86400e6).Draw(t, "step")) * time.Microsecond
		return p
	}
	p.Zone = rapid.SampledFrom(zones).Draw(t, "zone")
	switch p.Unit {
	case Week:
		p.Weekday = time.Weekday(rapid.IntRange(0, 6).Draw(t, "weekday"))
	case Month:
		p.Day = rapid.IntRange(1, 31).Draw(t, "day")
		p.Time = time.Duration(rapid.Int64Range(0, 86400e6-1).Draw(t, "time")) * time.Microsecond
	case None, Step, Day:
	case Year:
		p.Month = time.Month(rapid.IntRange(1, 12).Draw(t, "month"))
		p.Day = rapid.IntRange(1, daysIn(2000, p.Month)).Draw(t, "day")
	}
	return p
}

// Every instant lies in exactly one window, and no window is longer or shorter than a unit and the changes of
// the clocks allow. Around its ends the clocks show what the anchor says.
func TestWindowsTileTheLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPeriod(t)
		c := mustCalendar(t, p)
		offset := rapid.Int64Range(0, 86400e6).Draw(t, "offset")
		shifted := c.Shifted(offset)
		at := rapid.Int64Range(-30*365*86400e6, 80*365*86400e6).Draw(t, "at")
		start, end := c.Window(at)
		if at < start || at >= end {
			t.Fatalf("%+v: %s is not from %s to %s", p, moment(at), moment(start), moment(end))
		}
		for _, inside := range []int64{start, end - 1, start + (end-start)/3} {
			if s, e := mustCalendar(t, p).Window(inside); s != start || e != end {
				t.Fatalf("%+v: from %s to %s at %s, and from %s to %s at %s", p, moment(start), moment(end), moment(at), moment(s), moment(e), moment(inside))
			}
		}
		if _, e := c.Window(start - 1); e != start {
			t.Fatalf("%+v: a window ends at %s, and the next one begins at %s", p, moment(e), moment(start))
		}
		if s, _ := c.Window(end); s != end {
			t.Fatalf("%+v: a window ends at %s, and the next one begins at %s", p, moment(end), moment(s))
		}
		if s, e := shifted.Window(at + offset); s != start+offset || e != end+offset {
			t.Fatalf("%+v: an offset of %d moves %d to %d, and %d to %d", p, offset, start, s, end, e)
		}
		if length := end - start; length > c.Longest().Microseconds() || length < p.atLeast().Microseconds()-2*microsecondsOfDay {
			t.Fatalf("%+v: %s to %s is too long or too short", p, moment(start), moment(end))
		}
		if length, same := c.Length(); same && length.Microseconds() != end-start {
			t.Fatalf("%+v: %s to %s is not %v", p, moment(start), moment(end), length)
		}
	})
}

// The last day of a leap year has its windows, too, where no table knows the changes of the clocks, but only a rule.
func TestTheLastDayOfALeapYear(t *testing.T) {
	for _, zone := range []string{"Europe/Berlin", "America/New_York", "Australia/Lord_Howe"} { // none skips a midnight
		c := mustCalendar(t, Period{Unit: Day, Zone: zone})
		for day := time.Date(2040, time.December, 28, 0, 0, 0, 0, c.location); day.Year() < 2042; day = day.AddDate(0, 0, 1) {
			next := day.AddDate(0, 0, 1)
			for _, at := range []time.Time{day, day.Add(12 * time.Hour), next.Add(-time.Microsecond)} {
				if start, end := c.Window(at.UnixMicro()); start != day.UnixMicro() || end != next.UnixMicro() {
					t.Fatalf("%v lies in the window from %s to %s", at, moment(start), moment(end))
				}
			}
		}
	}
}

// What makes no sense is an error that says what does.
func TestPeriodsWithoutSense(t *testing.T) {
	for _, test := range []struct {
		period Period
		want   string
	}{
		{Period{}, "no unit"},
		{Period{Unit: Year + 1, Zone: "UTC"}, "no unit"},
		{Period{Unit: Day}, "not the same everywhere"},
		{Period{Unit: Day, Zone: "Local"}, "not the same everywhere"},
		{Period{Unit: Day, Zone: "Europe/Atlantis"}, `import _ "time/tzdata"`},
		{Period{Unit: Day, Zone: "../etc/passwd"}, "not known here"},
		{Period{Unit: Day, Zone: "UTC", Day: 15}, "core.Monthly"},
		{Period{Unit: Month, Zone: "UTC"}, "day 0 is not from 1 to 31"},
		{Period{Unit: Month, Zone: "UTC", Day: 32}, "day 32 is not from 1 to 31"},
		{Period{Unit: Month, Zone: "UTC", Day: 1, Time: 24 * time.Hour}, "time of day"},
		{Period{Unit: Year, Zone: "UTC", Day: 1}, "month 0"},
		{Period{Unit: Year, Zone: "UTC", Month: time.April, Day: 32}, "day 32 is not from 1 to 31"},
		{Period{Unit: Week, Zone: "UTC", Weekday: 7}, "weekday 7"},
		{Period{Unit: Step, Step: time.Second - 1}, "from 1s to 366 days"},
		{Period{Unit: Step, Step: time.Second + 1}, "whole microseconds"},
		{Period{Unit: Step, Step: 367 * day}, "from 1s to 366 days"},
		{Period{Unit: Day, Zone: "UTC", Jitter: -1}, "jitter -1ns"},
		{Period{Unit: Day, Zone: "UTC", Jitter: day}, "jitter 24h0m0s"},
		{Period{Unit: Day, Zone: "UTC", Jitter: 1}, "jitter 1ns"},
	} {
		if _, err := test.period.Calendar(); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: %v, want %q in it", test.period, err, test.want)
		}
	}
}

// The window that was asked for last is at hand.
func TestTheSameWindowTakesNoMemory(t *testing.T) {
	c, now := mustCalendar(t, Period{Unit: Month, Zone: "Europe/Berlin", Day: 1}), time.Now().UnixMicro()
	c.Window(now)
	if n := testing.AllocsPerRun(100, func() { c.Window(now) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
