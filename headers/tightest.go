package headers

import (
	"cmp"

	"github.com/weir-go/ratelimit/core"
)

// tightest returns the policy for fields that have room for one only: the one that limits
// the client most. A denial is tighter than any admission. Of two denials, the one with the
// longer wait is tighter. Of two admissions, it is the one with less remaining, or else the
// one that takes longer to recover. The first policy wins a tie. It is nil if no policy can be told in such a field.
func tightest(policies []Outcome) *Outcome {
	var best *Outcome
	for i := range policies {
		if p := &policies[i]; hasReset(&p.Decision) && (best == nil || compareTightness(p, best) < 0) {
			best = p
		}
	}
	return best
}

// compareTightness is negative if a is tighter than b.
func compareTightness(a, b *Outcome) int {
	d, e := &a.Decision, &b.Decision
	switch {
	case !d.Allowed && !e.Allowed:
		return cmp.Compare(e.RetryAfter, d.RetryAfter)
	case !d.Allowed:
		return -1
	case !e.Allowed:
		return 1
	}
	return cmp.Or(
		cmp.Compare(d.Remaining, e.Remaining),
		cmp.Compare(e.NextAfter, d.NextAfter),
		cmp.Compare(e.ResetAfter, d.ResetAfter),
	)
}

// hasReset reports whether a policy can tell when to come back, as single-valued fields have to: a [core.Concurrent]
// limit tells it only in a denial, by its estimate, and a [core.Balance] never.
func hasReset(d *core.Decision) bool {
	return !kindOf(d.Limit).timeless || !d.Allowed && d.RetryAfter != core.Never
}
