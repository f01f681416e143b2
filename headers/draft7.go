package headers

import (
	"net/http"
)

// Draft7 writes the fields of draft-ietf-httpapi-ratelimit-headers-07, the only
// one of its syntax:
//
//	RateLimit-Policy: 1;w=1;weir-burst=10
//	RateLimit: limit=10, remaining=9, reset=1
//
// There is room for one policy, which is the tightest. Its limit is the capacity, so that
// remaining never exceeds it. If the request was denied, reset is the Retry-After in
// seconds, as this draft asks. Otherwise, and if no wait can help, it is the time until the
// key has its full capacity again. RateLimit-Policy is absent if the rate does not fit
// whole seconds, since this draft requires w. A [core.Concurrent] limit is told only when it has denied the request, and a [core.Balance] never.
var Draft7 Writer = draft7{}

type draft7 struct{}

// Dialect tells package internal/dialect how the fields are merged.
func (draft7) Dialect() string { return "draft 7" }

func (draft7) Write(h http.Header, policies []Outcome) {
	tight := tightest(policies)
	if tight == nil {
		return
	}
	d := &tight.Decision

	b := make([]byte, 0, 128)
	b = append(b, "limit="...)
	b = appendInteger(b, int64(capacityOf(d.Limit)))
	b = append(b, ", remaining="...)
	b = appendInteger(b, int64(d.Remaining))
	b = append(b, ", reset="...)
	b = appendInteger(b, secondsUp(reset(d)))
	set(h, rateLimit, b)

	b = b[:0]
	if q, w := quota(d.Limit); w != 0 {
		b = appendQuotaPolicy(b, d.Limit, q, w)
	}
	set(h, rateLimitPolicy, b)
}
