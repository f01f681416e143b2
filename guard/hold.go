package guard

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// errDraining is why a request is held no longer when the server goes down.
var errDraining = errors.New("the server is shutting down")

// hold holds an admitted request until its turn, and returns how long that took. If it
// does not come, everything that it was charged is given back.
func (g *Guard) hold(ctx context.Context, rc *requestContext) (time.Duration, error) {
	if rc.reservation == nil || delay(rc.own()) == 0 {
		return 0, nil
	}
	start := time.Now()
	err := g.holdUntil(ctx, rc)
	return time.Since(start), err
}

func (g *Guard) holdUntil(ctx context.Context, rc *requestContext) error {
	if g.options.Draining == nil {
		return held(g.wait(ctx, rc.reservation))
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(g.options.Draining, func() { cancel(errDraining) })() //nolint:contextcheck // it is the server's
	return held(g.wait(ctx, rc.reservation))
}

// wait returns when the turn has come of all that was reserved. In the rare case that
// there is a queue in this process and one in the store, it stands in both in turn.
func (g *Guard) wait(ctx context.Context, v *reservation) error {
	if v.local.of != nil {
		if err := v.local.of.Wait(ctx); err != nil {
			if v.stored.of != nil {
				err = errors.Join(err, v.stored.of.Cancel(context.WithoutCancel(ctx)))
				g.sawSettled(v, make([]int, len(v.stored.terms)))
			}
			return err
		}
	}
	if v.stored.of == nil {
		return nil
	}
	err := v.stored.of.Wait(ctx)
	if err != nil {
		g.sawSettled(v, make([]int, len(v.stored.terms)))
		if v.local.of != nil {
			_ = v.local.of.Cancel(context.WithoutCancel(ctx)) // which is not asked of a server
		}
	}
	return err
}

func held(err error) error {
	if err != nil {
		return fmt.Errorf("ratelimit: %w", err)
	}
	return nil
}
