package arrival

import "time"

// Calendar finds the day and the hour of instants. It is quick where one is close to the one before, and must not be used concurrently.
type Calendar struct {
	zone *time.Location

	from, to int64 // the instants for which the fields above hold
	day      time.Time
	hour     int
}

// NewCalendar returns the calendar of a zone.
func NewCalendar(zone *time.Location) *Calendar { return &Calendar{zone: zone} }

// At returns the begin of the instant's day and its hour. A day has 23 or 25 hours where clocks are changed.
func (c *Calendar) At(instant int64) (day time.Time, hour int) {
	if instant < c.from || instant >= c.to {
		const quarter = 900 * Second // every zone is off by quarters of an hour, and changes at one
		c.from = instant - instant%quarter
		c.to = c.from + quarter
		at := time.UnixMicro(instant).In(c.zone)
		c.day, c.hour = time.Date(at.Year(), at.Month(), at.Day(), 0, 0, 0, 0, c.zone), at.Hour()
	}
	return c.day, c.hour
}

// Day is a day, and the requests on it.
type Day struct {
	Begin    time.Time
	Requests uint64
}

// Days counts the requests of each day and hands them on.
type Days struct {
	next     Sink
	calendar *Calendar
	days     []Day
}

// NewDays returns a Sink that counts the days of a zone for next.
func NewDays(zone *time.Location, next Sink) *Days {
	return &Days{next: next, calendar: NewCalendar(zone)}
}

// Second implements Sink.
func (d *Days) Second(arrivals []Arrival) {
	begin, _ := d.calendar.At(arrivals[0].Instant)
	if n := len(d.days); n == 0 || !d.days[n-1].Begin.Equal(begin) {
		d.days = append(d.days, Day{Begin: begin})
	}
	d.days[len(d.days)-1].Requests += uint64(len(arrivals))
	d.next.Second(arrivals)
}

// All returns the days that have requests, in order.
func (d *Days) All() []Day { return d.days }
