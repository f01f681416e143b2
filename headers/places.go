package headers

import "github.com/weir-go/ratelimit/core"

// hasReset reports whether a policy can tell when to come back, as single-valued fields have to: a [core.Concurrent]
// limit tells it only in a denial, by its estimate.
func hasReset(d *core.Decision) bool {
	return !kindOf(d.Limit).holds || !d.Allowed && d.RetryAfter != core.Never
}
