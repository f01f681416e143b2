package headers_test

import (
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/headers"
)

func TestRateLimitedForBytes(t *testing.T) {
	refused := func(d time.Duration) core.Decision { return core.Decision{Limit: bucket, RetryAfter: d} }
	one := func(value string) fields { return fields{"X-Rate-Limited-For": value} }
	checkGolden(t, headers.RateLimitedFor, []golden{
		{"no policies", nil, fields{}},
		{"allowed", policies(first, opened), fields{}},
		{"fraction", policies(refused(779 * time.Millisecond)), one("0.779")},
		{"rounded up", policies(refused(778_001 * time.Microsecond)), one("0.779")},
		{"rounded up to the second", policies(refused(999_001 * time.Microsecond)), one("1")},
		{"zeros trimmed", policies(refused(1500 * time.Millisecond)), one("1.5")},
		{"zeros within", policies(refused(3_005 * time.Millisecond)), one("3.005")},
		{"two digits", policies(refused(20 * time.Millisecond)), one("0.02")},
		{"whole seconds", policies(refused(100 * time.Second)), one("100")},
		{"a nanosecond", policies(refused(1)), one("0.001")},
		{"nothing at all", policies(refused(0)), one("0.001")},
		{"the longest", policies(refused(time.Second), first, refused(2*time.Second), refused(time.Millisecond)), one("2")},
		{"never", policies(refused(time.Second), never), fields{}},
		{"longest wait there is", policies(refused(core.Never - 1)), one("9223372036.855")},
	})
}
