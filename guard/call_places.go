package guard

import (
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/alternatives"
)

// lacksPlaces reports whether a call was denied for nothing else than that places are taken.
func (c *call) lacksPlaces(decisions []core.Decision) bool {
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

// denyPlace denies the first place that a call would get: a place that is free by now belongs to an earlier waiter.
func (c *call) denyPlace(decisions []core.Decision, retryAfter time.Duration) {
	place := -1
	for i := range decisions {
		if c.Checks[i].Shadow || !c.takesPlace(i) {
			continue
		}
		if d := &decisions[i]; d.Allowed && !d.Waived {
			place = i
			break
		} else if place < 0 && d.Waived && c.passed(decisions) { // an alternative has become free
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
