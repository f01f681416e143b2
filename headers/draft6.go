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
// The first three are about the tightest policy, with the numbers of [Draft7].
// RateLimit-Policy lists all policies, less those that it has no way to tell:
// where the pace is not a matter of whole seconds, and where another policy has
// the same quota, which this draft forbids. Of those, the tightest or else the
// first one stays.
var Draft6 Writer = draft6{}

type draft6 struct{}

// Dialect tells package internal/dialect how the fields are merged.
func (draft6) Dialect() string { return "draft 6" }

const (
	draft6Limit     = "Ratelimit-Limit"
	draft6Remaining = "Ratelimit-Remaining"
	draft6Reset     = "Ratelimit-Reset"
)

func (draft6) Write(h http.Header, policies []Policy) {
	if len(policies) == 0 {
		return
	}
	tight := tightest(policies)
	d := &tight.Decision

	var number [20]byte
	set(h, draft6Limit, appendInteger(number[:0], int64(d.Limit.Capacity())))
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

// isQuotaTaken reports whether q, the quota of policies[i], is to be reported of
// another policy: of the tightest one, or of one that comes before.
func isQuotaTaken(q int64, i int, policies []Policy, tight *Policy) bool {
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
