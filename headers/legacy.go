package headers

import (
	"net/http"
	"time"

	"github.com/weir-go/ratelimit/core"
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
// not known when its places will be free. A [core.Balance] is not told.
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
	if tight := tightest(policies); tight != nil {
		l.write(h, tight.Name, capacityText(tight.Decision.Limit), &tight.Decision)
	}
}

// Prepare returns a Writer that also writes of one policy alone, if there is one. Package internal/dialect calls it.
func (l legacy) Prepare(policies []Outcome) Writer {
	if len(policies) != 1 {
		return l
	}
	p := &policies[0]
	return &loneLegacy{l, p.Name, p.Decision.Limit, capacityText(p.Decision.Limit), kindOf(p.Decision.Limit)}
}

// loneLegacy is prepared for one policy.
type loneLegacy struct {
	legacy

	name     string
	limit    core.Limit
	capacity string // of the limit
	kind     kind   // of the limit
}

// WriteLone writes the decision of the policy. Package internal/dialect calls it.
func (l *loneLegacy) WriteLone(h http.Header, d *core.Decision, _ *[2]string) {
	switch {
	case d.Limit == l.limit && !l.kind.timeless:
		l.write(h, l.name, l.capacity, d)
	case hasReset(d):
		l.write(h, l.name, capacityText(d.Limit), d)
	}
}

// write writes the decision of a policy. capacity is the text of its limit's.
func (l legacy) write(h http.Header, name, capacity string, d *core.Decision) {
	wait := reset(d)
	seconds := secondsUp(wait)
	if l.epoch {
		seconds = epochUp(time.Now().Add(wait))
	}
	var space [40]byte // two numbers in one piece of memory
	digits := appendInteger(space[:0], int64(d.Remaining))
	first := len(digits)
	text := string(appendInteger(digits, seconds))
	values := &[3]string{capacity, text[:first], text[first:]}
	h[legacyLimit], h[legacyRemaining], h[legacyReset] = values[0:1:1], values[1:2:2], values[2:3:3]
	if !l.details {
		if len(h) > 3 { // a limiter in front may have written them about another policy
			delete(h, legacyUsed)
			delete(h, legacyResource)
		}
		return
	}
	set(h, legacyUsed, appendInteger(nil, int64(capacityOf(d.Limit))-int64(d.Remaining)))
	if !isString(name) {
		name = ""
	}
	set(h, legacyResource, []byte(name))
}

// capacityText returns the capacity of a limit as a field has it.
func capacityText(limit core.Limit) string {
	return string(appendInteger(nil, int64(capacityOf(limit))))
}

// epochUp returns t as a Unix time in whole seconds, rounded up.
func epochUp(t time.Time) int64 {
	if t.Nanosecond() != 0 {
		return t.Unix() + 1
	}
	return t.Unix()
}
