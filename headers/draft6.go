package headers

import (
	"net/http"
	"slices"

	"github.com/dunglas/httpsfv"

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

func (draft6) merge(own, upstream http.Header) bool {
	tighter, ok := isUpstreamTighter(own, upstream, remainingOfDraft6)
	if !ok {
		return false
	}
	first, second := own[rateLimitPolicy], upstream[rateLimitPolicy]
	if tighter {
		first, second = second, first
	} else {
		replace(own, upstream, draft6Remaining, draft6Limit, draft6Reset)
	}
	set(upstream, rateLimitPolicy, joinQuotaPolicies(first, second))
	return true
}

func remainingOfDraft6(h http.Header) (int64, bool) {
	return remainingIn(h, itemCount, draft6Remaining, draft6Limit, draft6Reset)
}

// itemCount returns the count in a field that is an Item.
func itemCount(lines []string) (int64, bool) {
	if isTooLong(lines) {
		return 0, false
	}
	item, err := httpsfv.UnmarshalItem(lines)
	n, isCount := count(item.Value)
	return n, err == nil && isCount
}

// joinQuotaPolicies makes one list of several, in which each quota comes once and has
// its window. A list that is malformed is left out.
func joinQuotaPolicies(fields ...[]string) []byte {
	var joined []byte
	var taken []int64
	for _, lines := range fields {
		list, ok := parseList(lines)
		if !ok || slices.ContainsFunc(list, isNoNumber) {
			continue
		}
		for _, item := range list {
			q, isCount := count(item.Value)
			w, isWindow := parameter(item.Params, "w")
			if !isCount || !isWindow || w == 0 || slices.Contains(taken, q) {
				continue
			}
			taken = append(taken, q)
			joined = appendItem(joined, q, item.Params)
		}
	}
	return joined
}

func isNoNumber(item httpsfv.Item) bool {
	switch item.Value.(type) {
	case int64, float64:
		return false
	}
	return true
}
