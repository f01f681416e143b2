package core

// Shaping returns a leaky bucket that shapes: a queue of capacity requests, the
// one in service included, that is served at the given rate. An admitted request
// is told in [Decision.Delay] how long to wait for its turn, so that requests
// leave at an even pace however they come; one that finds the queue full is
// refused.
//
// The verdict returns at once: it is the caller who waits. A request of n units
// takes n turns, and its Delay is that of the first. This is "the leaky bucket as
// a queue" of Andrew S. Tanenbaum, Computer Networks.
//
//	Shaping(10, PerSecond(5)) // one every 200 ms, at most 10 waiting or served
func Shaping(capacity int, drain Rate) Limit { return newLimit(shaping, capacity, drain) }
