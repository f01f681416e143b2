package jobs

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/weir-go/ratelimit/core"
)

// LaterError is the error of a job that has to be tried again later. It is no failure of the job, and costs no attempt.
type LaterError struct {
	// After is how long to wait, at least a microsecond.
	After time.Duration
	// Err is the reason: a [core.LimitedError], or the store's error.
	Err error
}

// Error implements error.
func (e *LaterError) Error() string {
	return fmt.Sprintf("jobs: to be tried again in %v: %v", e.After, e.Err)
}

// Unwrap returns the reason.
func (e *LaterError) Unwrap() error { return e.Err }

// Run runs the work of a job when its limits admit it, and returns the error of the work. It returns a [LaterError], and has not run the work, if the job
// has to go back to its queue. If ctx ends while the job waits, the error is that of the context, and nothing is charged.
//
// Places are held while the work runs, and given back once, also if it panics. Other charges stay, also if it fails.
//
// An error of the work that wraps a [core.LimitedError], as a call of package outbound ends with that cannot be made in time, becomes a [LaterError], too: the
// work will be run again from its beginning.
//
// If a job asks for more than a limit ever has, no wait helps, and the error is the [core.LimitedError] itself. A negative cost is an error, too.
func (l *Limits[J]) Run(ctx context.Context, job J, work func(context.Context) error) error {
	checks, err := l.checks(ctx, job)
	if err != nil {
		return err
	}
	if len(checks) > 0 {
		held, err := l.wait(ctx, checks)
		if err != nil {
			return err
		}
		if held != nil {
			defer held.Release() //nolint:contextcheck // it gives the places back after ctx has ended, too
		}
	}
	err = work(ctx)
	if limited, denied := errors.AsType[*core.LimitedError](err); denied {
		return l.later(limited.Decision.RetryAfter, l.jitter(), err)
	}
	return err
}

// wait waits until a job may run, and returns the places that it holds then, or nil.
func (l *Limits[J]) wait(ctx context.Context, checks []core.Check) (*core.Permit, error) {
	reservation, err := l.limiter.WaitAll(ctx, checks, core.WithLongestWait(l.options.LongestWait))
	if err == nil {
		return reservation.Permit(ctx), nil
	}
	limited, denied := errors.AsType[*core.LimitedError](err)
	switch {
	case denied:
		wait := limited.Decision.RetryAfter
		if limited.Decision.Estimated && wait != core.Never {
			wait = 0 // the guess is a lease or a period of the limit, which is far too long: spread paces the job
		}
		quota, _ := limited.Decision.Limit.(core.Quota)
		return nil, l.later(wait, l.spread(ctx, checks, quota), err)
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	l.options.Observe(err)
	if l.options.FailClosed {
		return nil, l.later(l.options.LongestWait, l.jitter(), err)
	}
	return nil, nil //nolint:nilnil // the job holds no place, and runs
}

// later returns the error of a job that comes back after a wait, and after some time more, so that not all of them come back at once.
func (l *Limits[J]) later(wait, more time.Duration, reason error) error {
	if wait == core.Never {
		return reason
	}
	return &LaterError{After: max(wait+more, time.Microsecond), Err: reason}
}

// jitter returns a time in which jobs come back that have no order.
func (l *Limits[J]) jitter() time.Duration { return rand.N(max(l.options.LongestWait, time.Second)) }

// most is how many units of the jobs that have gone back have a turn each.
const most = 100_000

// spread returns how much later than the limit says a job is to come back. The jobs of the whole fleet that a limit with a rate has put back come at its pace:
// each has a turn in a queue that drains at the same rate. Behind a full queue, they come together.
// Jobs that have found no place come back at random.
func (l *Limits[J]) spread(ctx context.Context, checks []core.Check, limit core.Quota) time.Duration {
	if i := slices.IndexFunc(checks, func(c core.Check) bool { return c.Limit == limit }); i >= 0 {
		turn, err := l.limiter.AllowN(ctx, checks[i].Key+" back under "+limit.Name(), core.Shaping(most, limit.Rate()), checks[i].Cost)
		switch {
		case err == nil && turn.Allowed:
			return turn.Delay
		case err == nil:
			return turn.ResetAfter + l.jitter()
		}
	}
	return l.jitter()
}
