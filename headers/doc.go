// Package headers tells the client of an API how much of its limits is left, and when to
// come back.
//
// A [Writer] turns the decisions about a request into header fields. Pick one, or [Join]
// several:
//
//	writer            fields                                        time left is
//	Draft             RateLimit, RateLimit-Policy                   seconds from now
//	Draft7            RateLimit, RateLimit-Policy (dictionary)      seconds from now
//	Draft6            RateLimit-Limit, -Remaining, -Reset, -Policy  seconds from now
//	Legacy            X-RateLimit-Limit, -Remaining, -Reset         seconds from now
//	LegacyEpoch       the same                                      a Unix time
//	GitHub            the same, -Used and -Resource                 a Unix time
//	RateLimitedFor    X-Rate-Limited-For, on a denial only          seconds with fractions
//	DraftPartitioned  the same as Draft, with partition keys        seconds from now
//	LLM               X-RateLimit-*, Anthropic-RateLimit-*          a duration, a time; and Retry-After-Ms
//	None              none
//
// A Writer does not write Retry-After. The middleware does, with the number that
// [RetryAfter] returns.
//
// The drafts are versions of draft-ietf-httpapi-ratelimit-headers, a work in progress that
// has changed its syntax more than once. [Draft] follows the newest published draft, so
// an update of this module may change the bytes on the wire: its changelog says so. The draft
// that it leaves then keeps a Writer with its number, as [Draft7] and [Draft6] have.
//
// # A dialect of your own
//
// Implement [Writer]: one method that sets fields for a list of policies. It may use [RetryAfter] to agree with the field
// of that name, and [Outcome.Validate] to skip policies that no field can carry. The middleware calls it about every
// response that a limit has decided.
//
// # Numbers
//
// This package uses no floating point. It rounds every time up, so that a client that waits
// as long as the fields say is not denied again. It clamps every count to
// 999,999,999,999,999, the largest Integer of RFC 9651.
//
// RateLimit-Policy gives the rate of a limit as q units in w whole seconds: ten per
// 100ms is q=100;w=1, and five per 1.5s is q=10;w=3. The rate is scaled, but never
// rounded to another one. If no whole number of seconds fits, w is left out and q is the
// capacity. The parameter qu names the units unless they are requests: see [Outcome]. The
// vendor parameter weir-burst gives the capacity where it differs from q.
//
// # Several limiters
//
// Limiters that are nested in one server should use one dialect. Where two dialects
// have a field in common, the inner limiter's stays, and the other fields of the outer
// one describe fewer policies: [Draft6] inside of [Draft] leaves RateLimit without the
// descriptions of its policies.
//
// A reverse proxy may have limits, and so may the servers behind it. MergeUpstream of the
// adapters makes one set of fields out of both.
//
// # Field names
//
// Field names are written in the canonical form of net/http. They go out as Ratelimit and
// X-Ratelimit-Limit on HTTP/1.1, and in lower case on HTTP/2 and later. Clients must not
// depend on the case, since field names have none.
//
// Scripts in a browser see these fields only if the server exposes them: see [Names].
package headers
