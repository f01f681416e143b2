package core

import (
	"context"
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

// decide has a store decide the part, if there is one, and writes the decisions of the whole call, and
// the receipts unless that is nil.
func (p limitedPart) decide(ctx context.Context, store Store, decisions []Decision, receipts []Receipt) error {
	if p.places == nil {
		return decideAlone(ctx, store, p.checks, decisions, receipts)
	}
	for i := range decisions {
		decisions[i] = unlimitedDecision()
	}
	if len(p.checks) == 0 {
		return nil
	}
	told, own := make([]Decision, len(p.checks)), []Receipt(nil)
	if receipts != nil {
		own = make([]Receipt, len(p.checks))
	}
	if err := decideAlone(ctx, store, p.checks, told, own); err != nil {
		return placed(err, p.places)
	}
	for i, place := range p.places {
		decisions[place] = told[i]
		if receipts != nil {
			receipts[place] = own[i]
		}
	}
	return nil
}
