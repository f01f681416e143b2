package core

import (
	"context"
	"time"
)

// Trace has functions that stores and limiters call when something happens which their
// callers do not see, for metrics and logs; see [WithTrace]. They are called on the
// goroutines of the store and of its callers, by many at once, and must not block. Nil
// functions are not called, and cost nothing.
type Trace struct {
	// Batch is called after each batch of checks that a store of [NewRedis] has sent. Settlements,
	// resets, lists and pings are no checks.
	Batch func(Batch)
	// Breaker is called when the breaker of a server changes its state.
	Breaker func(server string, state BreakerState)
	// Repeated is called after each call that a cache of denials ([CacheDenials]) has answered without
	// its store.
	Repeated func()
	// Wait is called when [Limiter.Wait], [Limiter.WaitN] or [Limiter.Do] has waited, or given up.
	Wait func(Wait)
}

// Batch is a number of calls that have shared a round trip to Redis: one script run, or in a cluster a
// pipeline of them.
type Batch struct {
	// Server is the server's address, or "" if the client does not tell it.
	Server string
	// Calls and Checks are how many of them the batch had.
	Calls, Checks int
	// Elapsed is how long the batch took.
	Elapsed time.Duration
	// Err is why the batch failed, or nil; see [FailureOf].
	Err error
}

// Wait is one wait for a limit.
type Wait struct {
	// Limit is the limit that was waited for, and Units the number of units. The key is not told.
	Limit Limit
	Units int
	// Elapsed is how long the wait took until it was admitted or given up.
	Elapsed time.Duration
	// Err is nil if the units were admitted, a [LimitedError] if they would have been
	// admitted too late, and otherwise the error that ended the wait.
	Err error
}

// and returns a trace that calls the functions of two.
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

// both returns a function that calls two, of which either may be nil.
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

// tracedWait is waitN with a call of the trace afterwards.
func (l *Limiter) tracedWait(ctx context.Context, key string, limit Limit, n int, options []WaitOption) error {
	start := time.Now()
	err := l.waitN(ctx, key, limit, n, options)
	l.trace.Wait(Wait{Limit: limit, Units: n, Elapsed: time.Since(start), Err: err})
	return err
}

// BreakerState says whether calls are sent to a server.
type BreakerState string

const (
	// BreakerClosed means that calls are sent. This is the normal state.
	BreakerClosed BreakerState = "closed"
	// BreakerOpen means that the server has failed several times in a row. Calls fail at once, with
	// [Suspended].
	BreakerOpen BreakerState = "open"
	// BreakerHalfOpen means that one call tries the server. All other calls fail at once.
	BreakerHalfOpen BreakerState = "half-open"
)
