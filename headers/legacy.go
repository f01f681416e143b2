package headers

import (
	"net/http"
	"time"
)

// Legacy writes the fields that are older than any draft. They describe the tightest
// policy:
//
//	X-RateLimit-Limit: 10
//	X-RateLimit-Remaining: 9
//	X-RateLimit-Reset: 1
//
// Limit is the capacity. Reset is in seconds from now, rounded up. If the request was denied, it is the Retry-After.
// Otherwise, and if no wait can help, it is the time until the key has its full capacity again, which may be later than
// the end of a window: the used units of a [core.SlidingWindow] count into the next window, so for one of a minute Reset
// may be two minutes away. A [core.Concurrent] limit is told only when it has denied the request, with an estimate: it is
// not known when its places will be free.
//
// No standard defines Reset, and services differ: see [LegacyEpoch]. Legacy removes the two more fields of [GitHub],
// since they would describe another policy.
var Legacy Writer = legacy{}

// LegacyEpoch writes the fields of [Legacy] with Reset as a Unix time, in seconds and
// rounded up. It is only as good as the clocks of the client and of this server.
var LegacyEpoch Writer = legacy{epoch: true}

// GitHub writes the fields of [LegacyEpoch] and two more, as the API of GitHub
// does:
//
//	x-ratelimit-limit: 5000
//	x-ratelimit-remaining: 4987
//	x-ratelimit-reset: 1691591363
//	x-ratelimit-used: 13
//	x-ratelimit-resource: core
//
// Used is the capacity less Remaining. Resource is the name of the policy. It is absent if
// the name is empty or not printable ASCII.
var GitHub Writer = legacy{epoch: true, details: true}

const (
	legacyLimit     = "X-Ratelimit-Limit"
	legacyRemaining = "X-Ratelimit-Remaining"
	legacyReset     = "X-Ratelimit-Reset"
	legacyUsed      = "X-Ratelimit-Used"
	legacyResource  = "X-Ratelimit-Resource"
)

type legacy struct {
	epoch   bool // Reset is a Unix time
	details bool // Used and Resource are written
}

// Dialect tells package internal/dialect how the fields are merged.
func (legacy) Dialect() string { return "legacy" }

func (l legacy) Write(h http.Header, policies []Outcome) {
	tight := tightest(policies)
	if tight == nil {
		return
	}
	d := &tight.Decision
	capacity := int64(capacityOf(d.Limit))
	remaining := int64(d.Remaining)

	seconds := secondsUp(reset(d))
	if l.epoch {
		seconds = epochUp(time.Now().Add(reset(d)))
	}
	var number [20]byte
	values := new([3]string)
	values[0] = string(appendInteger(number[:0], capacity))
	values[1] = string(appendInteger(number[:0], remaining))
	values[2] = string(appendInteger(number[:0], seconds))
	h[legacyLimit], h[legacyRemaining], h[legacyReset] = values[0:1:1], values[1:2:2], values[2:3:3]
	if !l.details {
		// A limiter in front may have written them about another policy.
		delete(h, legacyUsed)
		delete(h, legacyResource)
		return
	}
	set(h, legacyUsed, appendInteger(number[:0], capacity-remaining))
	resource := tight.Name
	if !isString(resource) {
		resource = ""
	}
	set(h, legacyResource, []byte(resource))
}

// epochUp returns t as a Unix time in whole seconds, rounded up.
func epochUp(t time.Time) int64 {
	if t.Nanosecond() != 0 {
		return t.Unix() + 1
	}
	return t.Unix()
}
