package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/weir-go/ratelimit/core"
)

// remembered is how many keys the Fallback mode knows the last state of.
const remembered = 100_000

// newFallback returns what decides while the store cannot, or nil if no policy asks
// for it, and the reason why a limit cannot be shared out, if one cannot.
func newFallback(options Options, policies []Policy) (*core.Fallback, error) {
	replicas := max(1, options.Replicas)
	var fallback *core.Fallback
	for i := range policies {
		p := &policies[i]
		if p.OnError != Fallback && (p.OnError != unsaid || options.OnError != Fallback) {
			continue
		}
		if p.LimitFor == nil {
			if err := p.Limit.Share(replicas).Validate(); err != nil {
				return nil, fmt.Errorf("policy %d: the share of %d processes: %w", i, replicas, err)
			}
		}
		if fallback == nil {
			fallback = core.NewFallback(replicas, remembered)
		}
	}
	return fallback, nil
}

// without is what can be said about a question that the store has not answered, or
// not all of.
type without struct {
	question

	decisions []core.Decision
	closed    bool // a policy fails closed, so nothing was decided
	err       error
}

// decideWithout decides about a question as far as that goes after an error.
func (g *Guard) decideWithout(ctx context.Context, x *exchange, asked question, err error) without {
	lost, rest := asked.split(err)
	if lost.failsClosed() {
		return without{closed: true, err: err}
	}
	decided, decisions := g.fallBack(ctx, lost)
	if len(rest.checks) == 0 || slices.ContainsFunc(decisions, func(d core.Decision) bool { return !d.Allowed }) {
		return without{question: decided, decisions: decisions, err: err}
	}
	more, again := g.ask(ctx, x, &rest)
	if again == nil {
		return without{question: rest.and(decided), decisions: slices.Concat(more, decisions), err: err}
	}
	// Now they are lost, too.
	err = errors.Join(err, again)
	if rest.failsClosed() {
		return without{closed: true, err: err}
	}
	last, others := g.fallBack(ctx, rest)
	return without{question: decided.and(last), decisions: append(decisions, others...), err: err}
}

// fallBack decides in this process about the checks of a question whose policies say
// so. The others go unmentioned.
func (g *Guard) fallBack(ctx context.Context, lost question) (question, []core.Decision) {
	var decided question
	for i := range lost.checks {
		if lost.askers[i].mode == Fallback && !lost.checks[i].Shadow {
			decided.checks, decided.askers = append(decided.checks, lost.checks[i]), append(decided.askers, lost.askers[i])
		}
	}
	if len(decided.checks) == 0 {
		return question{}, nil
	}
	decisions := make([]core.Decision, len(decided.checks))
	if err := g.fallback.Decide(ctx, decided.checks, decisions); err != nil {
		return question{}, nil // what cannot be decided at all goes through
	}
	return decided, decisions
}

// split parts a question into what an error says was not answered, and the rest.
func (q question) split(err error) (lost, rest question) {
	unanswered, ok := errors.AsType[*core.UnansweredError](err)
	for i := range q.checks {
		part := &rest
		if !ok || slices.Contains(unanswered.Checks, i) {
			part = &lost
		}
		part.checks, part.askers = append(part.checks, q.checks[i]), append(part.askers, q.askers[i])
	}
	return lost, rest
}

// and returns two questions as one.
func (q question) and(other question) question {
	return question{checks: slices.Concat(q.checks, other.checks), askers: slices.Concat(q.askers, other.askers)}
}

// failsClosed reports whether a policy that asks and has not been answered refuses.
func (q question) failsClosed() bool {
	for i := range q.askers {
		if q.askers[i].mode == FailClosed && !q.checks[i].Shadow {
			return true
		}
	}
	return false
}
