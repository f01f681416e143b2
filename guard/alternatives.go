package guard

import (
	"errors"
	"fmt"
	"slices"

	"github.com/weir-go/ratelimit/internal/alternatives"
)

// FirstOf makes policies alternatives of each other: a request is charged to the first that has room
// for it, and the others cost nothing. They are one part of a middleware, which may have other policies beside
// them:
//
//	ratelimit.New(limiter, ratelimit.Options{}, append(ratelimit.FirstOf(plan, credits), perMinute)...)
//
// The request is denied if none has room, or if another policy denies it: then nothing is charged. An
// alternative that is skipped for a request falls out. One with [core.Unlimited] has room for everything, and so has
// one with a Cost of 0. If a middleware in front has charged one of the alternatives, the request has paid, and
// none is asked.
//
// In headers and in a problem document an alternative is named if it was charged, or, if none has room, if it will be
// the first to have some. The outcomes have all of them: the Decision of the others is Waived.
//
// An alternative that is the same limit, with the same key, as a policy beside the alternatives charges nothing of its
// own, since a limit is charged once: it has room if its Cost and its Headroom would fit. So tenants share
// a limit, and each is guaranteed a part of it:
//
//	ratelimit.New(limiter, ratelimit.Options{}, append(ratelimit.FirstOf(
//		ratelimit.Policy{Limit: guaranteed, By: tenant},
//		ratelimit.Policy{Limit: shared, By: keyfuncs.Global, Headroom: allGuaranteed},
//	), ratelimit.Policy{Limit: shared, By: keyfuncs.Global})...)
//
// Alternatives have one OnError: the strictest of theirs. If the store cannot answer one of them, it
// decides about all. Shadow policies are alternatives of shadow policies alone. FirstOf
// returns a copy.
func FirstOf(policies ...Policy) []Policy {
	policies = slices.Clone(policies)
	for i := range policies {
		policies[i].or = i > 0
	}
	return policies
}

// checkAlternatives returns the reason why policies make no sense as alternatives, if they do not.
func checkAlternatives(policies []Policy) error {
	for i := range policies {
		if policies[i].Share != nil && hasAlternatives(policies, i) {
			return fmt.Errorf("policy %d is one of several alternatives, and has a Share: leave that out", i)
		}
		switch {
		case !policies[i].or:
		case i == 0:
			return errors.New("policy 0 is to be an alternative of the policy before it, and there is none: use FirstOf")
		case policies[i].Shadow != policies[i-1].Shadow:
			return fmt.Errorf("policies %d and %d are alternatives, and only one of them is a Shadow", i-1, i)
		}
	}
	return nil
}

// hasAlternatives reports whether the policy at a place is one of several alternatives.
func hasAlternatives(policies []Policy, place int) bool {
	return alternatives.Several(policies, place, (*Policy).isOr)
}
