package core

import (
	"math"
	"slices"

	"github.com/weir-go/ratelimit/core/internal/exact"
)

// Unlimited is the limit of those who have none: a plan without a limit, a tenant who is exempt. Every
// verb of a [Limiter] allows it at once, without asking the store, and tells a Remaining of
// [math.MaxInt]; what is settled, reset or held back under it is nothing. Its name is "unlimited", and
// [Limit.Named] gives it no other one.
//
// It has to be said: the zero Limit, which is what a map returns for a key that it does not have, is an
// error. Unlimited must not be changed.
var Unlimited = Limit{exact.Unlimited}

// unlimitedDecision is the answer to every check under Unlimited.
func unlimitedDecision() Decision {
	return Decision{Allowed: true, Limit: Unlimited, Remaining: math.MaxInt}
}

// limitedPart is the checks of a call that a store is asked: all but those under Unlimited.
type limitedPart struct {
	checks []Check
	places []int // of the checks in the call; nil: it is the whole call
}

func limitedPartOf(checks []Check) limitedPart {
	if !slices.ContainsFunc(checks, func(c Check) bool { return c.Limit == Unlimited }) {
		return limitedPart{checks: checks}
	}
	p := limitedPart{places: []int{}}
	for i, c := range checks {
		if c.Limit != Unlimited {
			p.checks, p.places = append(p.checks, c), append(p.places, i)
		}
	}
	return p
}

// ask asks a store about the part, if there is one, and writes the decisions of the whole call. What ask
// writes into moments is written to the places of the checks, too.
func (p limitedPart) ask(decisions []Decision, moments []Moment, ask func([]Check, []Decision, []Moment) error) error {
	if p.places == nil {
		return ask(p.checks, decisions, moments)
	}
	for i := range decisions {
		decisions[i] = unlimitedDecision()
	}
	if len(p.checks) == 0 {
		return nil
	}
	told, at := make([]Decision, len(p.checks)), make([]Moment, len(p.checks))
	if err := ask(p.checks, told, at); err != nil {
		return placed(err, p.places)
	}
	for i, place := range p.places {
		decisions[place] = told[i]
		if moments != nil {
			moments[place] = at[i]
		}
	}
	return nil
}
