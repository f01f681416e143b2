// Package headers tells the client where it stands: how much is left, and when
// to come back.
//
// A [Writer] turns what the policies of a request decided into header fields.
// Pick one, or [Join] several:
//
//	writer            fields                                        time left is
//	Draft             RateLimit, RateLimit-Policy                   seconds from now
//	Draft11           the same; Draft is the newest published one   seconds from now
//	Draft7            RateLimit, RateLimit-Policy (dictionary)      seconds from now
//	Draft6            RateLimit-Limit, -Remaining, -Reset, -Policy  seconds from now
//	Legacy            X-RateLimit-Limit, -Remaining, -Reset         seconds from now
//	LegacyEpoch       the same                                      a Unix time
//	GitHub            the same, -Used and -Resource                 a Unix time
//	RateLimitedFor    X-Rate-Limited-For, on a refusal only         seconds with fractions
//	DraftPartitioned  those of Draft, with partition keys           seconds from now
//	None              none
//
// Retry-After is no Writer's business: whoever refuses the request sends it,
// with the number that [RetryAfter] gives.
//
// The drafts are those of draft-ietf-httpapi-ratelimit-headers, a work in
// progress that has changed its syntax more than once and will do so again.
// [Draft] follows the newest published one, so an update of this module may
// change the bytes on the wire; whoever has clients that depend on them names
// the number, as in [Draft11].
//
// # Numbers
//
// Nothing here uses floating point. Every time is rounded up, so that a client
// who waits as long as it is told is not refused again. A count is clamped to
// 999,999,999,999,999, the largest Integer of RFC 9651.
//
// RateLimit-Policy gives the pace of a limit as q units in w whole seconds: ten per
// 100ms is q=100;w=1, and five per 1.5s is q=10;w=3. The pace is scaled but never
// rounded to another one; where it cannot be said in whole seconds, w is left out and q
// is the capacity. What the units are, unless they are requests, is in qu: see [Policy]. A
// capacity that differs from q, as that of a bucket may, is the vendor parameter
// weir-burst.
//
// # Several limiters
//
// Limiters that are nested in one server should speak one dialect. Where two dialects
// have a field in common, the inner limiter's stays, and what is left of the outer
// one's tells of fewer policies: [Draft6] inside of [Draft] leaves RateLimit without the
// descriptions of its policies.
//
// A reverse proxy may have limits, and so may the servers behind it. MergeUpstream of the
// adapters makes one set of fields out of both.
//
// # Field names
//
// Field names are written in the canonical form of net/http. They go out as
// Ratelimit and X-Ratelimit-Limit on HTTP/1.1, and in lower case on HTTP/2 and
// later; clients must not care, as field names have no case.
//
// Scripts in a browser see these fields only if the server exposes them: see
// [Names].
package headers
