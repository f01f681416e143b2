package exact

import (
	"fmt"
	"math/bits"
	"time"
)

// Units are the whole numbers in which a limit counts. They are comparable.
type Units struct {
	// Tick is the length of a tick of the limit's clock, in microseconds: 1 or 1000.
	Tick int64
	// Weight is how many units one event weighs. It is 1 for windows.
	Weight int64
	// Drain is how many units drain in a tick. It is 0 for windows.
	Drain int64
	// Full is how many units fit: the capacity times Weight.
	Full int64
	// Window is the length of a window in ticks. It is 0 for meters.
	Window int64
	// Each is how many events of a debt a window pays: the capacity. It is 0 for meters, and without debt.
	Each int64
}

const (
	// most is the largest whole number that every script handles exactly.
	most = 1<<53 - 1
	// Longest bounds windows and the time that a meter takes to recover, so that
	// instants stay below 2^53 microseconds.
	Longest = 100 * 365 * day
	// mostLogged bounds a sliding log, which remembers every event that it admits, and the places of a
	// concurrent limit.
	mostLogged = 1_000_000

	day = 24 * time.Hour
)

// windowUnits returns the units of a limit that counts events per window.
func windowUnits(p *Params, tick time.Duration) (Units, error) {
	if p.Period%tick != 0 {
		return Units{}, fmt.Errorf("window is not a whole number of %ss", map[time.Duration]string{
			time.Microsecond: "microsecond", time.Millisecond: "millisecond",
		}[tick])
	}
	if p.Period > Longest {
		return Units{}, fmt.Errorf("window is longer than %d years", Longest/(365*day))
	}
	if p.Capacity > most {
		return Units{}, fmt.Errorf("capacity %d does not stay below 2^53", p.Capacity)
	}
	return Units{
		Tick:   tick.Microseconds(),
		Weight: 1,
		Full:   int64(p.Capacity),
		Window: int64(p.Period / tick),
	}, nil
}

// ticks returns how many whole ticks an instant is from 1970. Nearly every tick is one
// microsecond, and divisions are slow.
func (u *Units) ticks(microseconds int64) int64 {
	if u.Tick == 1 {
		return microseconds
	}
	return microseconds / u.Tick
}

// recovery returns how long something can be left of a charge, in microseconds.
func (u *Units) recovery() int64 {
	if u.Drain == 0 {
		return 2 * u.Window * u.Tick // of a sliding window; others are over before
	}
	return DivideUp(u.Full, u.Drain) * u.Tick
}

// weighed returns the weight of events, or Full if that is less.
func (u *Units) weighed(events int64) int64 {
	weight, ok := multiply(events, u.Weight)
	if !ok {
		return u.Full
	}
	return min(weight, u.Full)
}

// left returns how many of the units that a meter had used at an instant are left, if it has not been charged since. A
// meter gets back no more than that. The rest has drained: without the charge, it would have found the meter empty.
func (u *Units) left(used, now, at int64) int64 {
	ticks := max(0, now/u.Tick-at/u.Tick)
	if ticks > used/u.Drain {
		return 0
	}
	return used - ticks*u.Drain
}

// multiply returns a·b, or false if the product exceeds most.
func multiply(a, b int64) (int64, bool) {
	high, low := bits.Mul64(uint64(a), uint64(b))
	return int64(low), high == 0 && low <= most
}

// DivideUp returns a/b rounded up, where a is at least 0 and b at least 1.
func DivideUp(a, b int64) int64 {
	if b == 1 { // as often as not, and divisions are slow
		return a
	}
	return (a + b - 1) / b
}

func greatestCommonDivisor(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
