package core

import (
	"context"
	"time"
)

// Trace is told what stores and limiters do that their callers do not see, for metrics
// and logs; see [WithTrace]. Its functions are called on the goroutines that work for
// the store, or ask, by many at once, and must not block. Those that are nil are not
// called, and cost nothing.
type Trace struct {
	// Batch is told of each batch of checks of a [Redis] store that has ended. Settlements, resets and
	// what lists and pings are no checks.
	Batch func(Batch)
	// Breaker is told when a [Redis] store does not ask a server any more, tries it, and
	// asks it again.
	Breaker func(server string, state BreakerState)
	// Repeated is told of each call that a [DenialCache] has answered without the
	// store.
	Repeated func()
	// Wait is told of each [Limiter.Wait], [Limiter.WaitN] and [Limiter.Do] that has waited, or given up.
	Wait func(Wait)
}

// Batch is calls that have shared a round trip to Redis: a script call, or in a cluster a pipeline of
// them.
type Batch struct {
	// Server is the address, or "" where the client does not tell.
	Server string
	// Calls and Checks are how many were in it.
	Calls, Checks int
	// Elapsed is how long it took.
	Elapsed time.Duration
	// Err is why it failed, or nil; see [FailureOf].
	Err error
}

// Wait is one wait for a limit.
type Wait struct {
	// Limit is what was waited for, and Units how many of it. Whose they are is not told.
	Limit Limit
	Units int
	// Elapsed is how long it took to be admitted, or to give up.
	Elapsed time.Duration
	// Err is nil if the units were admitted, a [LimitedError] if that would have come too
	// late, and otherwise what kept them from it.
	Err error
}

// and returns a trace that tells two.
func (t Trace) and(other Trace) Trace {
	and := Trace{Batch: both(t.Batch, other.Batch), Breaker: t.Breaker, Repeated: t.Repeated, Wait: both(t.Wait, other.Wait)}
	switch {
	case t.Breaker == nil:
		and.Breaker = other.Breaker
	case other.Breaker != nil:
		and.Breaker = func(server string, state BreakerState) {
			t.Breaker(server, state)
			other.Breaker(server, state)
		}
	}
	switch {
	case t.Repeated == nil:
		and.Repeated = other.Repeated
	case other.Repeated != nil:
		and.Repeated = func() {
			t.Repeated()
			other.Repeated()
		}
	}
	return and
}

// both returns a function that tells two, of which either may be nil.
func both[T any](first, second func(T)) func(T) {
	switch {
	case first == nil:
		return second
	case second == nil:
		return first
	}
	return func(what T) {
		first(what)
		second(what)
	}
}

// tracedWait is waitN for a limiter that has to tell how long it takes.
func (l *Limiter) tracedWait(ctx context.Context, key string, limit Limit, n int, options []WaitOption) error {
	start := time.Now()
	err := l.waitN(ctx, key, limit, n, options)
	l.trace.Wait(Wait{Limit: limit, Units: n, Elapsed: time.Since(start), Err: err})
	return err
}

// BreakerState says whether a server is asked.
type BreakerState string

const (
	// BreakerClosed means that it is. This is the normal state.
	BreakerClosed BreakerState = "closed"
	// BreakerOpen means that it has failed several times in a row. Calls fail at once, with
	// [Suspended].
	BreakerOpen BreakerState = "open"
	// BreakerHalfOpen means that it is being tried with one call. All other calls fail at once.
	BreakerHalfOpen BreakerState = "half-open"
)
