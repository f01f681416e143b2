package headers

import (
	"math/bits"
	"time"

	"github.com/weir-go/ratelimit/core"
)

// capacityOf returns the capacity of a limit, or 0 if the limit is nil.
func capacityOf(limit core.Limit) int {
	if limit == nil {
		return 0
	}
	return limit.Capacity()
}

// quota returns the rate of the limit as q units in w whole seconds. It takes as few periods as make up whole seconds:
// ten per 100ms are 100 in one second. It never rounds: if no w fits, it returns the capacity and 0. So it does for a
// limit without a rate, and for a [core.Calendar] limit with windows that are not all of the same number of seconds.
func quota(limit core.Limit) (q, w int64) {
	if limit == nil {
		return 0, 0
	}
	rate := limit.Rate()
	if of := kindOf(limit); of.timeless || of.dated && rate.Period%time.Second != 0 { // the units left have to last to its end
		rate = core.Rate{}
	}
	events, period := int64(rate.Events), int64(rate.Period)
	if events > 0 && period > 0 {
		if q, w, ok := scale(events, period); ok {
			return q, w
		}
		// The numbers of whole periods are too large. Those of a part of one may fit.
		d := greatestCommonDivisor(events, period)
		if q, w, ok := scale(events/d, period/d); ok {
			return q, w
		}
	}
	return clamp(int64(limit.Capacity())), 0
}

// scale takes the fewest periods, in nanoseconds, that make up whole seconds. It returns the
// events in them and those seconds, or false if a number is too large for a field.
func scale(events, period int64) (q, w int64, ok bool) {
	d := greatestCommonDivisor(period, int64(time.Second))
	w = period / d
	high, low := bits.Mul64(uint64(events), uint64(int64(time.Second)/d))
	if high != 0 || low > largest || w > largest {
		return 0, 0, false
	}
	return int64(low), w, true
}

// secondsFor returns the whole seconds, rounded up, in which this many units come back at the rate of the limit.
func secondsFor(units int, limit core.Limit) int64 {
	if limit == nil {
		return 0
	}
	rate := limit.Rate()
	if units <= 0 || rate.Events <= 0 || rate.Period <= 0 {
		return 0
	}
	// The product may take 128 bits. Rounding up twice gives the same as rounding up once.
	high, low := bits.Mul64(uint64(units), uint64(rate.Period))
	high, low = divideUp(high, low, uint64(rate.Events))
	high, low = divideUp(high, low, uint64(time.Second))
	if high != 0 || low > largest {
		return largest
	}
	return int64(low)
}

// secondsUp returns d in whole seconds, rounded up, and 0 if d is negative.
func secondsUp(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return int64((d-1)/time.Second) + 1
}

// divideUp divides the 128 bits of high and low by d and rounds up.
func divideUp(high, low, d uint64) (uint64, uint64) {
	low, rest := bits.Div64(high%d, low, d)
	high /= d
	if rest != 0 {
		var carry uint64
		low, carry = bits.Add64(low, 1, 0)
		high += carry
	}
	return high, low
}

func greatestCommonDivisor(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
