package core

import (
	"time"

	"github.com/weir-go/ratelimit/core/internal/calendar"
	"github.com/weir-go/ratelimit/core/internal/exact"
)

// Calendar returns a limit of n events in each window of a calendar: 10,000 a month, a day's free tier that begins at
// midnight in Berlin, a billing period. The windows do not depend on traffic, so that a key may use n in each, and loses
// nothing by coming late. Compare [FixedWindow].
//
// The store's clock says which window it is; the callers' clocks do not matter. [Decision.ResetAfter] is the exact time
// until the window ends. Windows follow the rules of their time zone: a day may have 23 or 25 hours. Nothing is carried
// over from one window to the next, so twice n may pass around its end.
//
// The rules come from this process's time zone database, or that of package time/tzdata. A zone that is unknown here is
// an error of [Limit.Validate].
//
// A named limit may get another Period, or a fleet may disagree about the rules of a zone. Then the used units count
// until the end of the window in which they were used, and the next window opens at that end. No key gets n twice in one
// window, and no check moves its end. So the month of a limit that becomes one of n an hour goes on to its end.
// [Limiter.Reset] opens a new window at once. Where rules differ by no more than three hours, or an eighth of the window,
// no key gets n between the two ends either.
//
// [Limit.Rate] tells the length of the windows if it is always the same, and otherwise a Period of 0.
//
//	Calendar(10_000, Monthly("Europe/Berlin"))
func Calendar(n int, period Period) Quota {
	return Quota{limitWith(exact.CalendarParams(n, period.period))}
}

// Period says how a [Calendar] limit cuts time into windows. It is an immutable, comparable value, made by
// [Daily], [Weekly], [Monthly], [MonthlySince], [Yearly] or [Every]. The zero Period is not valid.
//
// The constructors and methods never fail: [Limit.Validate] returns an error for a limit with a Period that makes no
// sense. Zones are named as in the IANA database, "Europe/Berlin" or "UTC"; "" and "Local" are not valid, since they are
// not the same everywhere. A window begins at midnight on the zone's clocks, or when they show more for the first time if
// they skip it.
type Period struct{ period calendar.Period }

// Daily returns the days of a time zone.
func Daily(zone string) Period { return Period{calendar.Period{Unit: calendar.Day, Zone: zone}} }

// Weekly returns the weeks of a time zone, which begin on a weekday.
func Weekly(zone string, begins time.Weekday) Period {
	return Period{calendar.Period{Unit: calendar.Week, Zone: zone, Weekday: begins}}
}

// Monthly returns the months of a time zone. They begin on their first day: see [Period.From].
func Monthly(zone string) Period {
	return Period{calendar.Period{Unit: calendar.Month, Zone: zone, Day: 1}}
}

// MonthlySince returns the billing periods of a client that began at an instant, to the microsecond. They begin on the
// instant's day of each month and at its time of day, or on the last day of a month that is too short. The month and year
// of the instant do not matter.
//
// The clocks are those of the instant's [time.Location] if that was made by [time.LoadLocation], and otherwise
// UTC: a local or a fixed zone is not the same everywhere.
func MonthlySince(anchor time.Time) Period { return Period{calendar.MonthlySince(anchor)} }

// Yearly returns the years of a time zone, which begin on the first day of a month: see [Period.From].
func Yearly(zone string, begins time.Month) Period {
	return Period{calendar.Period{Unit: calendar.Year, Zone: zone, Month: begins, Day: 1}}
}

// Every returns windows of one length, one after the other since 1970 in UTC: hours begin on the hour. A length is from a
// second to 366 days, a whole number of microseconds.
func Every(length time.Duration) Period {
	return Period{calendar.Period{Unit: calendar.Step, Step: length}}
}

// From returns the Period with another day of the month, from 1 to 31, on which its months or years begin.
// Shorter months begin on their last day: from the 31st on, one window is from 31 January to 28 February, and the years of
// Yearly("UTC", time.February).From(30) begin on 28 or 29 February. It is for [Monthly] and [Yearly].
func (p Period) From(day int) Period {
	p.period.Day = day
	return p
}

// Jitter returns the Period with windows that begin later, for each key by one of 32 times between 0 and d,
// so that not all keys of a fleet begin anew at one instant. A key always has the same one, in every process. d is less
// than a window, and a whole number of microseconds; 0 is no jitter.
func (p Period) Jitter(d time.Duration) Period {
	p.period.Jitter = d
	return p
}

// String returns the Period in its canonical form, as ParseLimit has it: "day Europe/Berlin",
// "week@monday UTC", "month@15 Europe/Berlin", "month@31T08:30 UTC", "year@04-06 Europe/London", "every 1h",
// and "day UTC jitter 5m".
func (p Period) String() string { return exact.PeriodString(p.period) }
