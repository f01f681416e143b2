// Package core decides whether something may happen now.
//
// A [Limit] is an algorithm with its numbers, a key names the client that it is about, and a [Limiter] answers, for the
// whole fleet, whether one more unit fits:
//
//	limiter, err := core.Open("redis://localhost:6379")
//	if err != nil {
//		return err
//	}
//	decision, err := limiter.Allow(ctx, "user:42", core.Leaky(10, core.PerSecond(1)))
//
// A denial is a [Decision], not an error; an error means that the call could not be
// answered.
//
// State lives in a [Store]: that of [NewRedis], where a Lua script decides atomically
// on the server's clock in one round trip, or that of [NewMemory], the same arithmetic
// inside this process. Both keep the same laws, which package storetest states as
// properties. In short: in no interval passes more than the algorithm's own
// definition allows, nothing is denied that the definition admits, the numbers
// in a Decision are exact, a denial costs nothing, and several checks asked
// together are all charged or none.
//
// # Numbers
//
// No algorithm here uses floating point. Time is counted in microseconds, and
// levels in units chosen for each limit so that nothing is rounded: with N
// events per P microseconds, reduced by their common divisor, an event weighs
// P' units and N' units drain each microsecond. Where that does not fit below
// 2^53, milliseconds are used instead, and where those do not fit either,
// [Limit.Validate] returns an error that says why.
//
// # Is it well set up?
//
// Package doctor looks at a server and tells how to mend its settings. Package admin lists keys, and describes their
// states in words.
package core
