package dialect

import (
	"net/http"
	"strconv"
	"strings"
)

// The fields of [headers.Legacy], and the further ones of [headers.GitHub].
//
// [headers.Legacy]: https://pkg.go.dev/github.com/weir-go/ratelimit/headers#Legacy
// [headers.GitHub]: https://pkg.go.dev/github.com/weir-go/ratelimit/headers#GitHub
const (
	legacyLimit     = "X-Ratelimit-Limit"
	legacyRemaining = "X-Ratelimit-Remaining"
	legacyReset     = "X-Ratelimit-Reset"
	legacyUsed      = "X-Ratelimit-Used"
	legacyResource  = "X-Ratelimit-Resource"
)

// mergeLegacy takes all fields of the tighter side.
func mergeLegacy(own, upstream http.Header) bool {
	tighter, ok := isUpstreamTighter(own, upstream, remainingOfLegacy)
	if ok && !tighter {
		replace(own, upstream, legacyRemaining, legacyLimit, legacyReset, legacyUsed, legacyResource)
	}
	return ok
}

func remainingOfLegacy(h http.Header) (int64, bool) {
	if len(h[legacyResource]) > 1 {
		return 0, false
	}
	return remainingIn(h, plainCount, legacyRemaining, legacyLimit, legacyReset, legacyUsed)
}

// plainCount returns the count in a field that holds nothing but its digits.
func plainCount(lines []string) (int64, bool) {
	if len(lines) != 1 {
		return 0, false
	}
	n, err := strconv.ParseUint(strings.Trim(lines[0], " \t"), 10, 64) // which takes no sign
	return int64(n), err == nil && n <= largest
}
