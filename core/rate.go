package core

import (
	"time"

	"github.com/weir-go/ratelimit/core/internal/exact"
)

// Rate is a number of events per period, such as ten per second.
//
// The two fields are kept as given: two per two seconds and one per second fill
// and drain a bucket at the same pace, but they are different Rates, print
// differently and make different [Limit] values. The zero Rate is not valid.
type Rate struct {
	// Events is how many events pass in a Period. It must be at least 1.
	Events int
	// Period is the time in which they pass. It must be positive.
	Period time.Duration
}

// PerSecond returns the Rate of n events a second.
func PerSecond(n int) Rate { return Rate{Events: n, Period: time.Second} }

// PerMinute returns the Rate of n events a minute.
func PerMinute(n int) Rate { return Rate{Events: n, Period: time.Minute} }

// PerHour returns the Rate of n events an hour.
func PerHour(n int) Rate { return Rate{Events: n, Period: time.Hour} }

// PerDay returns the Rate of n events in 24 hours.
func PerDay(n int) Rate { return Rate{Events: n, Period: 24 * time.Hour} }

// Per returns the Rate of n events in each period of length d.
func Per(n int, d time.Duration) Rate { return Rate{Events: n, Period: d} }

// String returns the rate in its canonical form: "10/s", "100/h", "5/2s".
func (r Rate) String() string { return string(exact.AppendRate(nil, r.Events, r.Period)) }
