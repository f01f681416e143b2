package core

import (
	"math"
	"time"
)

// Never is the RetryAfter of a check that no wait can help, because its cost, or its cost and its
// [Check.Headroom] together, exceeds the capacity of the limit.
const Never time.Duration = math.MaxInt64

// Decision is the answer to one [Check].
//
// Take a leaky bucket of 10 that drains one a second, and a client that has just sent
// 10 requests at once. The tenth Decision says Allowed, Remaining 0, NextAfter 1s and
// ResetAfter 10s. An eleventh request at the same moment is denied with RetryAfter 1s.
// Half a second later, RetryAfter would be 500ms and ResetAfter 9.5s.
type Decision struct {
	// Allowed says whether this check passes. A call of several checks passes if all of them are allowed, except those
	// that are Waived.
	Allowed bool
	// Waived says that another one of the check's alternatives counts in its place, so that this
	// Decision neither denies the call nor costs anything: see [FirstOf]. It is false for a check that
	// has no alternatives.
	Waived bool
	// Degraded says that the store could not answer, and this process has decided by itself:
	// see the Fallback mode of package guard. The numbers are those of the process's share of the
	// limit ([Quota.Share]). A shadow check is not decided then.
	Degraded bool
	// Leased says that this process has decided by itself, from units that the store had charged ahead of time: see
	// [Lease]. The numbers are estimates then: those of the latest lease, less the units spent since.
	Leased bool
	// Repeated says that the denial was remembered, and repeated without asking the store: see denialcache.New.
	Repeated bool
	// Limit is the limit that was asked.
	Limit Limit
	// Remaining is how many whole units are left: after the charge, or as they are now if
	// the check was not charged, because the call was denied, was a Peek or cost nothing.
	// NextAfter and ResetAfter are about the same instant. 0 ≤ Remaining ≤ capacity.
	Remaining int
	// RetryAfter is 0 if Allowed. Otherwise it is the exact wait after which the same
	// check passes if the key is not used meanwhile, or [Never]. If Estimated, it is a guess.
	RetryAfter time.Duration
	// NextAfter is the time until Remaining grows by one if the key is not used
	// meanwhile. It is 0 when nothing has been used. A check that fits and takes places of a [Concurrent]
	// limit is told the limit's lease, since no store looks when others' places are free.
	NextAfter time.Duration
	// ResetAfter is the time until the key is as good as new.
	ResetAfter time.Duration
	// Delay is how long the caller should hold an allowed request back, so that
	// requests leave at an even pace. Only [Shaping] limits set it.
	Delay time.Duration
	// Estimated says that RetryAfter is no more than a guess: it is not known when a place of a [Concurrent] limit will
	// be given back. A store tells when enough leases end if none is renewed; a [Limiter] tells how long places have
	// lately been held, once it has seen that. A call that has only stood behind others of its process is told the period of the limit.
	Estimated bool
	// Began says that strikes have begun a [Ban].
	Began bool
	// Token is the token of the places of a [Concurrent] limit that were taken, and otherwise 0. It is greater than the
	// tokens of all calls that took places of the key before: see [Permit.Token].
	Token uint64
}

// Denies reports whether the Decision denies its call, unless its check is a shadow: it is neither Allowed nor Waived.
func (d Decision) Denies() bool { return !d.Allowed && !d.Waived }

// Denied returns the decision that denies a call, and whether one does:
//
//	decisions, err := limiter.AllowAll(ctx, checks...)
//	if err != nil {
//		return err
//	}
//	if denial, denied := core.Denied(decisions); denied {
//		return fmt.Errorf("%v is used up: come again in %v", denial.Limit, denial.RetryAfter)
//	}
//
// Of several it is the one with the longest RetryAfter, and the first of these: absent other traffic, the call passes
// then. Decisions that are Waived do not count. Decisions do not know whether their check is a shadow, so leave those of
// shadow checks out.
func Denied(decisions []Decision) (denial Decision, denied bool) {
	for i := range decisions {
		if d := &decisions[i]; d.Denies() && (!denied || d.RetryAfter > denial.RetryAfter) {
			denial, denied = *d, true
		}
	}
	return denial, denied
}
