package dialect

import (
	"net/http"
	"slices"

	"github.com/dunglas/httpsfv"
)

// The fields that only draft 6 has.
const (
	draft6Limit     = "Ratelimit-Limit"
	draft6Remaining = "Ratelimit-Remaining"
	draft6Reset     = "Ratelimit-Reset"
)

// mergeDraft6 takes the numbers of the tighter side, and joins the lists of policies.
func mergeDraft6(own, upstream http.Header) bool {
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
	setList(upstream, rateLimitPolicy, joinQuotas(first, second))
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
	n, ok := count(item.Value)
	return n, err == nil && ok
}

// joinQuotas makes one list of the quotas in several fields. The first of two equal quotas
// stays. A quota without a window is left out, and so is a malformed field.
func joinQuotas(fields ...[]string) []byte {
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
