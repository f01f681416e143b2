// Package guard is the engine of every adapter. It turns a request into checks, asks a
// [core.Limiter], and turns the decisions into headers and an answer. It knows the types of
// net/http and no framework.
//
// Programs use an adapter: package nethttp, gin, echo or echo/v5 of this module, or one of the modules grpc, connect and
// caddy. This page holds for all of them. An adapter for another framework is
// written around [Guard.Decide]: examples/fiber in the repository is one. Package guardtest tests it. Package guardrpc is
// for adapters of RPC frameworks.
//
// Errors, panics and log messages begin with "ratelimit:", the name under which programs
// import an adapter.
//
// # Which limits are one
//
// A limit is its key, its algorithm and its numbers: that is all that the servers
// of a fleet can agree on. Two middlewares with the same limit and the same key
// are therefore one limit, wherever they stand, and requests to either count for
// both. Give them names ([core.Limit.Named]), or add [keyfuncs.Route] to the key,
// to keep them apart. A request that meets one limit twice is charged once.
//
// # One middleware, or several inside one another
//
// The policies of one middleware are decided together, in one round trip: all of them are
// charged, or none. Middlewares inside one another decide one after the other: the charge of an
// outer one stays when an inner one denies the request. A client that
// is denied by the limit of a route uses up the limit of the whole server meanwhile. So
// give limits that belong together to one [Guard], and use [Policy].LimitFor and Skip for
// limits that depend on the route. Where they have to stand apart, the outer policy can take back
// its charge by [SettlePolicy].Cost, which is told the status of the inner denial.
//
// # How long a place is held
//
// A request holds its places of a [core.Concurrent] limit while its handler runs. They are renewed meanwhile, and given
// back in the background, once, when the handler has returned, has panicked or has called [runtime.Goexit]. A stream
// holds them until it ends. If the handler has taken the connection over, they are held until that is closed, too. If it
// leaves an error for others to answer, they are given back before the answer.
//
// An [http.TimeoutHandler] around the limiter does not change that: they are held until the handler has really
// returned. Inside of the limiter, it returns before its handler does, and the places are given back then.
//
// A handler runs on if its places are lost, because the store has not heard of this process for the whole lease. See
// [PermitFrom].
//
// # Warnings in the log
//
// [Options].Logger is warned, once each, of mistakes that nothing else shows:
//
//   - Requests come through a proxy, and a policy's key is the default one, or the address
//     that [Options].Lists look up is. All clients of the proxy share one limit, or one
//     entry. Name the proxies to [keyfuncs.IP] or [keyfuncs.Address], or, if clients connect
//     directly, write [keyfuncs.RemoteIP] or keyfuncs.Address() to say that the peer is meant.
//   - [keyfuncs.Route] or [keyfuncs.PathValue] is asked before a router has found the
//     route. Requests of different routes share one limit. Wrap the mux itself or each
//     handler; in chi, use With, or Use in a Group.
//   - A key function of the program's own has found no key in any of its first hundred requests. They all
//     count by address, or by another substitute. Use [keyfuncs.PathValue] for a part of the path, and
//     put the limiter behind the router and the middleware on which the function depends.
//   - Two lines of the program build a limit with the same numbers, the default key and
//     no name on one [core.Limiter]. They count for each other. See above.
//   - A ban by response ([BanPolicy].Strike) has no [core.Concurrent] limit beside it. All
//     requests that come at once are served before the first of them strikes. Add one with
//     the same By.
//   - A ban by address meets one of your own proxies: a peer of a private network, or an address that the
//     trust model of [keyfuncs.IP] believes. It is never struck or banned.
//
// # The answer to the client
//
// Every response carries the fields that [Options].Headers writes, on success too. A denied
// request gets 429 with Retry-After, Cache-Control: no-store, and a problem
// document (RFC 9457) that names the violated policies, or a line of plain text
// if the client prefers that. A call of gRPC, gRPC-Web or Connect is answered in its
// protocol: see [Denial.ServeHTTP]. [Options].Denied answers in your own words.
// Retry-After is missing only when no wait can help, because the cost exceeds the capacity.
//
// The headers are set before the handler runs, so a handler that sets one of them
// itself wins. Nested limiters, of the whole server, a group and a route, add up to
// one list of policies, and single-valued fields tell of the tightest. Around an
// [httputil.ReverseProxy] to a server with limits of its own, [MergeUpstream] makes one
// set of both.
//
// The handler is given the [http.ResponseWriter] as it came, so it can do all that the
// server allows: [http.ResponseController], Flush, Hijack, informational responses. Only
// where a policy has [SettlePolicy].Cost or [BanPolicy].Strike, where the request holds a place, under [Adaptive] and in [MergeUpstream] it
// is wrapped, by a writer that can do the same.
//
// HEAD counts as GET. A CORS preflight is a request like any other. Put CORS middleware
// around the limiter: it answers preflights itself, and denials carry its headers, too. Give
// it [headers.Names] to expose. [Options].ExemptPreflights is for where that cannot be.
//
// # The stages of a request
//
// The files of this package follow the way of a request. A file uses those above it:
//
//	policies  policy.go and its parts, options.go  the words of a program; validate.go finds mistakes in them
//	          event.go                             the report about a request, for observers
//	known     call.go                              the checks of a request, in one call in which each limit is charged once; which of
//	                                               them take places, and which modes answer where the store has not
//	          generation.go                        the state of a Guard until its policies are replaced
//	          reservation.go, context.go           the reservation of a request, and its knowledge from stage to stage
//	          outcomes.go, nested.go               the decisions so far, also those of limiters around this one
//	plan      check.go                             keys, costs and limits become checks; one plain check if there is one fixed limit
//	          plan.go, rules.go                    policies and options become a generation, before requests come
//	settle    settle.go, grow.go                   the real cost, when the request has been served
//	answer    denial.go, verdict.go                header, handler or denial
//	decide    ask.go, places.go                    the store is asked, and the request is held until its turn
//	          degraded.go                          the store has not answered
//	          decide.go                            all of them, for one request
//
// The constructors are in guard.go and adaptive.go.
//
// [httputil.ReverseProxy]: https://pkg.go.dev/net/http/httputil#ReverseProxy
package guard
