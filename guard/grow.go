package guard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weir-go/ratelimit/core"
)

// ErrNotReserved is the error of [Grow] where nothing is reserved that could grow: no policy of the request has the
// limit and a Settle, the request was exempt, or it was let through because the store could not answer.
var ErrNotReserved = errors.New("ratelimit: nothing is reserved for the request under this limit, so it cannot grow")

// Grow reserves more for a request that takes more than its Cost, such as a stream that goes on. It
// takes the context of the request, and the total that has to be reserved under each of some limits, by the name
// of the limit: of plans that share a name, any will do. To grow twice to the same total is to grow once, and a total
// that is reserved already asks the store nothing.
//
// The missing units are charged now, under all of the limits or under none. Grow returns the Decision of the first limit
// that denies it, with the time after which it may pass, or else of the one with the least left. The share of a tenant
// ([Policy].Share) grows with its limit, and may deny, too. If the growth is denied,
// the request keeps its reservation: the handler ends the stream at its budget, or waits. [SettlePolicy].Cost returns the
// real cost at the end, and finds the total in [Served].Cost.
//
// Limits of several middlewares are asked one after the other, the innermost first: the units of an inner one stay
// reserved until the request is settled. Where the store could not answer and this process decides ([Fallback]), its
// share decides about growth, too.
//
// [ErrNotReserved] says that there is nothing to grow, [core.ErrSettled] that the request has been settled. A negative
// total and no limit at all are errors, as at [core.Reservation.Grow]. Grow may be called by many goroutines at once,
// and takes one round trip.
func Grow(ctx context.Context, total int, limits ...core.Limit) (core.Decision, error) {
	if len(limits) == 0 {
		return core.Decision{}, fmt.Errorf("ratelimit: Grow names no limit (%w)", core.ErrInvalid)
	}
	wanted := slices.Clone(limits)
	var all []core.Decision
	for rc := requestContextFrom(ctx); rc != nil && len(wanted) > 0; rc = rc.outer {
		if rc.reservation == nil {
			continue
		}
		for _, own := range [...]*reserved{&rc.reservation.stored, &rc.reservation.local} {
			decisions, grown, err := rc.guard.grow(ctx, rc.reservation, own, wanted, total)
			if err != nil {
				return core.Decision{}, err
			}
			wanted = slices.DeleteFunc(wanted, func(l core.Limit) bool { return slices.Contains(grown, l.Identity()) })
			for _, d := range decisions {
				if d.Denies() {
					return d, nil
				}
			}
			all = append(all, decisions...)
		}
	}
	if len(wanted) > 0 {
		return core.Decision{}, fmt.Errorf("%w: %s", ErrNotReserved, wanted[0])
	}
	return slices.MinFunc(all, func(a, b core.Decision) int { return a.Remaining - b.Remaining }), nil
}

// growing returns the places of the checks that can grow under some limits. A tenant's share grows with its cap.
func (v *reserved) growing(limits []core.Limit) (of []int) {
	if v.Reservation == nil {
		return nil
	}
	for i := range v.Checks {
		c, t := &v.Checks[i], &v.Terms[i]
		named := slices.ContainsFunc(limits, func(l core.Limit) bool { return c.Limit.Identity() == l.Identity() })
		if t.Share {
			named = slices.Contains(of, i-1)
		}
		if named && !c.Shadow && t.Settle != nil {
			of = append(of, i)
		}
	}
	return of
}

// grow reserves more for the checks of a call under some limits, and returns the answers and their limits. Without such a check, it does
// nothing.
func (g *generation) grow(
	ctx context.Context, of *reservation, own *reserved, limits []core.Limit, total int,
) (answers []core.Decision, grown []core.Limit, err error) {
	s := &of.settlement
	s.growth.Lock()
	defer s.growth.Unlock()
	checks := own.growing(limits)
	if len(checks) == 0 {
		return nil, nil, nil
	}
	if s.closed {
		return nil, nil, core.ErrSettled
	}
	costs := make([]int, len(own.Checks))
	for _, i := range checks {
		costs[i] = total
	}
	decisions, err := own.Grow(ctx, costs...)
	if err != nil {
		return nil, nil, err
	}
	for _, i := range checks {
		answers, grown = append(answers, decisions[i]), append(grown, own.Checks[i].Limit.Identity())
	}
	if slices.ContainsFunc(answers, core.Decision.Denies) {
		return answers, grown, nil
	}
	own.Checks = slices.Clone(own.Checks) // others may read the former ones
	for _, i := range checks {
		if c := &own.Checks[i]; total > c.Units() {
			c.Cost, c.Mode = total, core.Charge
		}
	}
	if own == &of.stored {
		of.asked = time.Now()
		g.observe(&own.call, own.Decisions(), nil)
	}
	return answers, grown, nil
}

// Settle settles a request now, before its handler returns: to tell the client in a trailer, or in the last
// event of a stream, how much is left. It takes the context of the request, and calls each [SettlePolicy].Cost with the bytes
// and units until then. It returns the outcomes of all limiters in front that had something to settle, with the real costs and the
// units left, the outermost first. When the handler returns, the request is not settled again: units spent in between are
// lost. Places of [core.Concurrent] limits are kept.
//
// It returns nil if there was nothing to settle: no policy has a Settle, or the request was settled before. It also returns nil, and settles
// nothing, while the response may still strike or forgive ([BanPolicy]): its status is unknown until it has begun.
func Settle(ctx context.Context) []Outcome {
	var all []Outcome
	for rc := requestContextFrom(ctx); rc != nil; rc = rc.outer {
		if v := rc.reservation; v != nil && v.served != nil && rc.settles() && (!v.mayStrike() || v.begun()) {
			all = append(rc.guard.settleNow(rc, v), all...)
		}
	}
	return all
}

// settleNow settles a request while its handler goes on.
func (g *generation) settleNow(rc *requestContext, v *reservation) []Outcome {
	s := &v.settlement
	s.mu.Lock()
	first := !s.settled
	s.settled = true
	s.mu.Unlock()
	if !first {
		return nil
	}
	if v.holdsPlaces() {
		v.split()
	}
	r, served := v.served()
	return g.settleBy(rc, r, served, true)
}
