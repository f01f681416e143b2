package headers

import (
	"net/http"
	"strconv"
	"time"
)

// RateLimitedFor writes X-Rate-Limited-For on a denial: the seconds, with a fraction, until
// the request would pass. It is for clients that can wait for less than the whole
// seconds of Retry-After:
//
//	X-Rate-Limited-For: 0.779
//
// The number is rounded up to a millisecond, so that it is never too short, and has no
// zeros at its end. The field is absent if the request was not denied, or if no wait can
// help.
var RateLimitedFor Writer = rateLimitedFor{}

type rateLimitedFor struct{}

func (rateLimitedFor) Write(h http.Header, policies []Outcome) {
	if len(policies) == 0 {
		return
	}
	var buffer [24]byte
	b := buffer[:0]
	if d, ok := longestWait(policies); ok {
		b = appendSeconds(b, d)
	}
	set(h, "X-Rate-Limited-For", b)
}

// appendSeconds appends d in seconds, rounded up to a millisecond and without
// trailing zeros. It must be positive.
func appendSeconds(b []byte, d time.Duration) []byte {
	milliseconds := int64((d-1)/time.Millisecond) + 1
	b = strconv.AppendInt(b, milliseconds/1000, 10)
	fraction := milliseconds % 1000
	if fraction == 0 {
		return b
	}
	b = append(b, '.', byte('0'+fraction/100), byte('0'+fraction/10%10), byte('0'+fraction%10))
	for b[len(b)-1] == '0' {
		b = b[:len(b)-1]
	}
	return b
}
