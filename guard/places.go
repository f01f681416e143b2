package guard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/unexported"
)

// ErrDraining is in [Event].Err of a request that [Options].Draining has ended while it
// waited for its turn, or for a place.
var ErrDraining = errors.New("the server is shutting down")

// waitForTurn holds an admitted request until its turn, and returns how long that took. If the
// turn does not come, everything that the request was charged is given back.
func (g *generation) waitForTurn(ctx context.Context, rc *requestContext) (time.Duration, error) {
	if rc.reservation == nil || delay(rc.own()) == 0 {
		return 0, nil
	}
	start := time.Now()
	ctx, stop := g.untilDraining(ctx)
	defer stop()
	if err := g.waitForReserved(ctx, rc.reservation); err != nil {
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

// waitForReserved returns when the turn of all that was reserved has come. In the rare case that
// there is a queue in this process and one in the store, it waits in one after the other.
func (g *generation) waitForReserved(ctx context.Context, v *reservation) error {
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

// placesOnly has a call wait for places alone.
var placesOnly = unexported.PlacesOnly.(core.WaitOption) //nolint:forcetypeassert // it is nothing else

// waitForPlaces is Reserve that waits until there are places. There is no reservation if the call was denied
// without having been made.
func (g *generation) waitForPlaces(ctx context.Context, c *call, longest time.Duration) (*core.Reservation, []core.Decision, error) {
	if g.options.Draining != nil && g.options.Draining.Err() != nil {
		r, err := g.limiter.Reserve(ctx, c.Checks...)
		if err != nil {
			return nil, nil, err
		}
		if !c.lacksPlaces(r.Decisions()) {
			return r, r.Decisions(), nil
		}
		denied := reserved{Reservation: r}
		denied.split()
		denied.release()
		return nil, nil, fmt.Errorf("ratelimit: %w", ErrDraining)
	}
	waiting, stop := g.untilDraining(ctx)
	defer stop()
	r, err := g.limiter.WaitAll(waiting, c.Checks, placesOnly, core.WithLongestWait(longest))
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
	decisions, err := g.limiter.PeekAll(ctx, c.Checks...)
	if err != nil {
		return nil, nil, err
	}
	c.denyPlace(decisions, limited.Decision.RetryAfter)
	return nil, decisions, nil
}

// isEndedWait reports whether an error is that of a wait for places that the request's deadline or the server's
// end has ended.
func isEndedWait(err error) bool {
	_, late := errors.AsType[*core.LimitedError](err)
	return late || errors.Is(err, ErrDraining)
}

// makePermit makes the permit of a request that goes on to its handler.
func (rc *requestContext) makePermit() {
	if !rc.holdsPlaces() {
		return
	}
	v := rc.reservation
	v.places.users.begin(v)
	for _, own := range [...]*reserved{&v.stored, &v.local} {
		for i := range own.Checks {
			if own.Reservation != nil && v.places.permit == nil && !own.Checks[i].Shadow && own.takesPlace(i) {
				v.places.permit = own.Permit(rc)
			}
		}
	}
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
