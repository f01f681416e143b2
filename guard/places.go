package guard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard/internal/checks"
	"github.com/weir-go/ratelimit/guard/internal/writer"
)

// ErrDraining is in [Event].Err of a request that [Options].Draining has ended while it
// waited for its turn, or for a place.
var ErrDraining = errors.New("the server is shutting down")

// hold holds an admitted request until its turn, and returns how long that took. If the
// turn does not come, everything that the request was charged is given back.
func (g *generation) hold(ctx context.Context, rc *requestContext) (time.Duration, error) {
	if rc.reservation == nil || delay(rc.own()) == 0 {
		return 0, nil
	}
	start := time.Now()
	ctx, stop := g.untilDraining(ctx)
	defer stop()
	if err := g.wait(ctx, rc.reservation); err != nil {
		return time.Since(start), fmt.Errorf("ratelimit: %w", err)
	}
	return time.Since(start), nil
}

// untilDraining returns a context that ends when the server begins to shut down, too.
func (g *generation) untilDraining(ctx context.Context) (draining context.Context, stop func()) {
	if g.options.Draining == nil {
		return ctx, func() {}
	}
	draining, cancel := context.WithCancelCause(ctx)
	forget := context.AfterFunc(g.options.Draining, func() { cancel(ErrDraining) })
	return draining, func() { forget(); cancel(nil) }
}

// wait returns when the turn of all that was reserved has come. In the rare case that
// there is a queue in this process and one in the store, it waits in one after the other.
func (g *generation) wait(ctx context.Context, v *reservation) error {
	if v.local.Reservation != nil {
		if err := v.local.Wait(ctx); err != nil {
			if v.stored.Reservation != nil {
				err = errors.Join(err, v.stored.Cancel(context.WithoutCancel(ctx)))
				g.observeSettled(ctx, v, make([]int, len(v.stored.Terms)))
			}
			return err
		}
	}
	if v.stored.Reservation == nil {
		return nil
	}
	err := v.stored.Wait(ctx)
	if err != nil {
		g.observeSettled(ctx, v, make([]int, len(v.stored.Terms)))
		if v.local.Reservation != nil {
			_ = v.local.Cancel(context.WithoutCancel(ctx)) // which is not asked of a server
		}
	}
	return err
}

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

// concurrentRequests is the unit of a [core.Concurrent] limit, as the draft registers it.
const concurrentRequests = "concurrent-requests"

// unitOf returns the unit that a policy counts under a limit of some kind.
func (p *Policy) unitOf(kind checks.Kind) string {
	if p.Unit == "" && kind.Places {
		return concurrentRequests
	}
	return p.Unit
}

// waitForPlaces is Reserve that waits until there are places. There is no reservation if the call was denied
// without having been made.
func (g *generation) waitForPlaces(ctx context.Context, c *call, longest time.Duration) (*core.Reservation, []core.Decision, error) {
	if g.options.Draining != nil && g.options.Draining.Err() != nil {
		r, err := g.limiter.Reserve(ctx, c.Checks...)
		if err != nil {
			return nil, nil, err
		}
		if !c.LacksPlaces(r.Decisions()) {
			return r, r.Decisions(), nil
		}
		denied := reserved{Reservation: r}
		denied.split()
		denied.release()
		return nil, nil, fmt.Errorf("ratelimit: %w", ErrDraining)
	}
	waiting, stop := g.untilDraining(ctx)
	defer stop()
	r, err := g.limiter.WaitAll(waiting, c.Checks, core.WithPlacesOnly(), core.WithLongestWait(longest))
	limited, late := errors.AsType[*core.LimitedError](err)
	switch {
	case err == nil:
		return r, r.Decisions(), nil
	case !late:
		return nil, nil, err
	case r != nil && (!c.LacksPlaces(r.Decisions()) || !errors.Is(err, context.DeadlineExceeded)):
		return r, r.Decisions(), nil
	case errors.Is(err, context.DeadlineExceeded):
		return nil, nil, fmt.Errorf("ratelimit: no place was free before the deadline of the request: %w", err)
	}
	decisions, err := g.limiter.PeekAll(ctx, c.Checks...)
	if err != nil {
		return nil, nil, err
	}
	c.DenyPlace(decisions, limited.Decision.RetryAfter)
	return nil, decisions, nil
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

func (v *reservation) holdsPlaces() bool { return v.stored.holds || v.local.holds }

// makePermit makes the permit of a request that goes on to its handler.
func (rc *requestContext) makePermit() {
	if !rc.holdsPlaces() {
		return
	}
	v := rc.reservation
	v.places.users.begin(v)
	for _, own := range [...]*reserved{&v.stored, &v.local} {
		for i := range own.Checks {
			if own.Reservation != nil && v.places.permit == nil && !own.Checks[i].Shadow && own.TakesPlace(i) {
				v.places.permit = own.Permit(rc)
			}
		}
	}
}

// reportHolder reports an event of a request that may have reserved something. Its places are given back if it does not
// go on, and all that was reserved if the observer panics.
func (g *generation) reportHolder(rc *requestContext, e *Event) {
	returned := false
	defer func() {
		switch {
		case !returned && e.Status == 0:
			rc.giveBack()
		case !returned || e.Status != 0:
			rc.releasePlaces()
		}
	}()
	g.report(e)
	returned = true
}

// giveBack gives back in the background all that was reserved for a request that does not reach its handler.
func (rc *requestContext) giveBack() {
	v := rc.reservation
	if v == nil {
		return
	}
	rc.releasePlaces()
	rc.guard.observeSettled(context.WithoutCancel(rc), v, make([]int, len(v.stored.Terms)))
	for _, own := range [...]*reserved{&v.stored, &v.local} {
		if own.Reservation != nil {
			_ = own.SettleLater(make([]int, len(own.Decisions()))...)
		}
	}
}

// releasePlaces gives back the places of a request that does not reach its handler.
func (rc *requestContext) releasePlaces() {
	if rc.holdsPlaces() {
		rc.reservation.release()
	}
}

// handlerReturned is called when a handler that holds places has returned, and returns what to do when the request has been settled,
// if that is not later. Places that are still in use are not settled with the others then. Beside a ban by response, those of a request
// that is settled later are: else the next request would take the place before the strike is made.
func (v *reservation) handlerReturned(later bool) (settled func()) {
	if later && !v.strikes() || v.places.users.count.Load() > 1 {
		v.split()
	}
	return v.places.users.leave
}

// strikes reports whether the answer to a request may be a strike.
func (v *reservation) strikes() bool { return v.stored.strikes() || v.local.strikes() }

// mayStrike is strikes for a handler that may be reserving more on another goroutine.
func (v *reservation) mayStrike() bool {
	v.settlement.growth.Lock()
	defer v.settlement.growth.Unlock()
	return v.strikes()
}

func (v *reserved) strikes() bool {
	for i := range v.Checks {
		if t := &v.Terms[i]; t.Bans && t.Settle != nil {
			return true
		}
	}
	return false
}

// release gives back the places, and does not wait for the answer. Those that were settled with the others are free already.
func (v *reservation) release() {
	v.split()
	v.stored.release()
	v.local.release()
}

// split keeps the places of a request from being given back when the others are settled, also while the handler lets what is
// reserved grow.
func (v *reservation) split() {
	v.settlement.growth.Lock()
	defer v.settlement.growth.Unlock()
	v.stored.split()
	v.local.split()
}

// split keeps the places of a call from being given back when the others are settled.
func (v *reserved) split() {
	if v.Reservation != nil && v.places == nil {
		v.places = v.Split()
	}
}

func (v *reserved) release() {
	if v.places != nil {
		_ = v.places.SettleBeside(nil, make([]int, len(v.Decisions()))...)
	}
}
