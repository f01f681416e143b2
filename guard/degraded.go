package guard

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/algorithm"
)

// remembered is how many keys the Fallback mode knows the last state of.
const remembered = 100_000

// fallsBack reports whether a policy asks for what decides while the store cannot. It returns the reason why
// a limit cannot be shared out, if one cannot.
func fallsBack(options Options, policies []Policy) (asked bool, err error) {
	replicas := options.replicas()
	for i := range policies {
		p := &policies[i]
		if p.OnError != Fallback && (p.OnError != unsaid || options.OnError != Fallback) && options.OnOverload != Fallback {
			continue
		}
		if p.LimitFor == nil && p.Limit != core.Unlimited {
			if err := p.Limit.Share(replicas).Validate(); err != nil {
				return false, fmt.Errorf("policy %d: the share of %d processes: %w", i, replicas, err)
			}
		}
		asked = true
	}
	return asked, nil
}

// degraded is what can be said about a call that the store has not answered, or not all
// of.
type degraded struct {
	call

	decisions []core.Decision
	status    int // what to deny the request with, or 0; then nothing was decided
	err       error
}

// decideDegraded decides about a call as far as that goes after an error: what the store has
// not answered in this process, where its policy says so, and the rest by the store. All of
// it is charged or none: the part in this process first, which is easily given back.
func (g *Guard) decideDegraded(ctx context.Context, rc *requestContext, c call, err error) degraded {
	if status := givenUp(ctx, err); status != 0 {
		return degraded{status: status, err: timeUp(ctx, err)}
	}
	lost, rest, failure := call{}, c, err
	for {
		more, answered := rest.split(failure)
		if errors.Is(failure, core.Overloaded) {
			c.overloaded(more, g.options.OnOverload, nothingElse(failure))
		}
		lost, rest = lost.and(more), answered
		if lost.failsClosed() {
			return degraded{status: http.StatusServiceUnavailable, err: err}
		}
		local, full := g.decideLocally(ctx, lost)
		if full != nil {
			c.failClosed(lost)
			return degraded{status: http.StatusServiceUnavailable, err: errors.Join(err, full)}
		}
		if len(rest.checks) == 0 || !local.allowed() {
			rc.reserve(local)
			return degraded{call: local.call, decisions: local.decisions(), err: err}
		}
		decisions, again := g.ask(ctx, rc, &rest)
		switch {
		case again == nil && allowed(rest.checks, decisions):
			rc.reserve(local)
			return degraded{call: rest.and(local.call), decisions: slices.Concat(decisions, local.decisions()), err: err}
		case again == nil:
			return degraded{call: rest.and(local.call), decisions: slices.Concat(decisions, g.giveBack(ctx, local)), err: err}
		}
		g.giveBack(ctx, local)
		err, failure = errors.Join(err, again), again // more is lost
		if status := givenUp(ctx, again); status != 0 {
			return degraded{status: status, err: timeUp(ctx, err)}
		}
	}
}

// decideLocally decides in this process about the checks of a call whose policies say so,
// and leaves the others out. With an error nothing was decided, and the policies concerned
// fail closed: so many keys are in use that one more could pass as often as it likes.
func (g *Guard) decideLocally(ctx context.Context, lost call) (reserved, error) {
	var own call
	for i := range lost.checks {
		if lost.terms[i].mode == Fallback && !algorithm.Bans(lost.checks[i].Limit) { // a ban is not invented
			own.checks, own.terms = append(own.checks, lost.checks[i]), append(own.terms, lost.terms[i])
		}
	}
	if len(own.checks) == 0 {
		return reserved{}, nil
	}
	reservation, err := g.fallback.Reserve(context.WithoutCancel(ctx), own.checks...)
	if err != nil {
		return reserved{}, fmt.Errorf("ratelimit: this process cannot decide by itself: %w", err)
	}
	return reserved{call: own, Reservation: reservation}, nil
}

// giveBack gives back what this process has charged by itself, since the request does
// not pass, and returns the decisions as they are then.
func (g *Guard) giveBack(ctx context.Context, local reserved) []core.Decision {
	if local.Reservation == nil {
		return nil
	}
	ctx = context.WithoutCancel(ctx)
	_ = local.Cancel(ctx) // which is not asked of a server
	decisions, err := g.fallback.Peek(ctx, local.checks...)
	if err != nil { // there is no room to look
		return local.decisions()
	}
	return decisions
}

// allowed reports whether all checks but those of shadows are allowed.
func allowed(checks []core.Check, decisions []core.Decision) bool {
	for i := range checks {
		if !checks[i].Shadow && !decisions[i].Allowed && !decisions[i].Waived {
			return false
		}
	}
	return true
}

// split parts a call into what an error says was not answered, and the rest. If one of several
// alternatives was not, none was. Shadow
// checks are left out: whether they have been charged is unknown.
func (c call) split(err error) (lost, rest call) {
	unanswered, ok := errors.AsType[*core.UnansweredError](err)
	all := !ok || len(unanswered.Checks) == 0
	var lostPlaces []int
	if !all {
		lostPlaces = c.withAlternatives(unanswered.Checks)
	}
	rest.wait = c.wait
	for i := range c.checks {
		if c.checks[i].Shadow {
			continue
		}
		part := &rest
		if all || slices.Contains(lostPlaces, i) {
			part = &lost
		}
		part.checks, part.terms = append(part.checks, c.checks[i]), append(part.terms, c.terms[i])
	}
	return lost, rest
}

// and returns two calls as one.
func (c call) and(other call) call {
	return call{checks: slices.Concat(c.checks, other.checks), terms: slices.Concat(c.terms, other.terms)}
}

// overloaded has a mode decide about a part of a call, in place of its policies' own. Where
// other servers have failed besides, it is not known whose policies those are: the stricter
// one of both modes decides.
func (c call) overloaded(part call, mode ErrorMode, nothingElse bool) {
	for i := range part.checks {
		own := &part.terms[i].mode
		if nothingElse {
			*own = mode
		} else {
			*own = stricter(*own, mode)
		}
		if index := c.find(&part.checks[i]); index >= 0 {
			c.terms[index].mode = *own
		}
	}
}

// failClosed has the policies of a part of a call fail closed that this process was to
// decide about.
func (c call) failClosed(part call) {
	for i := range part.checks {
		if index := c.find(&part.checks[i]); part.terms[i].mode == Fallback && index >= 0 {
			c.terms[index].mode = FailClosed
		}
	}
}

// nothingElse reports whether an error tells of nothing else than that this process is
// overloaded.
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

// failsClosed reports whether one of the policies of a call fails closed.
func (c call) failsClosed() bool {
	for i := range c.terms {
		if c.terms[i].mode == FailClosed {
			return true
		}
	}
	return false
}
