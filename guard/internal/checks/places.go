package checks

import (
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/alternatives"
)

// TakesPlace reports whether the check at a place of the call takes places of its limit if it passes.
func (c *Call[S]) TakesPlace(at int) bool {
	return c.Terms[at].Places && c.Checks[at].Mode == core.Charge
}

// TakesPlaces reports whether one of the checks of a call, shadows included, takes places if it passes.
func (c *Call[S]) TakesPlaces() bool {
	for i := range c.Checks {
		if c.TakesPlace(i) {
			return true
		}
	}
	return false
}

// MaxWait is how long a call may wait for places: as long as each policy that takes some allows. The zero value is not at
// all.
type MaxWait struct {
	Longest time.Duration
	heeded  bool
}

// Heed heeds how long a policy allows its check of some kind to wait for places.
func (w *MaxWait) Heed(longest time.Duration, check *core.Check, of Kind) {
	if check.Shadow || !of.Places || check.Mode != core.Charge {
		return
	}
	if !w.heeded || longest < w.Longest {
		w.Longest, w.heeded = longest, true
	}
}

// LacksPlaces reports whether a call was denied for nothing else than that places are taken.
func (c *Call[S]) LacksPlaces(decisions []core.Decision) bool {
	lacks := false
	for i := range decisions {
		if d := &decisions[i]; d.Denies() && !c.Checks[i].Shadow {
			if !c.Terms[i].Places || d.RetryAfter == core.Never {
				return false
			}
			lacks = true
		}
	}
	return lacks
}

// DenyPlace denies the first place that a call would get: a place that is free by now belongs to an earlier waiter.
func (c *Call[S]) DenyPlace(decisions []core.Decision, retryAfter time.Duration) {
	place := -1
	for i := range decisions {
		if c.Checks[i].Shadow || !c.TakesPlace(i) {
			continue
		}
		if d := &decisions[i]; d.Allowed && !d.Waived {
			place = i
			break
		} else if place < 0 && d.Waived && c.Passed(decisions) { // an alternative has become free
			place = i
		}
	}
	if place < 0 {
		return
	}
	first, end := alternatives.Of(c.Checks, place, isOr)
	for other := first; other < end; other++ {
		decisions[other].Waived = other != place
	}
	d := &decisions[place]
	d.Allowed, d.RetryAfter, d.Estimated = false, retryAfter, true
}
