package guard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard/internal/writer"
	"github.com/weir-go/ratelimit/internal/algorithm"
)

// PermitFrom returns the places that a request holds under [core.Concurrent] limits. It takes the context of the
// request. Its [core.Permit.Context] ends when this process can no longer be sure that it holds them, and
// its [core.Permit.Token] keeps a resource safe from a holder that has lost them without knowing. A handler that is
// done early may release it. Otherwise the places are given back when the handler has returned.
//
// The result is nil if no place is held: no policy has such a limit, or the store could not answer. Where limiters
// stand inside one another, it is that of the innermost one that holds a place.
func PermitFrom(ctx context.Context) *core.Permit {
	for rc := requestContextFrom(ctx); rc != nil; rc = rc.outer {
		if rc.reservation != nil && rc.reservation.places.permit != nil {
			return rc.reservation.places.permit
		}
	}
	return nil
}

// places are those that a request holds, until nobody uses them any more.
type places struct {
	permit *core.Permit
	users  users
}

// users count who uses what a request holds: its handler, until that returns, and the connections that it has taken over,
// until those are closed.
type users struct {
	count atomic.Int32
	of    interface{ release() } // called once, when there are none any more
}

// begin counts the handler.
func (u *users) begin(of interface{ release() }) {
	u.of = of
	u.count.Store(1)
}

// leave counts one less.
func (u *users) leave() {
	if u.count.Add(-1) == 0 {
		u.of.release()
	}
}

// takenOver wraps a connection that the handler takes over, and counts it.
func (u *users) takenOver(connection net.Conn) net.Conn {
	u.count.Add(1)
	return writer.OnClose(connection, u.leave)
}

// takesPlaces reports whether a check takes places if it passes.
func takesPlaces(c *core.Check) bool { return c.Mode == core.Charge && algorithm.Holds(c.Limit) }

// concurrentRequests is the unit of a [core.Concurrent] limit, as the draft registers it.
const concurrentRequests = "concurrent-requests"

// unitOf returns what a policy counts under a limit.
func (p *Policy) unitOf(limit core.Limit) string {
	if p.Unit == "" && algorithm.Holds(limit) {
		return concurrentRequests
	}
	return p.Unit
}

// takesPlaces reports whether one of the checks of a call, shadows included, takes places if it passes.
func (c *call) takesPlaces() bool {
	for i := range c.checks {
		if takesPlaces(&c.checks[i]) {
			return true
		}
	}
	return false
}

// maxWait is how long a call may wait for places: as long as all policies allow that take some. The zero value is not at
// all.
type maxWait struct {
	longest time.Duration
	heeded  bool
}

// heed heeds what a policy says about the places of its check.
func (w *maxWait) heed(p *Policy, check *core.Check) {
	if check.Shadow || !takesPlaces(check) {
		return
	}
	if !w.heeded || p.MaxWait < w.longest {
		w.longest, w.heeded = p.MaxWait, true
	}
}

// waitForPlaces is Reserve that waits until there are places. There is no reservation if the call was denied
// without having been made.
func (g *Guard) waitForPlaces(ctx context.Context, c *call, longest time.Duration) (*core.Reservation, []core.Decision, error) {
	if g.options.Draining != nil && g.options.Draining.Err() != nil {
		r, err := g.limiter.Reserve(ctx, c.checks...)
		if err != nil {
			return nil, nil, err
		}
		if !c.lacksPlaces(r.Decisions()) {
			return r, r.Decisions(), nil
		}
		(&reserved{Reservation: r}).release()
		return nil, nil, fmt.Errorf("ratelimit: %w", ErrDraining)
	}
	waiting, stop := g.untilDraining(ctx)
	defer stop()
	r, err := g.limiter.WaitAll(waiting, c.checks, core.WithPlacesOnly(), core.WithLongestWait(longest))
	limited, late := errors.AsType[*core.LimitedError](err)
	switch {
	case err == nil:
		return r, r.Decisions(), nil
	case !late:
		return nil, nil, err
	case r != nil && (!c.lacksPlaces(r.Decisions()) || !errors.Is(err, context.DeadlineExceeded)):
		return r, r.Decisions(), nil
	case errors.Is(err, context.DeadlineExceeded):
		return nil, nil, fmt.Errorf("ratelimit: no place was free before the deadline of the request: %w", err)
	}
	decisions, err := g.limiter.PeekAll(ctx, c.checks...)
	if err != nil {
		return nil, nil, err
	}
	c.denyPlace(decisions, limited.Decision.RetryAfter)
	return nil, decisions, nil
}

// denyPlace denies the first place that a call would get: a place that is free by now is for those who came before.
func (c *call) denyPlace(decisions []core.Decision, retryAfter time.Duration) {
	place := -1
	for i := range decisions {
		if c.checks[i].Shadow || !takesPlaces(&c.checks[i]) {
			continue
		}
		if d := &decisions[i]; d.Allowed && !d.Waived {
			place = i
			break
		} else if place < 0 && d.Waived && allowed(c.checks, decisions) { // an alternative has become free
			place = i
		}
	}
	if place < 0 {
		return
	}
	for _, other := range c.withAlternatives([]int{place}) {
		decisions[other].Waived = other != place
	}
	d := &decisions[place]
	d.Allowed, d.RetryAfter, d.Estimated = false, retryAfter, true
}

// lacksPlaces reports whether a call was denied for nothing else than that places are taken.
func (c *call) lacksPlaces(decisions []core.Decision) bool {
	lacks := false
	for i := range decisions {
		if d := &decisions[i]; !d.Allowed && !d.Waived && !c.checks[i].Shadow {
			if !algorithm.Holds(d.Limit) || d.RetryAfter == core.Never {
				return false
			}
			lacks = true
		}
	}
	return lacks
}

// isEndedWait reports whether an error is that of a wait for places which the request's deadline or the server's
// end has ended.
func isEndedWait(err error) bool {
	_, late := errors.AsType[*core.LimitedError](err)
	return late || errors.Is(err, ErrDraining)
}

// waited returns how long the request has waited for places.
func (rc *requestContext) waited() time.Duration {
	if rc.reservation == nil {
		return 0
	}
	return rc.reservation.waited
}

// holdsPlaces reports whether there may be places to give back.
func (rc *requestContext) holdsPlaces() bool {
	return rc.reservation != nil && rc.reservation.holdsPlaces()
}

func (v *reservation) holdsPlaces() bool { return v.stored.holdsPlaces() || v.local.holdsPlaces() }

func (v *reserved) holdsPlaces() bool { return v.Reservation != nil && v.takesPlaces() }

// makePermit makes the permit of a request that goes on to its handler.
func (rc *requestContext) makePermit() {
	if !rc.holdsPlaces() {
		return
	}
	v := rc.reservation
	v.places.users.begin(v)
	for _, own := range [...]*reserved{&v.stored, &v.local} {
		for i := range own.checks {
			if own.Reservation != nil && v.places.permit == nil && !own.checks[i].Shadow && takesPlaces(&own.checks[i]) {
				v.places.permit = own.Permit(rc)
			}
		}
	}
}

// reportHolder reports an event of a request that may hold places. They are given back if it does not go on.
func (g *Guard) reportHolder(rc *requestContext, e *Event) {
	goesOn := false
	defer func() { // also after a panic of the observer's
		if !goesOn {
			rc.reservation.release()
		}
	}()
	g.report(e)
	goesOn = e.Status == 0
}

// takenOver returns what wraps a connection that the handler takes over: the places are held until it is closed.
func (v *reservation) takenOver() func(net.Conn) net.Conn {
	if !v.holdsPlaces() {
		return nil
	}
	return v.places.users.takenOver
}

// handlerReturned is called when the handler has returned, and returns what to do when the request has been settled,
// if that is not later. Places that are still in use are not settled with the others then.
func (v *reservation) handlerReturned(later bool) (settled func()) {
	if !v.holdsPlaces() {
		return func() {}
	}
	if later || v.places.users.count.Load() > 1 {
		v.stored.split()
		v.local.split()
	}
	return v.places.users.leave
}

// release gives back the places, in the background. Those that were settled with the others are free already.
func (v *reservation) release() {
	v.stored.release()
	v.local.release()
}

// split keeps the places of a call from being given back when the others are settled.
func (v *reserved) split() {
	if v.Reservation != nil && v.places == nil {
		v.places = v.Split()
	}
}

func (v *reserved) release() {
	v.split()
	if v.places != nil {
		_ = v.places.SettleLater(make([]int, len(v.Decisions()))...)
	}
}
