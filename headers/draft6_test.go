package headers_test

import (
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/headers"
)

func TestDraft6Bytes(t *testing.T) {
	perHour := core.Decision{Allowed: true, Limit: core.FixedWindow(100, time.Hour), Remaining: 3, NextAfter: time.Hour, ResetAfter: time.Hour}
	checkGolden(t, headers.Draft6, []golden{
		{"no policies", nil, fields{}},
		{"one policy", policies(opened), fields{
			"RateLimit-Limit":     "100",
			"RateLimit-Remaining": "99",
			"RateLimit-Reset":     "60",
			"RateLimit-Policy":    "100;w=60",
		}},
		{"several policies, numbers of the tightest", policies(opened, full), fields{
			"RateLimit-Limit":     "10",
			"RateLimit-Remaining": "0",
			"RateLimit-Reset":     "1",
			"RateLimit-Policy":    "100;w=60, 1;w=1;weir-burst=10",
		}},
		{"same quota: the tightest stays", policies(opened, first, perHour), fields{
			"RateLimit-Limit":     "100",
			"RateLimit-Remaining": "3",
			"RateLimit-Reset":     "3600",
			"RateLimit-Policy":    "1;w=1;weir-burst=10, 100;w=3600",
		}},
		{"same quota, neither is the tightest: the first stays", policies(opened, perHour, last), fields{
			"RateLimit-Limit":     "10",
			"RateLimit-Remaining": "0",
			"RateLimit-Reset":     "10",
			"RateLimit-Policy":    "100;w=60, 1;w=1;weir-burst=10",
		}},
		{"no whole seconds", policies(core.Decision{Allowed: true, Limit: endless, Remaining: 3}), fields{
			"RateLimit-Limit":     "5",
			"RateLimit-Remaining": "3",
			"RateLimit-Reset":     "0",
		}},
	})
}
