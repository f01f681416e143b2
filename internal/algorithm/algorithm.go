// Package algorithm tells packages outside of core the properties of a limit's algorithm. Core tells them its name alone.
package algorithm

import (
	"time"

	"github.com/weir-go/ratelimit/core"
)

// Holds reports whether a limit has places, which are free when their holders give them back. It is not known when that
// will be.
func Holds(l core.Limit) bool {
	_, places := l.(core.Places)
	return places
}

// Bans reports whether a limit is that of a [core.Ban]: its units are strikes, and clients are told of no quota.
func Bans(l core.Limit) bool {
	_, bans := l.(core.Bans)
	return bans
}

// Delays reports whether a limit makes those it admits wait for their turn.
func Delays(l core.Limit) bool { return l != nil && l.Algorithm() == shaping }

// Windowed reports whether a limit counts units per window. Others but those with places are buckets, which drain
// or refill evenly.
func Windowed(l core.Limit) bool {
	if l == nil {
		return false
	}
	switch l.Algorithm() {
	case fixedWindow, slidingWindow, slidingLog, calendar:
		return true
	}
	return false
}

// Dated reports whether a calendar cuts the limit's windows, so that the units left have to last until the window ends.
func Dated(l core.Limit) bool { return l != nil && l.Algorithm() == calendar }

// Reserves reports whether a check of a limit may reserve for a time: see [core.Check.ReserveFor].
func Reserves(l core.Limit) bool { return !Holds(l) && !Bans(l) && !Delays(l) && !Dated(l) }

var (
	shaping       = core.Shaping(1, core.PerSecond(1)).Algorithm()
	fixedWindow   = core.FixedWindow(1, time.Second).Algorithm()
	slidingWindow = core.SlidingWindow(1, time.Second).Algorithm()
	slidingLog    = core.SlidingLog(1, time.Second).Algorithm()
	calendar      = core.Calendar(1, core.Every(time.Second)).Algorithm()
)
