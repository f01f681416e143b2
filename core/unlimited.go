package core

import (
	"context"
	"math"
	"slices"

	"github.com/weir-go/ratelimit/core/internal/exact"
)

// Unlimited is the limit of a client that has none: a plan without a limit, an exempt tenant. Every verb
// of a [Limiter] allows it at once, without asking the store, with a Remaining of [math.MaxInt]. To
// settle, reset or hold back something under it does nothing. Its name is "unlimited", and [Limit.Named]
// gives it no other one.
//
// It has to be set explicitly: the zero Limit, which a map returns for a missing key, is an error.
// Unlimited must not be changed.
var Unlimited = Limit{exact.Unlimited}

// unlimitedDecision is the answer to every check under Unlimited.
func unlimitedDecision() Decision {
	return Decision{Allowed: true, Limit: Unlimited, Remaining: math.MaxInt}
}

// limitedPart has the checks of a call that the store decides: all but those under Unlimited.
type limitedPart struct {
	checks []Check
	places []int // of the checks in the call; nil: it is the whole call
}

func limitedPartOf(checks []Check) limitedPart {
	if !slices.ContainsFunc(checks, func(c Check) bool { return c.Limit == Unlimited }) {
		return limitedPart{checks: checks}
	}
	p := limitedPart{places: []int{}}
	for first, end := 0, 0; first < len(checks); first = end {
		end = endOf(checks, first)
		p.add(checks, first, end)
	}
	return p
}

// add adds a check that has no alternatives, or all alternatives from a place up to another one. One that
// is under Unlimited fits if those before it do not: in the store, a check that looks stands for it. Those
// behind it are never charged, and look, too.
func (p *limitedPart) add(checks []Check, first, end int) {
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

// decide has a store decide the part, and writes the decisions of the whole call, and its receipts
// unless that is nil.
func (p limitedPart) decide(ctx context.Context, store Store, checks []Check, decisions []Decision, receipts []Receipt) error {
	if p.places == nil {
		return decideAlone(ctx, store, p.checks, decisions, receipts)
	}
	for i := range decisions {
		decisions[i] = unlimitedDecision()
	}
	if len(p.checks) == 0 {
		waive(checks, decisions)
		return nil
	}
	told, own := make([]Decision, len(p.checks)), []Receipt(nil)
	if receipts != nil {
		own = make([]Receipt, len(p.checks))
	}
	err := decideAlone(ctx, store, p.checks, told, own)
	for i, place := range p.places {
		if checks[place].Limit == Unlimited { // another check stands for it
			continue
		}
		decisions[place] = told[i]
		if receipts != nil {
			receipts[place] = own[i]
		}
	}
	waive(checks, decisions)
	return placed(err, p.places)
}
