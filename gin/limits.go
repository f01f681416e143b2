package ratelimit

import (
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
)

// Leaky returns a middleware with a [core.Leaky] limit: capacity requests at once,
// then as many as drain.
//
// Without by, each peer address has a limit of its own: behind a proxy, that is the
// proxy's, so name your proxies to [keyfuncs.IP] there. Several functions are joined by
// [keyfuncs.Join].
//
// Two middlewares with the same numbers and the same key are one limit, and count for
// each other, on whichever routes they are. To keep them apart, add [keyfuncs.Route] to
// the key (keyfuncs.RemoteIP, keyfuncs.Route), or give their limits names: New(l,
// Options{}, PolicyFor(core.Leaky(10, core.PerSecond(1)).Named("search"))).
//
// A limit that makes no sense panics here, not when requests come. The functions below
// work alike.
func Leaky(l *core.Limiter, capacity int, drain core.Rate, by ...keyfuncs.Func) Middleware {
	return New(l, Options{}, PolicyFor(core.Leaky(capacity, drain), by...))
}

// Shaping returns a middleware with a [core.Shaping] limit: requests are held
// and released at an even pace, and denied when capacity of them are waiting or
// being served. A client that goes away while it waits frees its slot: those behind it
// on this server move up. See [core.Reservation.Wait], [Policy] for Undelayed and
// [Options] for Draining.
func Shaping(l *core.Limiter, capacity int, drain core.Rate, by ...keyfuncs.Func) Middleware {
	return New(l, Options{}, PolicyFor(core.Shaping(capacity, drain), by...))
}

// TokenBucket returns a middleware with a [core.TokenBucket] limit: capacity requests at
// once, then as many as refill brings back.
func TokenBucket(l *core.Limiter, capacity int, refill core.Rate, by ...keyfuncs.Func) Middleware {
	return New(l, Options{}, PolicyFor(core.TokenBucket(capacity, refill), by...))
}

// GCRA returns a middleware with a [core.GCRA] limit: burst requests at once, then one in
// each interval of rate.
func GCRA(l *core.Limiter, burst int, rate core.Rate, by ...keyfuncs.Func) Middleware {
	return New(l, Options{}, PolicyFor(core.GCRA(burst, rate), by...))
}

// FixedWindow returns a middleware with a [core.FixedWindow] limit: n requests in each
// window. A window opens with the first request of a key.
func FixedWindow(l *core.Limiter, n int, window time.Duration, by ...keyfuncs.Func) Middleware {
	return New(l, Options{}, PolicyFor(core.FixedWindow(n, window), by...))
}

// SlidingWindow returns a middleware with a [core.SlidingWindow] limit: n requests in a
// window that slides, estimated from the counts of two fixed ones.
func SlidingWindow(l *core.Limiter, n int, window time.Duration, by ...keyfuncs.Func) Middleware {
	return New(l, Options{}, PolicyFor(core.SlidingWindow(n, window), by...))
}

// SlidingLog returns a middleware with a [core.SlidingLog] limit: n requests in any window,
// exactly. The store remembers each of them.
func SlidingLog(l *core.Limiter, n int, window time.Duration, by ...keyfuncs.Func) Middleware {
	return New(l, Options{}, PolicyFor(core.SlidingLog(n, window), by...))
}

// Calendar returns a middleware with a [core.Calendar] limit: n requests in each day, month or other window of a
// calendar, for quotas that people pay for.
//
//	ratelimit.Calendar(limiter, 10_000, core.Monthly("Europe/Berlin"), keyfuncs.User(customer))
func Calendar(l *core.Limiter, n int, period core.Period, by ...keyfuncs.Func) Middleware {
	return New(l, Options{}, PolicyFor(core.Calendar(n, period), by...))
}

// Concurrent returns a middleware with a [core.Concurrent] limit: n requests at once. A request takes a place
// and gives it back when its handler has returned or panicked; if the handler has taken the connection over, when that is
// closed, too. The place is renewed meanwhile. If this process dies, it is free after the lease: 30 seconds is a good
// one. See [Policy] for MaxWait, and [PermitFrom].
func Concurrent(l *core.Limiter, n int, lease time.Duration, by ...keyfuncs.Func) Middleware {
	return New(l, Options{}, PolicyFor(core.Concurrent(n, lease), by...))
}

// Adaptive returns a middleware that has this process serve n() requests at once, and answers all others with 503
// and a short Retry-After. n is asked before each request: let a library decide that measures how much the process can
// do, such as the Limit of an adaptive limiter of failsafe-go. Less than 1 counts as 1. Nothing of it goes to the store,
// and other processes have numbers of their own. Put it outside of the other limiters: a request that there is no room for
// is charged nothing then. [guard.Adaptive] says more. It panics if n is nil.
func Adaptive(n func() int) Middleware { return Use(guard.Adaptive(n)) }

// Layered returns a middleware with a limit for each address, and inside of it one
// for each user, API key or whatever else user.By reads from the request:
//
//	ratelimit.Layered(limiter, ratelimit.Options{},
//		ratelimit.PolicyFor(core.Leaky(100, core.PerSecond(20)).Named("address")),
//		ratelimit.PolicyFor(core.TokenBucket(20, core.PerSecond(5)).Named("user"), keyfuncs.Header("X-API-Key")))
//
// A client chooses its own user name or API key, and may choose another one for each
// request. A limit by that alone limits nobody, and fills the store with keys. A client
// cannot choose its address. Both limits are checked in one call, and a request that the
// limit by address denies leaves nothing behind: a client makes no more keys than the
// limit by address admits requests.
//
// address.By is [keyfuncs.RemoteIP] by default; name your proxies to [keyfuncs.IP].
// A request that has no key of user.By's kind counts by its address there, too, as
// address.By reads it. Make the limit by address large enough for several users behind
// one address.
//
// It panics where [New] does, if user.By is nil, and if the limit by address is a Shadow,
// which protects nothing. A request that address.Skip or a Cost of 0 exempts from the
// limit by address can make as many keys as it likes.
func Layered(l *core.Limiter, options Options, address, user Policy) Middleware {
	return New(l, options, Layers(address, user)...)
}

// FromPolicies returns a middleware with the policies of a set, such as those of a file:
//
//	set, err := policies.Watch(ctx, policies.File("limits.yaml"))
//	…
//	ratelimit.FromPolicies(limiter, set, ratelimit.Options{})
//
// Each request meets the policies that are in force when it begins, as a whole. What the set says of errors comes before the
// options. Lists may be in one of the two only. [guard.Follow] says more. It panics where [New] does, if the set is nil, and if both have lists.
func FromPolicies(l *core.Limiter, set RuleSet, options Options) Middleware {
	return Use(guard.Must(guard.Follow(l, options, set)))
}
