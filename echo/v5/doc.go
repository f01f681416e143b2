// Package ratelimit limits the requests that reach handlers of echo v5, for a whole
// fleet of servers at once.
//
//	limiter, err := core.Open("redis://localhost:6379")
//	…
//	e := echo.New()
//	e.Use(ratelimit.Leaky(limiter, 10, core.PerSecond(1))) // 10 at once, then one a second, for each address
//
// One function for each algorithm covers the usual case: [Leaky], [Shaping], [TokenBucket], [GCRA], [FixedWindow], [SlidingWindow],
// [SlidingLog], [Calendar], [Concurrent]. [New] does everything else.
//
// It has the names of package nethttp of this module, and gives the same status, headers,
// body, route and key for the same request. Package guard is the engine of both: its
// documentation says which limits are one, and has the warnings in the log and the answers to the client.
//
// A denied request is returned as a [ProblemError] that echo's error handler renders
// as the problem document, as it renders other errors: indented where echo indents, and always as
// JSON. An error handler of your own finds it by [errors.As].
// Only where nothing but the usual answer is understood (gRPC and Connect), or
// Options.Denied answers, the middleware has written the answer, and returns nil.
//
// echo's own RealIP is not used, unless it is asked for by [ClientIP]. Name the
// proxies to [keyfuncs.IP] instead.
//
// A handler that returns an error has it rendered further out. SettlePolicy.Cost is then
// told the status that the client gets, when that response begins, and not the bytes of
// it. If a middleware swallows the error, or answers it where neither echo's response nor its
// writer notices, Settle is told when the request ends: with Served.Unanswered, and the
// error's own status.
//
// Use the middleware with Use, not with Pre: before routing there is no route.
// Handlers find the decisions with [guard.OutcomesFrom], given the context of
// echo.Context's Request.
package ratelimit

//go:generate go run github.com/weir-go/ratelimit/internal/adapters
