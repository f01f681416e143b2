package guard

import (
	"fmt"
	"sync/atomic"
)

// Comparison counts how the verdicts of two limits about the same requests compare: of
// one that is enforced, and of a candidate that runs beside it as a shadow
// ([Policy].Shadow). The zero value is ready to use, by many goroutines at once. It must
// not be copied.
type Comparison struct {
	bothAllow, onlyEnforcedDenies, onlyCandidateDenies, bothDeny atomic.Uint64
}

// Count counts the verdicts about one request: whether each limit has let it pass.
func (c *Comparison) Count(enforced, candidate bool) {
	switch {
	case enforced && candidate:
		c.bothAllow.Add(1)
	case candidate:
		c.onlyEnforcedDenies.Add(1)
	case enforced:
		c.onlyCandidateDenies.Add(1)
	default:
		c.bothDeny.Add(1)
	}
}

// Counts returns how often each combination has occurred. While others count, the four
// numbers are of about the same moment.
func (c *Comparison) Counts() ComparisonCounts {
	return ComparisonCounts{
		BothAllow:           c.bothAllow.Load(),
		OnlyEnforcedDenies:  c.onlyEnforcedDenies.Load(),
		OnlyCandidateDenies: c.onlyCandidateDenies.Load(),
		BothDeny:            c.bothDeny.Load(),
	}
}

// ComparisonCounts say how often each combination of verdicts has occurred in a
// [Comparison].
type ComparisonCounts struct {
	// BothAllow counts the requests that both limits let pass.
	BothAllow uint64 `json:"both-allow"`
	// OnlyEnforcedDenies counts the requests that the candidate would let pass.
	OnlyEnforcedDenies uint64 `json:"only-enforced-denies"`
	// OnlyCandidateDenies counts the requests that pass, and that the candidate would deny.
	OnlyCandidateDenies uint64 `json:"only-candidate-denies"`
	// BothDeny counts the requests that both limits deny.
	BothDeny uint64 `json:"both-deny"`
}

// String returns the four numbers in words, for logs.
func (c ComparisonCounts) String() string {
	return fmt.Sprintf("both allow %d, only the enforced denies %d, only the candidate denies %d, both deny %d",
		c.BothAllow, c.OnlyEnforcedDenies, c.OnlyCandidateDenies, c.BothDeny)
}

// Compare returns an [Options.Observe] that counts into c how the verdict of a shadow
// policy, which is named after its limit, compares with that of the policies that are
// enforced. A request for which nothing is enforced passes, and counts so: the first limit
// of a service can be a candidate. Not counted are requests that the candidate has nothing
// to do with, and those about which the store has not answered. next is told everything,
// too; it may be nil.
//
// Shadow and enforced policies are asked in the same round trip. A candidate with the
// numbers of the enforced limit starts with a state of its own, so that the two differ
// until it has filled.
func Compare(c *Comparison, candidate string, next func(Event)) func(Event) {
	return func(e Event) {
		if !e.Settled {
			count(c, candidate, &e)
		}
		if next != nil {
			next(e)
		}
	}
}

// count counts the verdicts of a request in which a policy of that name is a shadow.
func count(c *Comparison, candidate string, e *Event) {
	enforced, allowed := false, true
	var shadow *Outcome
	for i := range e.Outcomes {
		switch o := &e.Outcomes[i]; {
		case !o.Shadow:
			enforced, allowed = true, allowed && !o.Denies()
		case o.Policy == candidate:
			shadow = o
		}
	}
	answered := enforced || len(e.Unanswered) == 0
	if answered && shadow != nil && !shadow.Decision.Degraded {
		c.Count(allowed, shadow.Decision.Allowed)
	}
}
