// Package calendar cuts time into windows that people know: hours, days, weeks, months and years in some
// time zone. It knows no limit, no store and no clock.
//
// A [Period] says which windows; [Period.Calendar] loads its time zone. Every instant lies in exactly one
// window of a [Calendar], and a window ends where the next one begins.
//
// A window begins at the first instant at which the clocks of its zone show its beginning or more. So a day begins at one
// o'clock where midnight is skipped, at the first of two midnights, and a day that a zone has skipped has no window. If a
// month is too short for the day on which it would begin, it begins on its last day.
package calendar
