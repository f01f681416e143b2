package headers

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// WaitAsked returns how long the header of a refusal asks its client to wait, or 0 if it
// does not say. Retry-After (RFC 9110, section 10.2.3) is read first, in seconds or as a
// date: the wait until a date is counted from the Date of the response where there is
// one, so that the clocks need not agree. Without it, the longest t of the policies in
// RateLimit that have nothing left (r=0) counts. What is malformed says nothing.
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
	list, ok := parseList(h.Values("RateLimit"), isNameStart)
	if !ok {
		return 0
	}
	var longest time.Duration
	for i := range list {
		if left, ok := parseCount(list[i].parameter("r")); !ok || left != 0 {
			continue
		}
		if wait, ok := seconds(list[i].parameter("t")); ok {
			longest = max(longest, wait)
		}
	}
	return longest
}

// seconds reads a whole number of seconds that is not negative.
func seconds(text string) (time.Duration, bool) {
	if text == "" || lenOf(text, isDigit) != len(text) {
		return 0, false
	}
	const most = math.MaxInt64 / int64(time.Second)
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n > most {
		n = most // so many digits
	}
	return time.Duration(n) * time.Second, true
}

// parameter returns the bare item of a parameter, as it is serialised, or nothing if
// there is none.
func (m *member) parameter(key string) (value string) {
	rest := m.parameters
	for strings.HasPrefix(rest, ";") {
		var name string
		name, rest = cutKey(rest[1:])
		item := "?1"
		if strings.HasPrefix(rest, "=") {
			item, rest, _ = cutBareItem(rest[1:])
		}
		if name == key {
			value = item // the last one counts
		}
	}
	return value
}
