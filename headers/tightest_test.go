package headers_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/headers"
)

// Legacy writes the capacity of the tightest policy, which shows which one that is.
func TestTightestPolicyIsReported(t *testing.T) {
	limit := func(capacity int) core.Limit { return core.TokenBucket(capacity, core.PerSecond(1)) }
	admit := func(capacity, remaining int, next, reset time.Duration) core.Decision {
		return core.Decision{Allowed: true, Limit: limit(capacity), Remaining: remaining, NextAfter: next, ResetAfter: reset}
	}
	deny := func(capacity int, d time.Duration) core.Decision {
		return core.Decision{Limit: limit(capacity), Remaining: capacity, RetryAfter: d}
	}
	for _, c := range []struct {
		name             string
		tighter, another core.Decision
	}{
		{"a denial before any admission", deny(1, time.Millisecond), admit(2, 0, time.Hour, time.Hour)},
		{"the longer wait", deny(1, 3*time.Second), deny(2, 2*time.Second)},
		{"no wait can help", deny(1, core.Never), deny(2, time.Hour)},
		{"the less left", admit(1, 0, 1, 1), admit(2, 1, 2, 2)},
		{"the longer until the next", admit(1, 1, 2, 1), admit(2, 1, 1, 2)},
		{"the longer until as new", admit(1, 1, 1, 2), admit(2, 1, 1, 1)},
	} {
		for order, list := range map[string][]headers.Outcome{
			"first":  policies(c.tighter, c.another),
			"second": policies(c.another, c.tighter),
		} {
			t.Run(c.name+"/"+order, func(t *testing.T) {
				h := http.Header{}
				headers.Legacy.Write(h, list)
				if got := h.Get("X-RateLimit-Limit"); got != "1" {
					t.Errorf("the other policy was reported: %q", h)
				}
			})
		}
	}
}
