package guard

import "github.com/weir-go/ratelimit/core"

// Compare returns an [Options.Observe] that counts into c how the verdict of a shadow
// policy, which is named after its limit, compares with that of the policies that are
// enforced. Requests about which one of the two has nothing to say are not counted. next
// is told everything, too; it may be nil.
//
// Shadow and enforced policies are asked in the same round trip. A candidate with the
// numbers of the enforced limit starts with a state of its own, so that the two differ
// until it has filled.
func Compare(c *core.Comparison, candidate string, next func(Event)) func(Event) {
	return func(e Event) {
		if !e.Settled {
			count(c, candidate, e.Outcomes)
		}
		if next != nil {
			next(e)
		}
	}
}

func count(c *core.Comparison, candidate string, outcomes []Outcome) {
	enforced, allowed := false, true
	var shadow *Outcome
	for i := range outcomes {
		switch o := &outcomes[i]; {
		case !o.Shadow:
			enforced, allowed = true, allowed && o.Decision.Allowed
		case o.Policy == candidate:
			shadow = o
		}
	}
	if enforced && shadow != nil && !shadow.Decision.Degraded {
		c.Count(allowed, shadow.Decision.Allowed)
	}
}
