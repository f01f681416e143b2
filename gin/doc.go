// Package ratelimit limits the requests that reach gin handlers, for a whole fleet
// of servers at once.
//
//	limiter, err := core.Open("redis://localhost:6379")
//	…
//	router := gin.New()
//	router.Use(ratelimit.Leaky(limiter, 10, core.PerSecond(1))) // 10 at once, then one a second, for each address
//
// One function for each algorithm covers the usual case: [Leaky], [Shaping], [TokenBucket], [GCRA], [FixedWindow], [SlidingWindow],
// [SlidingLog], [Calendar], [Concurrent]. [New] does everything else.
//
// It has the names of package nethttp of this module, and gives the same status, headers,
// body, route and key for the same request. A denied request is aborted, so later handlers
// do not run. Package guard is the engine of both: its documentation says which limits are
// one, and has the warnings in the log and the answers to the client.
//
// gin's own idea of the client's address is not used, unless it is asked for by
// [ClientIP]: an engine that is not told which proxies to trust believes each
// X-Forwarded-For. Name the proxies to [keyfuncs.IP] instead.
//
// A handler that leaves an error in gin.Context's Errors, and writes nothing, may have it
// answered further out. SettlePolicy.Cost is then told the status that the client gets, when
// that is set, and not the bytes of it. If there is no answer, or a middleware further out gives
// it on a writer that it has put back in gin.Context's place, Settle is told when the
// request ends: with Served.Unanswered, and the status that the handler has set, or 500.
//
// Handlers find the decisions with [guard.OutcomesFrom], given the context of
// gin.Context's Request.
package ratelimit

//go:generate go run github.com/weir-go/ratelimit/internal/adapters
