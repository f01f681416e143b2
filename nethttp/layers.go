package ratelimit

import (
	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/keyfuncs"
)

// Layered returns a middleware with a limit for each address, and inside of it one
// for each user, API key or whatever else user.By reads from the request:
//
//	ratelimit.Layered(limiter, ratelimit.Options{},
//		ratelimit.PolicyFor(core.Leaky(100, core.PerSecond(20)).Named("address")),
//		ratelimit.PolicyFor(core.TokenBucket(20, core.PerSecond(5)).Named("user"), keyfuncs.Header("X-API-Key")))
//
// A limit by something that the client chooses does not limit the client, who
// chooses something else for each request, and has the store keep all of it. The
// address is what he cannot choose. Both are asked in one question, which leaves
// nothing behind if the address is refused: a client makes no more keys than his
// address may make requests.
//
// address.By is [keyfuncs.RemoteIP] by default; name your proxies to [keyfuncs.IP].
// A request without a key of user.By's kind has its address for one, as address.By
// reads it. Give the address what several users behind one address need.
//
// It panics where [New] does, if user.By is nil, and if the limit by address is
// a Shadow, which protects nothing. Do not exempt from it by Skip, or by a Cost of
// 0, what you would not exempt altogether.
func Layered(l *core.Limiter, options Options, address, user Policy) Middleware {
	return New(l, options, Layers(address, user)...)
}

// Layers returns the policies of [Layered], for [New]: where there are more of
// them, and for the adapters of other frameworks. It panics if user.By is nil, and
// if address.Shadow is set.
func Layers(address, user Policy) []Policy {
	if user.By == nil {
		panic("ratelimit: Layers: the inner policy has no By, so it would be by address, too")
	}
	if address.Shadow {
		panic("ratelimit: Layers: the limit by address is a shadow, which protects nothing")
	}
	by := address.By
	if by == nil {
		by = keyfuncs.RemoteIP
	}
	user.By = keyfuncs.FirstOf(user.By, by)
	return []Policy{address, user}
}
