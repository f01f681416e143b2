package headers_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/headers"
)

// places is a decision about a limit of 20 at once.
func places(allowed bool, remaining int) core.Decision {
	d := core.Decision{
		Allowed: allowed, Limit: core.Concurrent(20, 30*time.Second), Remaining: remaining,
		NextAfter: 30 * time.Second, ResetAfter: 30 * time.Second, Estimated: true,
	}
	if !allowed {
		d.RetryAfter = 2500 * time.Millisecond
	}
	return d
}

// Nobody knows when a place is free, so that the fields which need a Reset tell of places only where there is the
// estimate of a denial.
func TestNoResetIsToldOfPlaces(t *testing.T) {
	never := places(false, 0)
	never.RetryAfter = core.Never
	for _, w := range []headers.Writer{headers.Legacy, headers.LegacyEpoch, headers.GitHub, headers.Draft6, headers.Draft7} {
		for name, d := range map[string]core.Decision{"admitted": places(true, 0), "never": never} {
			h := http.Header{}
			w.Write(h, policies(d))
			if len(h) != 0 {
				t.Errorf("%T, %s: %v, want nothing", w, name, h)
			}
		}
	}
	for _, c := range []struct {
		name   string
		writer headers.Writer
		list   []headers.Outcome
		want   map[string]string
	}{
		{
			"legacy, beside a rate", headers.Legacy, policies(places(true, 0), first),
			map[string]string{"X-RateLimit-Limit": "10", "X-RateLimit-Remaining": "9", "X-RateLimit-Reset": "1"},
		},
		{
			"legacy, denied", headers.Legacy, policies(places(false, 0), first),
			map[string]string{"X-RateLimit-Limit": "20", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "3"},
		},
		{
			"draft 6, beside a rate", headers.Draft6, policies(places(true, 0), first),
			map[string]string{"RateLimit-Limit": "10", "RateLimit-Policy": "1;w=1;weir-burst=10"},
		},
		{
			"draft 7, denied", headers.Draft7, policies(places(false, 0), first),
			map[string]string{"RateLimit": "limit=20, remaining=0, reset=3", "RateLimit-Policy": ""},
		},
	} {
		h := http.Header{}
		c.writer.Write(h, c.list)
		for field, want := range c.want {
			if got := h.Get(field); got != want {
				t.Errorf("%s: %s is %q, want %q", c.name, field, got, want)
			}
		}
	}
}
