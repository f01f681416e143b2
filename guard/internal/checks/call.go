// Package checks joins the checks of a request's policies into one call, in which each limit is charged once. When the
// store has not answered all of it, the package finds the mode that decides about the rest.
package checks

import (
	"errors"
	"net/http"
	"slices"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/alternatives"
)

// ErrSameAlternative means that two checks which have alternatives are about one state, so that the charge of one would
// depend on that of the other.
var ErrSameAlternative = errors.New("two policies that have alternatives are one limit for this request")

// Call is the checks of a request that are asked together: shadow checks last, and none that was charged before. All of
// them are charged, or none. S is the result of a request that was served. A Call belongs to one goroutine.
type Call[S any] struct {
	Checks  []core.Check
	Terms   []Terms[S] // of each check
	MaxWait MaxWait    // for places
}

// Terms are the fields of a policy that its check needs after the decision.
type Terms[S any] struct {
	Kind // of the limit

	// Name is the policy's name, and Unit the unit that it counts.
	Name, Unit string
	// Mode decides if the store cannot answer.
	Mode Mode
	// Settle returns the real cost of a request. If it is nil, the reserved cost is right.
	Settle func(*http.Request, S) int
	// First says that the response waits for the settlement.
	First bool
	// TellBan says that a ban is told with 429 and Retry-After.
	TellBan bool
}

// Settling returns the function for the real cost of a request that has reserved a cost: it returns that cost, if settle
// is nil.
type Settling[S any] func(settle func(*http.Request, S) int, cost int) func(*http.Request, S) int

// Add adds a check to a call. If the call has a check of the same state, the two are one, unless that has alternatives.
func (c *Call[S]) Add(check core.Check, t Terms[S], settling Settling[S]) {
	for i := range c.Checks {
		if SameState(&c.Checks[i], &check) && !c.isEither(i) {
			c.Terms[i].join(&c.Checks[i], t, &check, settling)
			return
		}
	}
	c.Append(check, t)
}

// AddAlternatives adds checks that are alternatives of each other. They have one mode: the strictest of theirs.
func (c *Call[S]) AddAlternatives(own Call[S], settling Settling[S]) {
	switch len(own.Checks) {
	case 0:
	case 1:
		c.Add(own.Checks[0], own.Terms[0], settling)
	default:
		mode := own.Terms[0].Mode
		for i := range own.Checks {
			own.Checks[i].Or = i > 0
			mode = Stricter(mode, own.Terms[i].Mode)
		}
		for i := range own.Terms {
			own.Terms[i].Mode = mode
		}
		c.Checks, c.Terms = append(c.Checks, own.Checks...), append(c.Terms, own.Terms...)
	}
}

// Append appends a check, without a look at the other checks of the call.
func (c *Call[S]) Append(check core.Check, t Terms[S]) {
	c.Checks, c.Terms = append(c.Checks, check), append(c.Terms, t)
}

// Find returns the place of the check of the same state, or -1.
func (c *Call[S]) Find(check *core.Check) int {
	for i := range c.Checks {
		if SameState(&c.Checks[i], check) {
			return i
		}
	}
	return -1
}

// SameState reports whether two checks are about one state.
func SameState(a, b *core.Check) bool {
	return a.Key == b.Key && a.Shadow == b.Shadow && a.Limit.Identity() == b.Limit.Identity()
}

// ChargeOnce has each limit of a call charged once. An alternative that is the same limit as a check beside the
// alternatives becomes the condition that it would fit. If dearest is set, the check beside it costs as much as the dearer
// one of the two, whichever alternative is charged. If both have alternatives, the error is [ErrSameAlternative].
func (c *Call[S]) ChargeOnce(settling Settling[S], dearest bool) error {
	for i := range c.Checks {
		check := &c.Checks[i]
		if !c.isEither(i) || check.Mode != core.Charge || check.Limit == core.Unlimited {
			continue
		}
		for j := range c.Checks {
			switch {
			case i == j || !SameState(check, &c.Checks[j]) || c.Checks[j].Mode != core.Charge:
			case c.isEither(j):
				return ErrSameAlternative
			default:
				if dearest {
					c.Terms[j].join(&c.Checks[j], c.Terms[i], check, settling)
				}
				check.Mode, c.Terms[i].Settle = core.Condition, nil
				c.Terms[i].Name = c.Terms[j].Name
			}
		}
	}
	return nil
}

// isEither reports whether the check at a place is one of several alternatives.
func (c *Call[S]) isEither(place int) bool { return alternatives.Several(c.Checks, place, isOr) }

func isOr(c *core.Check) bool { return c.Or }

// Settles reports whether a policy knows the real cost.
func (c *Call[S]) Settles() bool {
	return slices.ContainsFunc(c.Terms, func(t Terms[S]) bool { return t.Settle != nil })
}

// Reserves reports whether a call has to be remembered after it was answered.
func (c *Call[S]) Reserves() bool {
	for i := range c.Checks {
		t := &c.Terms[i]
		turns := t.Delays && !c.Checks[i].Shadow // the request may have to be held until its turn
		if t.Settle != nil || turns || c.TakesPlace(i) {
			return true
		}
	}
	return false
}
