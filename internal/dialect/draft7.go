package dialect

import (
	"net/http"
	"strings"

	"github.com/dunglas/httpsfv"
)

// mergeDraft7 takes both fields of the tighter side.
func mergeDraft7(own, upstream http.Header) bool {
	tighter, ok := isUpstreamTighter(own, upstream, remainingOfDraft7)
	switch {
	case tighter:
		// A client that reads one line only must see all of it.
		upstream[rateLimit] = []string{strings.Join(upstream[rateLimit], ", ")}
		setList(upstream, rateLimitPolicy, joinQuotas(upstream[rateLimitPolicy]))
	case ok:
		replace(own, upstream, rateLimit, rateLimitPolicy)
	}
	return ok
}

// remainingOfDraft7 returns the member "remaining" of a Dictionary that has all three.
func remainingOfDraft7(h http.Header) (remaining int64, ok bool) {
	if isTooLong(h[rateLimit]) {
		return 0, false
	}
	members, err := httpsfv.UnmarshalDictionary(h[rateLimit])
	if err != nil {
		return 0, false
	}
	for _, key := range []string{"limit", "reset", "remaining"} {
		member, _ := members.Get(key)
		item, _ := member.(httpsfv.Item)
		if remaining, ok = count(item.Value); !ok {
			return 0, false
		}
	}
	return remaining, true
}
