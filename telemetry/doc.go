// Package telemetry reports to [OpenTelemetry] what limiters decide and what that takes,
// and finds the keys that are refused most.
//
// One line switches it on for a middleware of net/http, gin or echo, and another for what
// happens behind it:
//
//	reporter := telemetry.New(telemetry.Options{})
//	limiter, err := core.Open("redis://localhost:6379", core.WithTrace(reporter.Trace()))
//	limit := ratelimit.New(limiter, ratelimit.Options{Observe: reporter.Observe}, policies...)
//
// It needs the API of OpenTelemetry alone; the SDK, with an exporter, is the program's to
// choose. Without one, nothing is reported.
//
// # Metrics
//
//	ratelimit.decisions            counter, {decision}     policy, algorithm, outcome, error.type, error_mode
//	ratelimit.near_limit           counter, {decision}     policy, algorithm
//	ratelimit.question.duration    histogram, s            operation, outcome, error.type
//	ratelimit.delay.duration       histogram, s            policy, algorithm
//	ratelimit.wait.duration        histogram, s            policy, algorithm, outcome, error.type
//	ratelimit.settlement.size      histogram, {unit}       policy, algorithm, direction, error.type
//	ratelimit.denial_cache.hits    counter, {question}
//	ratelimit.store.call.duration  histogram, s            error.type, server.address, server.port
//	ratelimit.store.call.questions histogram, {question}   server.address, server.port
//	ratelimit.store.call.checks    histogram, {check}      server.address, server.port
//	ratelimit.store.servers        up-down counter, {server}  breaker.state, server.address, server.port
//
// decisions counts each policy's own verdict about each request, by its
// ratelimit.outcome: allowed, refused, shadow-allowed and shadow-refused; degraded, if it
// was this process that has let the request pass (see [ratelimit.Fallback]); and error, if
// nothing was decided. Where the store has failed, error.type says how ([core.Failure]),
// and ratelimit.error_mode by what it passed or was stopped: fail-open, fail-closed or
// fallback. It is missing where the policy had no part in that: a shadow, and one that
// would have let the request through which another has stopped. So what goes through
// unasked is outcome error with error_mode fail-open, and what a fallback refuses is
// outcome refused with error_mode fallback.
//
// near_limit counts requests that have passed and have left less than [Options.NearLimit] of the
// capacity.
//
// question.duration is how long requests have waited for their decisions, all policies
// together: outcome is allowed, refused, degraded (it went through, but not because the
// store said so) or error (it was not answered, or answered with 500 or 503).
// ratelimit.operation is decide, or settle for what was corrected after the request.
// delay.duration is how long [core.Shaping] holds admitted requests back, and
// wait.duration how long requests, and callers of [core.Limiter.Wait], have really
// waited, until they were allowed, refused because it would be too late, or gave-up.
// settlement.size is how many units were returned, or charged in addition.
//
// The store's are told by [Reporter.Trace]. A call is a round trip to Redis, in which
// questions travel together; server.address and server.port are told if
// [Options.MostServers] allows it. store.servers counts the servers that were met, by
// whether they are asked: ratelimit.breaker.state is closed (they are), open or half-open.
// A server that has gone for good stays in its last state until the process ends.
//
// # Cardinality
//
// No key, address, user, path or parameter is ever an attribute. Policies are named after
// their limits, so do not name a limit after a tenant; whatever the names are, no more than
// [Options.MostPolicies] are told apart, and the others are one, "other".
//
// [OpenTelemetry]: https://opentelemetry.io
package telemetry
