package dialect

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// WaitAsked returns how long the header of a refusal asks its client to wait, or 0 if it does not say. The first of these counts that is there and well
// formed:
//
//   - Retry-After-Ms in milliseconds, as OpenAI's and Anthropic's SDKs read it, if it is above 0;
//   - Retry-After (RFC 9110, section 10.2.3) in seconds, or as a date: the wait until a date is counted from the Date of the
//     response if there is one, so that the clocks need not agree;
//   - the longest t of the policies in RateLimit that have nothing left (r=0), and the longest reset of the counts of OpenAI and Anthropic, such as
//     X-RateLimit-Reset-Tokens and Anthropic-RateLimit-Tokens-Reset, that have 0 remaining.
func WaitAsked(h http.Header, now time.Time) time.Duration {
	if sent, err := http.ParseTime(h.Get("Date")); err == nil {
		now = sent
	}
	if wait, ok := decimal(strings.TrimSpace(h.Get("Retry-After-Ms")), time.Millisecond); ok && wait > 0 {
		return wait
	}
	if text := strings.TrimSpace(h.Get("Retry-After")); text != "" {
		if wait, ok := seconds(text); ok {
			return wait
		}
		if at, err := http.ParseTime(text); err == nil {
			return max(0, at.Sub(now))
		}
	}
	list, _ := parsePolicies(h.Values("RateLimit"))
	longest := resetOfUsedUp(h, now)
	for _, p := range list {
		left, isCount := parameter(p.parameters, "r")
		wait, isWait := parameter(p.parameters, "t")
		if isCount && isWait && left == 0 {
			longest = max(longest, inSeconds(wait))
		}
	}
	return longest
}

// resetOfUsedUp returns the longest wait until a count of OpenAI or Anthropic that has nothing left begins anew.
func resetOfUsedUp(h http.Header, now time.Time) (longest time.Duration) {
	for name, values := range h {
		if len(values) != 1 || strings.TrimSpace(values[0]) != "0" {
			continue
		}
		if unit, is := strings.CutPrefix(name, "X-Ratelimit-Remaining-"); is {
			longest = max(longest, untilReset(h.Get("X-Ratelimit-Reset-"+unit), now))
		} else if of, is := strings.CutSuffix(name, "-Remaining"); is && strings.HasPrefix(of, "Anthropic-Ratelimit-") {
			longest = max(longest, untilReset(h.Get(of+"-Reset"), now))
		}
	}
	return longest
}

// untilReset reads a time until a reset: a duration such as 6m0s, whole seconds, or an instant of RFC 3339. It returns 0 for any other text.
func untilReset(text string, now time.Time) time.Duration {
	text = strings.TrimSpace(text)
	if wait, ok := seconds(text); ok {
		return wait
	}
	if wait, err := time.ParseDuration(text); err == nil {
		return max(0, wait)
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}

// decimal reads a number of units that is not negative, and may have a fraction, which is rounded up.
func decimal(text string, unit time.Duration) (time.Duration, bool) {
	if text == "" || strings.Trim(text, "0123456789.") != "" {
		return 0, false
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, false
	}
	return time.Duration(min(math.Ceil(n*float64(unit)), math.MaxInt64/2)), true
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
