package guard

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/unexported"
)

// ask has the store decide about a call, and remembers a reservation. The decisions may lie in the memory of an empty call.
func (g *generation) ask(ctx context.Context, rc *requestContext, c *call, room *core.Call) ([]core.Decision, error) {
	if !c.remembered() {
		room.Checks = c.Checks
		err := unexported.AllowAll(ctx, g.limiter, room)
		g.observe(c, room.Decisions, err)
		return room.Decisions, err
	}
	v := rc.reserving()
	v.asked = time.Now()
	var decisions []core.Decision
	var stored *core.Reservation
	var err error
	if longest := c.MaxWait.Longest; longest > 0 && c.takesPlaces() {
		stored, decisions, err = g.waitForPlaces(ctx, c, longest)
		v.waited = time.Since(v.asked)
		if stored != nil {
			v.waited = unexported.Waited(stored)
		}
		v.asked = v.asked.Add(v.waited)
	} else if stored, err = g.limiter.Reserve(ctx, c.Checks...); err == nil {
		decisions = stored.Decisions()
	}
	if err != nil {
		return nil, err
	}
	g.observe(c, decisions, nil)
	if stored != nil {
		v.stored = reservedBy(c, stored)
	}
	return decisions, nil
}

// hungUp reports whether the client has gone away. A deadline that passes is the
// server's own.
func hungUp(ctx context.Context) bool { return errors.Is(ctx.Err(), context.Canceled) }

// givenUp returns the status for a request that has no time left to be decided about, after
// an error: 499 if the client has gone away, 503 if its deadline has passed or the server is
// shutting down, and otherwise 0. No mode of a policy lets such a request through.
func givenUp(ctx context.Context, err error) int {
	switch {
	case hungUp(ctx):
		return statusClientClosedRequest
	case errors.Is(ctx.Err(), context.DeadlineExceeded), isEndedWait(err), core.FailureOf(err) == core.GivenUp:
		return http.StatusServiceUnavailable
	}
	return 0
}

// timeUp returns an error that tells of the request's deadline, if that has passed.
func timeUp(ctx context.Context, err error) error {
	if ended := ctx.Err(); errors.Is(ended, context.DeadlineExceeded) && !errors.Is(err, ended) {
		return fmt.Errorf("ratelimit: the deadline of the request has passed: %w (%w)", ended, err)
	}
	return err
}
