package headers

import (
	"net/http"

	"github.com/weir-go/ratelimit/core"
)

// Draft6 writes the fields of draft-ietf-httpapi-ratelimit-headers-06, which
// many clients still read:
//
//	RateLimit-Limit: 10
//	RateLimit-Remaining: 9
//	RateLimit-Reset: 1
//	RateLimit-Policy: 1;w=1;weir-burst=10, 1000;w=86400
//
// The first three describe the tightest policy, with the numbers of [Draft7]. RateLimit-Policy lists all policies except
// two kinds: those with a rate that does not fit whole seconds, and those with the same quota as another policy, since
// this draft forbids equal quotas. Of policies with one quota the tightest policy of the response is listed, or else the
// first one. A [core.Concurrent] limit is told only when it has denied the request, since it is not known when its places
// will be free, and a [core.Balance] is not told.
var Draft6 Writer = draft6{}

type draft6 struct{}

// Dialect tells package internal/dialect how the fields are merged.
func (draft6) Dialect() string { return "draft 6" }

const (
	draft6Limit     = "Ratelimit-Limit"
	draft6Remaining = "Ratelimit-Remaining"
	draft6Reset     = "Ratelimit-Reset"
)

func (draft6) Write(h http.Header, policies []Outcome) {
	tight := tightest(policies)
	if tight == nil {
		return
	}
	d := &tight.Decision

	var number [20]byte
	set(h, draft6Limit, appendInteger(number[:0], int64(capacityOf(d.Limit))))
	set(h, draft6Remaining, appendInteger(number[:0], int64(d.Remaining)))
	set(h, draft6Reset, appendInteger(number[:0], secondsUp(reset(d))))

	b := make([]byte, 0, 128)
	for i := range policies {
		limit := policies[i].Decision.Limit
		q, w := quota(limit)
		if w == 0 || isQuotaTaken(q, i, policies, tight) {
			continue
		}
		b = appendQuotaPolicy(appendComma(b), limit, q, w)
	}
	set(h, rateLimitPolicy, b)
}

// isQuotaTaken reports whether the list has q, the quota of policies[i], from another policy:
// the tightest one, or one that comes before.
func isQuotaTaken(q int64, i int, policies []Outcome, tight *Outcome) bool {
	if &policies[i] == tight {
		return false
	}
	for j := range policies {
		if j >= i && &policies[j] != tight {
			continue
		}
		if other, w := quota(policies[j].Decision.Limit); w != 0 && other == q {
			return true
		}
	}
	return false
}

// appendQuotaPolicy appends a quota policy as drafts 6 and 7 write it.
func appendQuotaPolicy(b []byte, limit core.Limit, q, w int64) []byte {
	b = appendInteger(b, q)
	b = appendParameter(b, "w", w)
	return appendBurst(b, limit, q)
}
