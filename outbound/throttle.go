package outbound

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// ErrThrottled is in the chain of the error of a call that was not made, because its host accepts too few calls; see
// Options.Throttle.
var ErrThrottled = errors.New("throttled")

// The numbers of the throttle. With a window of one second, a Transport that makes 1,000 short calls a second makes all of them
// two seconds after their host has got back from a tenth of its capacity, and five after it has accepted none. Twice the window
// takes twice as long.
const (
	throttleFactor = 2 // K: how many calls a host gets for each that it accepts
	windowParts    = 10
	windowPart     = 100 * time.Millisecond
)

// window counts the calls of the latest parts of time. Each part has its number, counted from the start.
type window [windowParts]struct {
	part            int64
	calls, accepted int
}

// sum returns the counts of a window at a part of time.
func (w *window) sum(now int64) (calls, accepted int) {
	for i := range w {
		if now-w[i].part < windowParts {
			calls += w[i].calls
			accepted += w[i].accepted
		}
	}
	return calls, accepted
}

// count counts a call in a part of time.
func (w *window) count(now int64, isAccepted bool) {
	in := &w[now%windowParts]
	if in.part < now {
		in.part, in.calls, in.accepted = now, 0, 0
	}
	in.calls++
	if isAccepted {
		in.accepted++
	}
}

// chance returns how likely it is that a call is not made, as in chapter 21 of Site Reliability Engineering.
func chance(calls, accepted int) float64 {
	return max(0, float64(calls-throttleFactor*accepted)/float64(calls+1))
}

// throttled returns why a call is not made, or nil.
func (t *Transport) throttled(name string) error {
	if !t.options.Throttle {
		return nil
	}
	return t.hosts.throttled(name)
}

// throttled returns why a call is not made, or nil. A call that is not made counts as one that the host has not accepted.
func (h *hosts) throttled(name string) (reason error) {
	now := h.part()
	h.update(name, func(of *host) {
		calls, accepted := of.window.sum(now)
		if rand.Float64() < chance(calls, accepted) {
			of.window.count(now, false)
			reason = fmt.Errorf("%w: %s has accepted %d of the last %d calls", ErrThrottled, name, accepted, calls)
		}
	})
	return reason
}
