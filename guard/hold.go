package guard

import (
	"context"
	"errors"
	"fmt"
	"time"
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
