// Package demand finds out how large a burst keys need. The burst that a key needs at a rate is the highest level of a leaky bucket
// without a brim that drains at that rate: a limit with that capacity admits all of the key's requests, and one with less denies at least one. So one pass
// over the requests tells, for all rates at once, which keys any limit would ever deny.
//
// Instants are whole microseconds, and each rate admits an event every whole number of microseconds, so nothing is rounded.
package demand

import (
	"time"

	"github.com/weir-go/ratelimit/core"
)

// RateCount is the number of rates that are looked at.
const RateCount = 40

// Most is the largest burst that is told apart from larger ones.
const Most = 10_000_000

var (
	// Rates are the rates that are looked at, from the fastest to the slowest.
	Rates = rates()
	// Bursts are the capacities that are proposed: round numbers, each less than twice the one before.
	Bursts = bursts()
	// intervals are the microseconds per event of each rate.
	intervals = intervalsOf(Rates)
)

func rates() (list [RateCount]core.Rate) {
	i := 0
	for _, group := range []struct {
		rate   func(int) core.Rate
		events []int
	}{
		{core.PerSecond, []int{1000, 500, 250, 200, 100, 50, 40, 25, 20, 10, 8, 5, 4, 2, 1}},
		{core.PerMinute, []int{40, 30, 20, 15, 12, 10, 8, 6, 5, 4, 3, 2, 1}},
		{core.PerHour, []int{40, 30, 20, 12, 10, 6, 4, 2, 1}},
		{core.PerDay, []int{12, 6, 3}},
	} {
		for _, n := range group.events {
			list[i] = group.rate(n)
			i++
		}
	}
	return list
}

func intervalsOf(rates [RateCount]core.Rate) (list [RateCount]int64) {
	for i, rate := range rates {
		list[i] = rate.Period.Microseconds() / int64(rate.Events)
	}
	return list
}

func bursts() (list []int) {
	for decade := 1; decade <= 100_000; decade *= 10 {
		for _, tenths := range []int{10, 15, 20, 30, 40, 50, 70} {
			if n := decade * tenths / 10; n*10 == decade*tenths {
				list = append(list, n)
			}
		}
	}
	return list
}

// Interval returns the time between two events of a rate.
func Interval(rate int) time.Duration { return time.Duration(intervals[rate]) * time.Microsecond }

// Within returns how many events pass at a rate in a time, without a burst.
func Within(rate int, d time.Duration) float64 { return float64(d) / float64(Interval(rate)) }

// Doubt returns by how many events a needed burst may be off if the log tells whole seconds only. Each instant is off by less than
// a second, so each span between two of them by less than two.
func Doubt(rate int) int {
	return int((2_000_000 + intervals[rate] - 1) / intervals[rate])
}
