package core

import "time"

// Trace is told what a [Redis] store does that its callers do not see, for metrics
// and logs; see [WithTrace]. Its functions are called on the goroutines that work for
// the store, by many at once, and must not block. Those that are nil are not called.
type Trace struct {
	// Call is told of each call to Redis that has ended.
	Call func(Call)
	// Breaker is told when a server is not asked any more, is tried, and is asked again.
	Breaker func(server string, state BreakerState)
}

// Call is one call to Redis: a script call, or in a cluster a pipeline of them.
type Call struct {
	// Server is the address, or "" where the client does not tell.
	Server string
	// Questions and Checks are how many have travelled in it.
	Questions, Checks int
	// Elapsed is how long it took.
	Elapsed time.Duration
	// Err is why it failed, or nil; see [FailureOf].
	Err error
}
