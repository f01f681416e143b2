package headers_test

import (
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/headers"
)

func TestRateLimitedForBytes(t *testing.T) {
	denied := func(d time.Duration) core.Decision { return core.Decision{Limit: bucket, RetryAfter: d} }
	one := func(value string) fields { return fields{"X-Rate-Limited-For": value} }
	checkGolden(t, headers.RateLimitedFor, []golden{
		{"no policies", nil, fields{}},
		{"allowed", policies(first, opened), fields{}},
		{"fraction", policies(denied(779 * time.Millisecond)), one("0.779")},
		{"rounded up", policies(denied(778_001 * time.Microsecond)), one("0.779")},
		{"rounded up to the second", policies(denied(999_001 * time.Microsecond)), one("1")},
		{"zeros trimmed", policies(denied(1500 * time.Millisecond)), one("1.5")},
		{"zeros within", policies(denied(3_005 * time.Millisecond)), one("3.005")},
		{"two digits", policies(denied(20 * time.Millisecond)), one("0.02")},
		{"whole seconds", policies(denied(100 * time.Second)), one("100")},
		{"a nanosecond", policies(denied(1)), one("0.001")},
		{"nothing at all", policies(denied(0)), one("0.001")},
		{"the longest", policies(denied(time.Second), first, denied(2*time.Second), denied(time.Millisecond)), one("2")},
		{"never", policies(denied(time.Second), never), fields{}},
		{"longest wait there is", policies(denied(core.Never - 1)), one("9223372036.855")},
	})
}
