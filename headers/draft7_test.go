package headers_test

import (
	"testing"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/headers"
)

func TestDraft7Bytes(t *testing.T) {
	checkGolden(t, headers.Draft7, []golden{
		{"no policies", nil, fields{}},
		{"nothing used", policies(fresh), fields{
			"RateLimit-Policy": "1;w=1;weir-burst=10",
			"RateLimit":        "limit=10, remaining=10, reset=0",
		}},
		{"bucket, last", policies(last), fields{
			"RateLimit-Policy": "1;w=1;weir-burst=10",
			"RateLimit":        "limit=10, remaining=0, reset=10",
		}},
		{"bucket, full: reset is Retry-After", policies(full), fields{
			"RateLimit-Policy": "1;w=1;weir-burst=10",
			"RateLimit":        "limit=10, remaining=0, reset=1",
		}},
		{"never", policies(never), fields{
			"RateLimit-Policy": "1;w=1;weir-burst=10",
			"RateLimit":        "limit=10, remaining=8, reset=2",
		}},
		{"only the tightest of several", policies(opened, first), fields{
			"RateLimit-Policy": "1;w=1;weir-burst=10",
			"RateLimit":        "limit=10, remaining=9, reset=1",
		}},
		{"no whole seconds", policies(core.Decision{Allowed: true, Limit: endless, Remaining: 3}), fields{
			"RateLimit": "limit=5, remaining=3, reset=0",
		}},
	})
}
