package core

import (
	"slices"
	"time"

	"github.com/weir-go/ratelimit/internal/alternatives"
)

// FirstOf makes checks alternatives of each other: the first one that fits is charged, and the others cost
// nothing. They are one part of a call, which may have others beside them:
//
//	checks := append(core.FirstOf(plan, credits), perMinute)
//	decisions, err := limiter.AllowAll(ctx, checks...)
//
// All is decided at one instant. If no alternative fits, the call is denied, and so it is if another check of the call
// denies: then no alternative is charged. Each alternative has its own key, limit, cost, headroom and Mode: a [Condition]
// fits without being charged, and a [Look] always fits, so that the call passes even if no alternative before it fits. An
// alternative under [Unlimited] always fits, too. Shadow checks may be alternatives of each other, and are a call of
// their own then.
//
// Each alternative has its own [Decision], with its own verdict and numbers. All of them are [Decision.Waived] except
// one: the one that is charged, or, if none fits, the one that will be the first to fit. So a call passes if each
// Decision is Allowed or Waived. A denied call passes, absent other traffic, after the longest RetryAfter of the
// Decisions that are not Waived, and not before.
//
// An alternative is decided by itself. Other checks of the same key and limit neither add to its cost nor leave it less
// room. A call may not charge one key and limit twice if one of the two is an alternative: that is an error
// ([ErrInvalid]). A Condition may be about any key and limit.
//
// FirstOf sets [Check.Or] of all checks but the first, in a copy. Without checks it returns none, and a single
// check is no alternative of anything.
func FirstOf(checks ...Check) []Check {
	checks = slices.Clone(checks)
	for i := range checks {
		checks[i].Or = i > 0
	}
	return checks
}

// addAlternatives adds a check that has no alternatives, or all alternatives from a place up to another one. An
// alternative under Unlimited fits if none before it does: in the store, a check with the Mode Look stands for it. The
// alternatives behind it are never charged, and look, too.
func (p *part) addAlternatives(checks []Check, first, end int) {
	free := false
	for i := first; i < end; i++ {
		c := checks[i]
		switch {
		case c.Limit == Unlimited && (free || i == first):
			free = true
			continue
		case c.Limit == Unlimited:
			free = true
			c = Check{Key: checks[first].Key, Limit: checks[first].Limit, Mode: Look, Shadow: c.Shadow, Or: true}
		case free:
			c = Check{Key: c.Key, Limit: c.Limit, Mode: Look, Shadow: c.Shadow}
		}
		p.checks, p.places = append(p.checks, c), append(p.places, i)
	}
}

// waive marks the decisions about alternatives that do not count: all but the first that is allowed, or
// else the one with the shortest wait.
func waive(checks []Check, decisions []Decision) {
	for first := 0; first < len(checks); first = endOf(checks, first) {
		end := endOf(checks, first)
		counts := alternatives.Counting(first, end, func(i int) bool { return decisions[i].Allowed },
			func(i int) time.Duration { return decisions[i].RetryAfter })
		for i := first; i < end; i++ {
			decisions[i].Waived = i != counts
		}
	}
}

// endOf returns the place behind the alternatives of which a check is the first.
func endOf(checks []Check, first int) int { return alternatives.End(checks, first, (*Check).isOr) }

func (c *Check) isOr() bool { return c.Or }

// alone returns the check without its alternatives: the one that was charged is settled alone.
func (c *Check) alone() Check {
	own := *c
	own.Or = false
	return own
}

// isEither reports whether the check at a place of a call is one of several alternatives.
func isEither(checks []Check, place int) bool {
	return alternatives.Several(checks, place, (*Check).isOr)
}
