// Package ratelimit limits the requests that reach an [http.Handler], for a whole
// fleet of servers at once.
//
//	limiter, err := core.Open("redis://localhost:6379")
//	…
//	limit := ratelimit.Leaky(limiter, 10, core.PerSecond(1))
//	http.ListenAndServe(":8080", limit(mux)) // 10 at once, then one a second, for each address
//
// One function for each algorithm covers the usual case: one limit, for each
// address or another key ([Leaky], [Shaping], [TokenBucket],
// [GCRA], [FixedWindow], [SlidingWindow], [SlidingLog], [Calendar], [Concurrent]). [New] does everything
// else: several policies, decided together in one round trip, limits and costs
// that depend on the request, header dialects, the answer while Redis is down.
// [guard.Layers] puts a limit by address around one by a key that the client itself chooses.
//
// It works with everything that takes a func(http.Handler) http.Handler, such as chi's
// Use, and With where [keyfuncs.Route] is to be known. Packages gin, echo and echo/v5
// beside this one have the same names for those frameworks.
//
// Package guard is the engine of all of them. Its documentation says which limits are one,
// and has the warnings in the log and the answers to the client. Package outbound keeps calls to
// another service's API within a limit.
//
// Handlers find the decisions with [guard.OutcomesFrom], given the context of the request.
package ratelimit

//go:generate go run github.com/weir-go/ratelimit/internal/adapters
