package dialect

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// WaitAsked returns how long the header of a refusal asks its client to wait, or 0 if it does not say. Retry-After (RFC
// 9110, section 10.2.3) is read first, in seconds or as a date: the wait until a date is counted from the Date of the
// response if there is one, so that the clocks need not agree. Without it, the longest t of the policies in RateLimit
// that have nothing left (r=0) counts. Malformed fields are ignored.
func WaitAsked(h http.Header, now time.Time) time.Duration {
	if text := strings.TrimSpace(h.Get("Retry-After")); text != "" {
		if wait, ok := seconds(text); ok {
			return wait
		}
		if at, err := http.ParseTime(text); err == nil {
			if sent, err := http.ParseTime(h.Get("Date")); err == nil {
				now = sent
			}
			return max(0, at.Sub(now))
		}
	}
	list, _ := parsePolicies(h.Values("RateLimit"))
	var longest time.Duration
	for _, p := range list {
		left, isCount := parameter(p.parameters, "r")
		wait, isWait := parameter(p.parameters, "t")
		if isCount && isWait && left == 0 {
			longest = max(longest, inSeconds(wait))
		}
	}
	return longest
}

// seconds reads a whole number of seconds that is not negative.
func seconds(text string) (time.Duration, bool) {
	if text == "" || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		n = math.MaxInt64 // too many digits
	}
	return inSeconds(n), true
}

// inSeconds returns a wait of n seconds, or the longest one that there is.
func inSeconds(n int64) time.Duration {
	return time.Duration(min(n, math.MaxInt64/int64(time.Second))) * time.Second
}
