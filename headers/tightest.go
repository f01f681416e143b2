package headers

import (
	"cmp"
)

// tightest returns the policy that the client will feel first, for fields that
// have room for one only. A refusal is tighter than any admission. Of refusals
// it is the one with the longest wait; of admissions, the one with the least
// left, and of those, the one that takes longest to recover. The first wins a
// tie. The policies must not be empty.
func tightest(policies []Policy) *Policy {
	best := &policies[0]
	for i := 1; i < len(policies); i++ {
		if compareTightness(&policies[i], best) < 0 {
			best = &policies[i]
		}
	}
	return best
}

// compareTightness is negative if a is tighter than b.
func compareTightness(a, b *Policy) int {
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
