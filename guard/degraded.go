package guard

import (
	"context"
	"errors"
	"fmt"
	"net/http"
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
		if p.OnError != Fallback && (p.OnError != unsaid || options.OnError != Fallback) && options.OnOverload != Fallback {
			continue
		}
		if p.LimitFor == nil && p.Limit != core.Unlimited {
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

// without is what can be said about a call that the store has not answered, or
// not all of.
type without struct {
	call

	decisions []core.Decision
	status    int // what to deny with, or 0; then nothing was decided
	err       error
}

// decideWithout decides about a call as far as that goes after an error: what was
// lost in this process, where its policy says so, and the rest by the store. All of it is
// charged or none: the part in this process first, which is easily given back.
func (g *Guard) decideWithout(ctx context.Context, rc *requestContext, asked call, err error) without {
	lost, rest, failure := call{}, asked, err
	for {
		more, answered := rest.split(failure)
		if errors.Is(failure, core.Overloaded) {
			asked.overloaded(more, g.options.OnOverload, nothingElse(failure))
		}
		lost, rest = lost.and(more), answered
		if lost.failsClosed() {
			return without{status: http.StatusServiceUnavailable, err: err}
		}
		decided, full := g.fallBack(ctx, lost)
		if full != nil {
			asked.failClosed(lost)
			return without{status: http.StatusServiceUnavailable, err: errors.Join(err, full)}
		}
		if len(rest.checks) == 0 || !decided.allowed() {
			rc.reserve(decided)
			return without{call: decided.call, decisions: decided.decisions(), err: err}
		}
		decisions, again := g.ask(ctx, rc, &rest)
		switch {
		case again == nil && allowed(rest.checks, decisions):
			rc.reserve(decided)
			return without{call: rest.and(decided.call), decisions: slices.Concat(decisions, decided.decisions()), err: err}
		case again == nil:
			return without{call: rest.and(decided.call), decisions: slices.Concat(decisions, g.giveBack(ctx, decided)), err: err}
		}
		g.giveBack(ctx, decided)
		err, failure = errors.Join(err, again), again // more is lost
		if status := givenUp(ctx, again); status != 0 {
			return without{status: status, err: timeUp(ctx, err)}
		}
	}
}

// decided is a call that this process has decided by itself.
type decided struct {
	call

	of *core.Reservation // nil: there was nothing to decide
}

func (d decided) allowed() bool { return d.of == nil || d.of.Allowed() }

func (d decided) decisions() []core.Decision {
	if d.of == nil {
		return nil
	}
	return d.of.Decisions()
}

// fallBack decides in this process about the checks of a call whose policies say
// so. The others go unmentioned. With an error nothing was decided, and the policies concerned
// fail closed: so many keys are in use that one more could pass as often as it likes.
func (g *Guard) fallBack(ctx context.Context, lost call) (decided, error) {
	var own call
	for i := range lost.checks {
		if lost.terms[i].mode == Fallback {
			own.checks, own.terms = append(own.checks, lost.checks[i]), append(own.terms, lost.terms[i])
		}
	}
	if len(own.checks) == 0 {
		return decided{}, nil
	}
	of, err := g.fallback.Reserve(context.WithoutCancel(ctx), own.checks...)
	if err != nil {
		return decided{}, fmt.Errorf("ratelimit: this process cannot decide by itself: %w", err)
	}
	return decided{own, of}, nil
}

// giveBack gives back what this process has charged by itself, since the request does
// not pass, and returns the decisions as they are then.
func (g *Guard) giveBack(ctx context.Context, d decided) []core.Decision {
	if d.of == nil {
		return nil
	}
	ctx = context.WithoutCancel(ctx)
	_ = d.of.Cancel(ctx) // which is not asked of a server
	decisions := make([]core.Decision, len(d.checks))
	_ = g.fallback.Peek(ctx, d.checks, decisions)
	return decisions
}

func allowed(checks []core.Check, decisions []core.Decision) bool {
	for i := range checks {
		if !checks[i].Shadow && !decisions[i].Allowed {
			return false
		}
	}
	return true
}

// split parts a call into what an error says was not answered, and the rest. Shadow
// checks are left out: whether they have been charged is unknown.
func (q call) split(err error) (lost, rest call) {
	unanswered, ok := errors.AsType[*core.UnansweredError](err)
	all := !ok || len(unanswered.Checks) == 0
	for i := range q.checks {
		if q.checks[i].Shadow {
			continue
		}
		part := &rest
		if all || slices.Contains(unanswered.Checks, i) {
			part = &lost
		}
		part.checks, part.terms = append(part.checks, q.checks[i]), append(part.terms, q.terms[i])
	}
	return lost, rest
}

// and returns two calls as one.
func (q call) and(other call) call {
	return call{checks: slices.Concat(q.checks, other.checks), terms: slices.Concat(q.terms, other.terms)}
}

// overloaded has a mode decide about a part of a call, in place of its policies' own. Where other
// servers failed otherwise, it is not known which of the policies those are: of both modes the stricter
// one decides.
func (q call) overloaded(part call, mode ErrorMode, nothingElse bool) {
	for i := range part.checks {
		own := &part.terms[i].mode
		if nothingElse {
			*own = mode
		} else {
			*own = stricter(*own, mode)
		}
		if place := q.find(&part.checks[i]); place >= 0 {
			q.terms[place].mode = *own
		}
	}
}

// failClosed has those policies of a part of a call fail closed that this process was to decide about.
func (q call) failClosed(part call) {
	for i := range part.checks {
		if place := q.find(&part.checks[i]); part.terms[i].mode == Fallback && place >= 0 {
			q.terms[place].mode = FailClosed
		}
	}
}

// nothingElse reports whether all that an error is made of is that this process is overloaded.
func nothingElse(err error) bool {
	if several, ok := errors.AsType[severalErrors](err); ok {
		return !slices.ContainsFunc(several.Unwrap(), func(one error) bool { return !errors.Is(one, core.Overloaded) })
	}
	return true
}

// severalErrors is what [errors.Join] returns.
type severalErrors interface {
	error
	Unwrap() []error
}

// failsClosed reports whether a policy that asks and has not been answered denies.
func (q call) failsClosed() bool {
	for i := range q.terms {
		if q.terms[i].mode == FailClosed {
			return true
		}
	}
	return false
}
