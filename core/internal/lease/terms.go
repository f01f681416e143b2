package lease

import (
	"crypto/sha256"
	"encoding/base64"
	"math"
	"time"

	"github.com/weir-go/ratelimit/core/internal/exact"
)

const (
	// longest bounds how long a grant lasts, so that a process that is idle, or has died, keeps nothing from others for
	// longer. It is short enough for people, and long enough for two calls a second of a key.
	longest = time.Second
	// shortest is how long a grant has to last to be worth a round trip.
	shortest = 2 * time.Millisecond
	// fewest is how many units have to flow through a limit while a grant lasts.
	fewest = 2
	// drift is the part of a grant's time that clocks which run at different speeds may differ by: one in a hundred.
	drift = 100
)

// Terms say how units of a limit may be granted. The zero Terms say that they may not.
//
// # How much too much
//
// Let a limit have the capacity B and the rate r, which for a window of length W is n/W. Let L be [Terms.Lasts]. A store
// charges a grant at an instant c on its clock. The process has sent the request before c, counts L from then, and takes
// off the amount by which clocks may differ. So each unit is spent at an instant s with
//
//	c <= s < c + L
//
// The proofs need no more. A pause of the process, a lost reply or a step of the store's clock move neither the instant
// of sending nor the monotonic clock. Returned units count as never charged, by the law of settlements; that makes the
// sums below smaller.
//
// A meter (leaky bucket, token bucket, GCRA) charges at most B + r·t in any time t. Units spent in a time (a, a+t] were
// charged in (a-L, a+t], so they are
//
//	at most B + r·(t + L).
//
// The excess r·L is the tolerated part of B if L = over·B/r. It does not depend on how many processes there are.
//
// A window that closes charges at most n, be it cut by a calendar or not. A grant ends with its window, so that units
// spent in a window were charged in it: at most n, as without grants.
//
// A sliding log charges at most n in any W. Units spent in (a, a+W] were charged in it, or were granted before a and not
// spent until a. Without a bound on the latter a process could keep n units until the log has room for n more, so that L
// alone is not enough: [Terms.Meter] is charged with each grant, and never given anything back. It is a leaky bucket of m
// units that drains m in L, so that at most m + m are charged in any L, and no more than 2m can be unspent at any
// instant:
//
//	at most n + 2m, and 2m <= over·n if L = over·W/2 and m = r·L.
//
// A sliding counter charges while its estimate e = current + f·previous leaves room, 0 <= f <= 1. Let x units that were
// charged in the previous window be spent in the current one, and y units charged before in the previous one. Both were
// unspent at the end of a window: at most 2m each. The estimate of the units spent is e + x + f·(y-x), which is at most
//
//	n + 2m.
//
// The meter drains at the limit's own rate, so that it does not hold a steady flow up.
type Terms struct {
	// Lasts is how long a grant may be spent, counted from when it was asked for. 0 says that there are no grants.
	Lasts time.Duration
	// Most is the greatest number of units in one grant: as many as flow through the limit while it lasts.
	Most int
	// Meter is the limit that is charged together with each grant. It has no algorithm if none is.
	Meter exact.Params
	// Closes says that a grant ends with its window at the latest.
	Closes bool
}

// TermsOf returns the terms of a limit that may admit the given part of its capacity too much: 0.01 is one in a hundred.
func TermsOf(s *exact.Spec, over float64) Terms {
	lasts, most := lastingOf(s, over)
	if lasts == 0 {
		return Terms{}
	}
	grants := s.Algorithm.Grants()
	t := Terms{Lasts: lasts, Most: most, Closes: grants == exact.Closing}
	if grants == exact.Metered {
		t.Meter = exact.Params{Algorithm: exact.Leaky, Name: meterName(s), Capacity: most, Events: most, Period: lasts, Own: true}
	}
	return t
}

// lastingOf returns how long grants of a limit last, and how many units one may have: 0 if there are none.
func lastingOf(s *exact.Spec, over float64) (lasts time.Duration, most int) {
	grants := s.Algorithm.Grants()
	if !(over > 0) || s.Exact || grants == exact.NotGranted || s.Events < 1 || s.IsShadow() {
		return 0, 0
	}
	if grants == exact.Metered {
		over /= 2
	}
	period := float64(s.Period)
	if s.Window > 0 { // of a calendar's windows it is the longest one, in which the rate is the lowest
		period = float64(s.Window) * float64(s.Tick) * float64(time.Microsecond)
	}
	lasts = min(longest, time.Duration(min(float64(longest), over*float64(s.Capacity)*period/float64(s.Events))).Truncate(time.Microsecond))
	most = int(min(float64(s.Events)*float64(lasts)/period, over*float64(s.Capacity), math.MaxInt32))
	if lasts < shortest || most < fewest {
		return 0, 0
	}
	return lasts, most
}

// meterPrefix begins the names of meters.
const meterPrefix = exact.Reserved + "leased:"

// meterName returns the name of the meter of a limit, which all limits with the same state share. A long name is
// hashed.
func meterName(s *exact.Spec) string {
	name := meterPrefix + s.Label()
	if s.Name != "" {
		name = meterPrefix + s.Algorithm.String() + "." + s.Name
	}
	if len(name) > exact.LongestName {
		sum := sha256.Sum256([]byte(name))
		name = meterPrefix + "#" + base64.RawURLEncoding.EncodeToString(sum[:])
	}
	return name
}

// until returns when a grant lapses, in nanoseconds on the monotonic clock. sent is when it was asked for. closes is how
// much longer its window was open when the store charged it.
func (t *Terms) until(sent int64, closes time.Duration) int64 {
	lasts := t.Lasts
	if t.Closes {
		lasts = min(lasts, closes)
	}
	return sent + int64(lasts-lasts/drift)
}
