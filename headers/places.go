package headers

import (
	"time"

	"github.com/weir-go/ratelimit/core"
)

// holds reports whether a limit has places, which are free when their holders give them back. Nobody knows when that
// is.
func holds(limit core.Limit) bool { return limit.Algorithm() == concurrentName }

var concurrentName = core.Concurrent(1, time.Second).Algorithm()

// hasReset reports whether a policy can tell when to come back, as single-valued fields have to: a [core.Concurrent]
// limit tells it only in a denial, by its estimate.
func hasReset(d *core.Decision) bool {
	return !holds(d.Limit) || !d.Allowed && d.RetryAfter != core.Never
}
