package headers

import (
	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/algorithm"
)

// hasReset reports whether a policy can tell when to come back, as single-valued fields have to: a [core.Concurrent]
// limit tells it only in a denial, by its estimate.
func hasReset(d *core.Decision) bool {
	return !algorithm.Holds(d.Limit) || !d.Allowed && d.RetryAfter != core.Never
}
