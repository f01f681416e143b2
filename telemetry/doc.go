// Package telemetry reports to [OpenTelemetry] the decisions of limiters, and the time and calls that they take. Package
// offenders beside it finds the keys that are denied most.
//
// One line switches it on for a middleware of net/http, gin or echo, and another for the stores behind it:
//
//	reporter := telemetry.New(telemetry.Options{})
//	limiter, err := core.Open("redis://localhost:6379", core.WithTrace(reporter.Trace()))
//	limit := ratelimit.New(limiter, ratelimit.Options{Observe: reporter.Observe}, policies...)
//
// It needs the API of OpenTelemetry alone; the SDK, with an exporter, is the program's to
// choose. Without one, nothing is reported. Metrics and spans go to the global
// MeterProvider and TracerProvider, unless [Options] names others.
//
// # Metrics
//
//	ratelimit.decisions            counter, {decision}        policy, algorithm, outcome, error.type, error_mode
//	ratelimit.checks               counter, {check}           policy, algorithm, outcome, error.type
//	ratelimit.listed               counter, {request}         outcome
//	ratelimit.bans                 counter, {ban}             policy, algorithm
//	ratelimit.strikes              counter, {strike}          policy, algorithm
//	ratelimit.near_limit           counter, {decision}        policy, algorithm
//	ratelimit.check.duration       histogram, s               outcome, error.type
//	ratelimit.delay.duration       histogram, s               policy, algorithm
//	ratelimit.wait.duration        histogram, s               policy, algorithm, outcome, error.type
//	ratelimit.settlement.duration  histogram, s               error.type
//	ratelimit.settlement.size      histogram, {unit}          policy, algorithm, direction, error.type
//	ratelimit.denial_cache.hits    counter, {call}
//	ratelimit.places.held          up-down counter, {place}   policy, algorithm
//	ratelimit.places.waiting       up-down counter, {call}    policy, algorithm
//	ratelimit.places.hold.duration histogram, s               policy, algorithm, lease
//	ratelimit.places.renewals      counter, {lease}           lease
//	ratelimit.places.reclaimed     counter, {call}            policy, algorithm
//	ratelimit.leased.units         counter, {unit}            policy, algorithm, fate
//	ratelimit.leased.over          histogram, 1               policy, algorithm
//	ratelimit.leased.tolerance     gauge, 1                   policy, algorithm
//	ratelimit.store.batch.duration histogram, s               error.type, server.address, server.port
//	ratelimit.store.batch.calls    histogram, {call}          server.address, server.port
//	ratelimit.store.batch.checks   histogram, {check}         server.address, server.port
//	ratelimit.store.servers        up-down counter, {server}  breaker.state, server.address, server.port
//
// policy, algorithm, outcome, error_mode, breaker.state, lease and direction are short for
// ratelimit.policy and so on, direction for ratelimit.settlement.direction.
//
// decisions counts each policy's own verdict about each request, by its outcome:
//
//   - allowed and denied;
//   - shadow-allowed and shadow-denied, of a shadow policy;
//   - degraded: this process has let the request pass (see [guard.Fallback]);
//   - error: nothing was decided.
//
// If the store has failed, error.type names the failure ([core.Failure]). error_mode says why the request passed or was
// stopped: fail-open, fail-closed or fallback. It is missing where the policy had no part in that: a shadow, and a policy
// that would have let the request through while another one has stopped it. So requests that go through unchecked have
// the outcome error and the error_mode fail-open, and denials by a fallback have the outcome denied and the error_mode
// fallback.
//
// checks counts the decisions of limiters, with the limit's name for a policy, if [Options.Checks] is set: for programs
// without a middleware. Its outcome is allowed, denied, shadow-allowed, shadow-denied or error. A check that waits is
// counted each time it is decided. Checks that charge nothing, such as a peek, are not counted.
//
// listed counts the requests that [guard.Lists] have decided about: outcome is list-allowed
// or list-denied. They have no decisions, no check.duration and no span.
//
// bans counts the bans that strikes have begun, and strikes the strikes themselves, by the policy of the [core.Ban].
// Denials by a ban are in decisions, with its policy and the outcome denied. Bans by hand, and strikes of shadows, are
// not counted.
//
// near_limit counts requests that have passed and have left less than [Options.NearLimit] of the
// capacity.
//
// check.duration is how long requests have waited for the decisions of their checks, all
// policies together: outcome is allowed, denied, degraded (the request went through, but
// not because the store said so) or error (it was not answered, or answered with 500 or
// 503). delay.duration is how long [core.Shaping] holds admitted requests back, and
// wait.duration how long requests, and callers of [core.Limiter.Wait], have really waited,
// until they were allowed, denied because it would be too late, or gave-up.
//
// settlement.duration is how long it took to correct the costs of requests after they had been served, and
// settlement.size how many units were returned, or charged in addition: direction is returned or charged. A settlement
// that changes nothing does not reach the store and is not reported.
//
// The instruments of places are about [core.Concurrent] limits: how many places this process holds, how many of its calls
// wait for one, for how long places were held, and the renewals of their leases. lease is kept, lost (the lease has
// ended, or a reset has taken the place away) or unanswered (the renewal is tried again). A lost place means that more
// calls may have been at work than the limit allows: alert on it. reclaimed counts calls on Redis that found leases of
// any holder that had ended without their places having been given back.
//
// The instruments of leases are about keys that [core.Lease] decides in this process. leased.units counts the units of
// leases that have ended: fate (ratelimit.leased.fate) is spent, returned or lapsed, and the sum is the units granted.
// leased.over is how much a lease has admitted too much, at most, as a part of the limit's capacity, and leased.tolerance
// the part that was declared. Add leased.over up over the processes that lease the same key.
//
// [Reporter.Trace] reports the store's instruments. Checks that are asked together, such as
// those of a request, are one call, and calls that share a round trip to Redis are a batch.
// denial_cache.hits counts calls that denialcache.New or [core.Lease] has denied from memory. server.address and
// server.port are attributes if [Options.MostServers] allows it. store.servers counts the
// servers that were used, by the state of their breakers: closed, open or half-open. A
// server that has gone for good stays in its last state until the process ends.
//
// # Spans
//
// Within the span of a request that is sampled there are ratelimit.check, for the time of
// its check.duration; ratelimit.wait, for the time that it is held for its turn; and
// ratelimit.settle. They have ratelimit.outcome, ratelimit.policies,
// ratelimit.violated_policies and error.type. A batch has no span, since it serves many
// requests.
//
// The scope of metrics and spans is this package, at the version of the module that the
// program was built with.
//
// # Cardinality
//
// No key, address, user, path or parameter is ever an attribute. Policies are named after
// their limits, so do not name a limit after a tenant. In any case only
// [Options.MostPolicies] policies have attributes of their own; all others are "other".
//
// [OpenTelemetry]: https://opentelemetry.io
package telemetry
