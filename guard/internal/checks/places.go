package checks

import (
	"slices"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/algorithm"
	"github.com/weir-go/ratelimit/internal/alternatives"
)

// TakesPlaces reports whether a check takes places if it passes.
func TakesPlaces(c *core.Check) bool { return c.Mode == core.Charge && algorithm.Holds(c.Limit) }

// TakesPlaces reports whether one of the checks of a call, shadows included, takes places if it passes.
func (c *Call[S]) TakesPlaces() bool {
	return slices.ContainsFunc(c.Checks, func(c core.Check) bool { return TakesPlaces(&c) })
}

// MaxWait is how long a call may wait for places: as long as each policy that takes some allows. The zero value is not at
// all.
type MaxWait struct {
	Longest time.Duration
	heeded  bool
}

// Heed heeds how long a policy allows its check to wait for places.
func (w *MaxWait) Heed(longest time.Duration, check *core.Check) {
	if check.Shadow || !TakesPlaces(check) {
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
			if !algorithm.Holds(d.Limit) || d.RetryAfter == core.Never {
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
		if c.Checks[i].Shadow || !TakesPlaces(&c.Checks[i]) {
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
