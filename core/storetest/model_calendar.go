package storetest

import (
	"fmt"
	"math/big"
	"sort"
	"strconv"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-go/ratelimit/core"
)

// periods are the periods of drawn calendar limits. The zones change their clocks at several times of the day and year,
// but do not show the beginning of a window twice.
var periods = []core.Period{
	core.Every(time.Second), core.Every(1900 * time.Millisecond), core.Every(time.Hour), core.Every(24 * time.Hour),
	core.Daily("UTC"), core.Daily("Europe/Berlin"), core.Daily("America/New_York"), core.Daily("Australia/Lord_Howe"), core.Daily("Africa/Cairo"),
	core.Weekly("Europe/Berlin", time.Monday), core.Weekly("UTC", time.Saturday),
	core.Monthly("UTC"), core.Monthly("Europe/Berlin").From(15), core.Monthly("America/New_York").From(31),
	core.MonthlySince(time.Date(2024, time.January, 31, 8, 30, 0, 1000, time.UTC)),
	core.Yearly("UTC", time.January), core.Yearly("Europe/London", time.April).From(6), core.Yearly("UTC", time.February).From(29),
	core.Yearly("UTC", time.February).From(30), core.Yearly("America/New_York", time.June).From(31),
}

// drawCalendar draws a calendar limit.
func drawCalendar(t *rapid.T, capacity int) core.Quota {
	return core.Calendar(capacity, rapid.SampledFrom(periods).Draw(t, "period"))
}

// resized returns a limit with another capacity.
func resized(algorithm string, l core.Limit, capacity int) core.Quota {
	if algorithm != "calendar" {
		return newLimit(algorithm, capacity, l.Rate())
	}
	return core.Calendar(capacity, periodOf(l))
}

func periodOf(l core.Limit) core.Period {
	_, text, _ := strings.Cut(l.String(), ", ")
	text, _, _ = strings.Cut(text, ", debt")
	for _, p := range periods {
		if p.String() == text {
			return p
		}
	}
	length, err := time.ParseDuration(strings.TrimPrefix(text, "every "))
	if days, found := strings.CutSuffix(text, "d"); err != nil && found {
		n, failed := strconv.Atoi(strings.TrimPrefix(days, "every "))
		length, err = time.Duration(n)*24*time.Hour, failed
	}
	if err != nil {
		panic(fmt.Sprintf("storetest: %s has no period that is known here", l))
	}
	return core.Every(length)
}

// windowed numbers the windows of a period in order. It reads the period's own text, and knows no more of a zone than the
// times that its clocks show.
func windowed(text string) func(at int64) int64 {
	unit, behind, _ := strings.Cut(text, " ")
	unit, anchor, _ := strings.Cut(unit, "@")
	if unit == "every" {
		panic("storetest: the windows of one length are reckoned")
	}
	zone, err := time.LoadLocation(behind)
	if err != nil {
		panic("storetest: " + err.Error())
	}
	days := func(shown time.Time) int64 {
		return time.Date(shown.Year(), shown.Month(), shown.Day(), 0, 0, 0, 0, time.UTC).Unix() / 86400
	}
	date, clock, _ := strings.Cut(anchor, "T")
	since := func(shown time.Time, year int, month time.Month, day int) bool {
		last := time.Date(year, month+1, 0, 0, 0, 0, 0, time.UTC).Day()
		began := fmt.Sprintf("%04d-%02d-%02dT%s", year, month, min(day, last), clock)
		return shown.Format("2006-01-02T15:04:05.000000") >= began
	}
	return func(at int64) int64 {
		shown := time.UnixMicro(at).In(zone)
		switch unit {
		case "day":
			return days(shown)
		case "week":
			n := days(shown)
			for strings.ToLower(time.Unix(n*86400, 0).UTC().Weekday().String()) != anchor {
				n--
			}
			return n
		case "month":
			day, _ := strconv.Atoi(date)
			n := int64(shown.Year())*12 + int64(shown.Month())
			if !since(shown, shown.Year(), shown.Month(), day) {
				n--
			}
			return n
		}
		month, _ := strconv.Atoi(date[:2])
		day, _ := strconv.Atoi(date[3:])
		if !since(shown, shown.Year(), time.Month(month), day) {
			return int64(shown.Year()) - 1
		}
		return int64(shown.Year())
	}
}

// calendarOf returns the window of an instant under a calendar limit.
func calendarOf(l core.Limit) func(at int64) (start, end int64) {
	p := periodOf(l)
	if rate := l.Rate(); strings.HasPrefix(p.String(), "every ") {
		length := rate.Period.Microseconds()
		return func(at int64) (int64, int64) { return at - at%length, at - at%length + length }
	}
	number := windowed(p.String())
	return func(at int64) (start, end int64) {
		const reach = 400 * 86400 * 1_000_000
		first := func(so func(n int64) bool) int64 { // the first instant around at with such a number
			return at - reach + int64(sort.Search(2*reach, func(i int) bool { return so(number(at - reach + int64(i))) }))
		}
		own := number(at)
		return first(func(n int64) bool { return n >= own }), first(func(n int64) bool { return n > own })
	}
}

// dated is a count with the window in which it was counted, and until when it counts. A count of 0 is no
// window.
type dated struct {
	by         numbers
	count      int64
	start, end int64
	closes     int64
	each       int64 // of a debt that a window pays, by the limit that left the count
}

// stands returns the state as it stands at an instant, not clamped to any capacity.
func (s dated) stands(l numbers, now int64) (taken dated, repaired bool) {
	if s.count == 0 {
		return dated{by: l}, false
	}
	s.by = l
	near := min((3 * time.Hour).Microseconds(), (s.end-s.start)/8)
	if start, end := l.calendar(now); s.start-end > near {
		s.start, s.end, repaired = start, end, true
		near = min((3 * time.Hour).Microseconds(), (end-start)/8)
	}
	s.closes = s.end
	// The window by this limit that its end is in the middle of may be the same one, by other clocks.
	start, end := l.calendar(s.end)
	if start < s.end && end-s.end <= near && max(start-s.start, s.start-start) <= near {
		s.closes = end
	}
	if s.closes <= now {
		return s.owed(now), false
	}
	return s, repaired
}

// owed returns the state in the window of an instant, after the window of a count has closed: that window pays for the one before.
func (s dated) owed(now int64) dated {
	owed := dated{by: s.by}
	if each := s.by.each(); each > 0 && s.each == each && s.count > each {
		start, end := s.by.calendar(now)
		before, _ := s.by.calendar(start - 1)
		near := min((3 * time.Hour).Microseconds(), (s.end-s.start)/8)
		if s.closes == start && max(before-s.start, s.start-before) <= near {
			owed.count, owed.start, owed.end, owed.closes, owed.each = s.count-each, start, end, end, each
		}
	}
	return owed
}

func (s dated) understood(l numbers, now int64) (state, bool) {
	s, repaired := s.stands(l, now)
	if most := l.most.Num().Int64(); s.count > most {
		s.count, repaired = most, true
	}
	return s, repaired
}

func (s dated) used(_ numbers, now int64) *big.Rat {
	if s.closes <= now {
		return new(big.Rat).SetInt64(s.owed(now).count)
	}
	return new(big.Rat).SetInt64(s.count)
}

func (s dated) charged(l numbers, now int64, cost int) state {
	if s.count == 0 && cost > 0 {
		s.start, s.end = l.calendar(now)
		s.closes = s.end
	}
	s.count, s.each = s.count+int64(cost), l.each()
	return s
}

func (s dated) settled(c charge, asked numbers, events int, raise bool, now int64) (after state, changed bool) {
	stood := s
	s, _ = s.stands(asked, now)
	if s.count == 0 {
		s.start, s.end = asked.calendar(now)
		s.closes = s.end
	}
	start, _ := asked.calendar(now)
	if c.at != 0 && c.at < min(s.start, start) && (asked.each() == 0 || events < 0) {
		return stood, false
	}
	count := counted(s.count, mostCharged(c.check.Limit), events, raise)
	if count == s.count {
		return stood, false
	}
	s.count, s.each = count, asked.each()
	return s, true
}
