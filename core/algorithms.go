package core

import (
	"time"

	"github.com/weir-go/ratelimit/core/internal/exact"
)

// Leaky returns a leaky bucket that polices: a meter that holds capacity events
// and drains at the given rate. A request that would make it overflow is
// denied, and leaves it as it was.
//
// Capacity requests pass at once when the bucket is empty, then as many as drain. This is "the leaky bucket as a meter"
// of Jonathan S. Turner, New directions in communications (or which way to the information age?), IEEE Communications
// Magazine 24 (10), 1986, which ITU-T I.371 calls the continuous-state leaky bucket. It admits exactly the same requests
// as [TokenBucket] and [GCRA] with the same numbers; the three differ in the state that they keep in Redis.
//
//	Leaky(10, PerSecond(1)) // 10 at once, then one a second
func Leaky(capacity int, drain Rate) Quota { return quota(exact.Leaky, capacity, drain) }

// Shaping returns a leaky bucket that shapes: a queue of capacity requests, the
// one in service included, that is served at the given rate. [Decision.Delay] says
// how long an admitted request waits for its turn, so that requests leave at an
// even pace however they come. A request that finds the queue full is denied.
//
// The Decision comes at once: it is the caller that waits. A request of n units
// takes n turns, and its Delay is that of the first. This is "the leaky bucket as
// a queue" of Andrew S. Tanenbaum, Computer Networks.
//
//	Shaping(10, PerSecond(5)) // one every 200 ms, at most 10 waiting or served
func Shaping(capacity int, drain Rate) Quota { return quota(exact.Shaping, capacity, drain) }

// TokenBucket returns a bucket that holds capacity tokens, starts full and is
// refilled at the given rate. Each unit of cost takes a token; a request that
// does not find enough of them is denied and takes none.
//
// It admits exactly the same requests as [Leaky], seen from the other side: the tokens in the bucket are the room left.
// Redis keeps the tokens and the instant of the last refill. See ATM Forum and IETF usage, for example RFC 2697, section
// 3.
//
//	TokenBucket(100, PerMinute(20)) // 100 at once, then one every 3 seconds
func TokenBucket(capacity int, refill Rate) Quota {
	return quota(exact.TokenBucket, capacity, refill)
}

// GCRA returns the generic cell rate algorithm in its virtual-scheduling form:
// requests are expected at the given rate, each moves the theoretical arrival
// time of the next one, and up to burst of them may come ahead of it.
//
// It admits exactly the same requests as [Leaky], and keeps a single instant, which is the smallest state in Redis: a
// string. When the server's clock steps back, the step counts as used, up to the burst, since an instant alone does not
// tell when it was written. See ITU-T I.371 and the ATM Forum's Traffic Management Specification 4.0, section 4.4.2.
//
//	GCRA(10, PerSecond(5)) // 10 at once, then one every 200 ms
func GCRA(burst int, rate Rate) Quota { return quota(exact.GCRA, burst, rate) }

// FixedWindow returns a limit of n events per window. A window opens with the first
// admitted event of a key, not on the round minute, and closes after its length. Then
// the count starts anew.
//
// It is the cheapest limit and the easiest to explain, and it lets twice n pass
// within one window's length: n at the end of one window and n at the start of
// the next. A window is a whole number of microseconds.
//
// Do not use it for quotas that people pay for. A client that comes late opens the window late and loses the time before
// it, and people learn to send a request early, so that their window ends early. Use [Calendar]: its windows do not
// depend on traffic.
//
//	FixedWindow(100, time.Minute)
func FixedWindow(n int, window time.Duration) Quota {
	return quota(exact.FixedWindow, n, Rate{Events: n, Period: window})
}

// SlidingWindow returns a limit of n events in about any window of the given
// length. It keeps two counters: the events of the current window, and the events of
// the window before, weighted by how much of it the sliding window still covers.
// Windows are aligned to 1970 on the store's clock.
//
// It takes a fraction of the memory of [SlidingLog] and smooths out the double
// burst of [FixedWindow]. It is an estimate, since it assumes that the previous
// window's events came evenly; the weighted part is not rounded. No aligned window admits
// more than n. Another one of that length may admit up to nearly 2n: n at the end of an
// aligned window, and then n more, evenly over the next one. A window is a
// whole number of milliseconds, or of microseconds if n windows' worth of them
// stays below 2^53.
//
// When the store's clock steps back into an earlier window, both counters count in full there, so that no more passes
// than without the step. It has recovered after two windows at the latest.
//
// When the capacity of a named limit is made smaller, the units used fill it at most: the count of the previous window
// may exceed the capacity, as long as its weighted part does not. When the window is made longer, the former one counts
// on until the next admission, so that the RetryAfter of a denial is an estimate.
//
//	SlidingWindow(1000, time.Hour)
func SlidingWindow(n int, window time.Duration) Quota {
	return quota(exact.SlidingWindow, n, Rate{Events: n, Period: window})
}

// SlidingLog returns a limit of n events in any window of the given length,
// exactly: it remembers when each admitted unit passed.
//
// It is the only limit that needs memory in proportion to its numbers: up to n instants for each key, and never more,
// since denied requests are not remembered. n may be at most a million. A window is a whole number of microseconds. One
// check of 10,000 units holds Redis for about a millisecond.
//
// When the window of a named limit is made longer, the remembered instants count on. Instants that have left the shorter
// window may have been forgotten.
//
//	SlidingLog(5, 15*time.Minute) // logins
func SlidingLog(n int, window time.Duration) Quota {
	return quota(exact.SlidingLog, n, Rate{Events: n, Period: window})
}

// Concurrent returns a limit of n at once: a call takes a place and gives it back when its work is done.
// Use it where work is slow rather than frequent: exports, uploads, calls to a partner.
//
// A holder has its place for a lease, which its process renews while the work goes on: see [Limiter.Acquire]. A process
// that has died, or that the store does not hear from, loses its places after exactly the lease. A lease is from 10
// milliseconds to 10 minutes, a whole number of microseconds, and 30 seconds is a good one. n may be at most a million. A
// cost of k takes k places.
//
// A place has to be given back, so [Limiter.Allow], [Limiter.Wait], [Limiter.Charge] and their like do not take it: use
// [Limiter.Acquire] and [Limiter.TryAcquire], or [Limiter.Reserve] for one call with other limits. The waits
// of a Decision assume that no lease is renewed and no place is given back early: see [Decision.RetryAfter]. ResetAfter
// is a whole lease while any place is held.
//
// A lease that was begun before the store's clock stepped back ends when the clock has caught up. If the key is full,
// such a lease is cut to 10 minutes. [Limiter.Reset] gives all places back.
//
// When n of a named limit is made smaller, no holder loses a place, and no place is granted until fewer than n are held.
//
//	Concurrent(20, 30*time.Second)
func Concurrent(n int, lease time.Duration) Places {
	return Places{newLimit(exact.Concurrent, n, Rate{Events: n, Period: lease})}
}

// Unlimited is the limit of a client that has none: a plan without a limit, an exempt tenant. Every verb
// of a [Limiter] allows it at once, without asking the store, with a Remaining of [math.MaxInt]. To
// settle, reset or hold back something under it does nothing. Its name is "unlimited", and [Quota.Named]
// gives it no other one.
//
// It has to be set explicitly. A map returns a nil Limit or a zero Quota for a missing key: these are errors.
// Unlimited must not be changed.
var Unlimited = Quota{limit{exact.Unlimited}}

// quota returns a quota of an algorithm.
func quota(a exact.Algorithm, capacity int, rate Rate) Quota {
	return Quota{newLimit(a, capacity, rate)}
}

// newLimit returns a limit. It reports no errors, since the constructors are used in
// package-level variables and in literals.
func newLimit(a exact.Algorithm, capacity int, rate Rate) limit {
	return limitWith(exact.Params{Algorithm: a, Capacity: capacity, Events: rate.Events, Period: rate.Period})
}
