package headers

import (
	"net/http"

	"github.com/weir-go/ratelimit/core"
)

// Draft11 writes the fields of draft-ietf-httpapi-ratelimit-headers-11, which
// carry any number of policies:
//
//	RateLimit-Policy: "burst";q=1;w=1;weir-burst=10, "daily";q=1000;w=86400
//	RateLimit: "burst";r=9;t=9, "daily";r=640;t=55296
//
// RateLimit-Policy describes each policy: q units in w seconds, and weir-burst
// at once where that differs from q. RateLimit says what is left of it now:
//
//   - r is Remaining;
//   - t is the time in which the client should use no more than r. While r is
//     being given out no faster than the policy's pace, nobody is refused, so t
//     is r divided by that pace, and no less than the time until there is one
//     more. Of a policy that refused the request, t is the time after which it
//     would pass; it is absent when no wait can help. That is never longer than
//     the Retry-After of the response.
//
// A policy whose name is not printable ASCII is left out, as no field can carry
// it.
var Draft11 Writer = draft11{}

type draft11 struct{}

const (
	rateLimit       = "Ratelimit"
	rateLimitPolicy = "Ratelimit-Policy"
	// burst is the parameter for a capacity that differs from the quota.
	burst = "weir-burst"
)

func (draft11) Write(h http.Header, policies []Policy) {
	if len(policies) == 0 {
		return
	}
	quotas := make([]byte, 0, 256)
	limits := make([]byte, 0, 256)
	for i := range policies {
		name, d := policies[i].Name, &policies[i].Decision
		if !isString(name) {
			continue
		}

		quotas = appendString(appendComma(quotas), name)
		q, w := quota(d.Limit)
		quotas = appendParameter(quotas, "q", q)
		if w != 0 {
			quotas = appendParameter(quotas, "w", w)
		}
		quotas = appendBurst(quotas, d.Limit, q)

		limits = appendString(appendComma(limits), name)
		limits = appendParameter(limits, "r", int64(d.Remaining))
		if t, ok := effectiveWindow(d); ok {
			limits = appendParameter(limits, "t", t)
		}
	}
	set(h, rateLimitPolicy, quotas)
	set(h, rateLimit, limits)
}

// effectiveWindow returns the seconds in which the client should use no more
// than what is left, or false if they cannot be told.
func effectiveWindow(d *core.Decision) (seconds int64, ok bool) {
	if !d.Allowed {
		return secondsUp(wait(d)), d.RetryAfter != core.Never
	}
	return max(secondsUp(d.NextAfter), secondsFor(d.Remaining, d.Limit)), true
}

// appendBurst appends the capacity of the limit, if it differs from q.
func appendBurst(b []byte, limit core.Limit, q int64) []byte {
	capacity := clamp(int64(limit.Capacity()))
	if capacity == q {
		return b
	}
	return appendParameter(b, burst, capacity)
}
