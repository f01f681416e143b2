package guard

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/weir-go/ratelimit/core"
)

// degraded is the decision about a call that the store has not answered, or only in part.
type degraded struct {
	call

	decisions []core.Decision
	status    int // of the denial, if nothing was decided; or 0
	err       error
}

// decideDegraded decides about a call after an error of the store. This process decides about the
// checks that the store has not answered, if their policies say so, and the store about the rest. All of
// them are charged or none: those in this process first, since they are easily given back.
func (g *generation) decideDegraded(ctx context.Context, rc *requestContext, c call, err error) degraded {
	if status := givenUp(ctx, err); status != 0 {
		return degraded{status: status, err: timeUp(ctx, err)}
	}
	lost, rest, failure := call{}, c, err
	for {
		more, answered := rest.part(failure)
		if errors.Is(failure, core.Overloaded) {
			c.overloaded(more, g.options.OnOverload, failure)
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
		if len(rest.Checks) == 0 || !local.allowed() {
			rc.reserve(local)
			return degraded{call: local.call, decisions: local.decisions(), err: err}
		}
		decisions, again := g.ask(ctx, rc, &rest, new(core.Call))
		switch {
		case again == nil && rest.passed(decisions):
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

// decideLocally decides in this process about the checks of a call with the mode Fallback,
// and leaves the others out. An error means that the table of keys is full: nothing was decided, and the policies
// fail closed, since one more key could pass as often as it likes.
func (g *generation) decideLocally(ctx context.Context, lost call) (reserved, error) {
	own := lost.local()
	if len(own.Checks) == 0 {
		return reserved{}, nil
	}
	reservation, err := g.fallback.Reserve(context.WithoutCancel(ctx), own.Checks...)
	if err != nil {
		return reserved{}, fmt.Errorf("ratelimit: this process cannot decide by itself: %w", err)
	}
	return reservedBy(&own, reservation), nil
}

// giveBack gives back the units that this process has charged by itself, since the request does
// not pass, and returns the decisions as they are then.
func (g *generation) giveBack(ctx context.Context, local reserved) []core.Decision {
	if local.Reservation == nil {
		return nil
	}
	ctx = context.WithoutCancel(ctx)
	_ = local.Cancel(ctx) // which is not asked of a server
	decisions, err := g.fallback.Peek(ctx, local.Checks...)
	if err != nil { // there is no room to look
		return local.decisions()
	}
	return decisions
}
