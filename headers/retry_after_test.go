package headers_test

import (
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/headers"
)

func TestRetryAfterRoundsUp(t *testing.T) {
	for _, c := range []struct {
		wait time.Duration
		want int64
	}{
		{0, 1},
		{1, 1},
		{400 * time.Millisecond, 1},
		{time.Second - 1, 1},
		{time.Second, 1},
		{time.Second + 1, 2},
		{1_000_001 * time.Microsecond, 2},
		{2 * time.Second, 2},
		{24 * time.Hour, 86400},
		{core.Never - 1, 9_223_372_037},
	} {
		t.Run(c.wait.String(), func(t *testing.T) {
			got, ok := headers.RetryAfter(policies(core.Decision{Limit: bucket, RetryAfter: c.wait}))
			if !ok || got != c.want {
				t.Errorf("RetryAfter %d, %t; want %d", got, ok, c.want)
			}
		})
	}
}

func TestRetryAfterIsTheLongestOfDenials(t *testing.T) {
	for _, c := range []struct {
		name     string
		policies []headers.Outcome
		want     int64
		ok       bool
	}{
		{"no policies", nil, 0, false},
		{"all allowed", policies(first, opened), 0, false},
		{"one denies", policies(opened, full), 1, true},
		{"two deny", policies(full, closed), 18, true},
		{"never", policies(never), 0, false},
		{"one denies for good", policies(closed, never, full), 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, ok := headers.RetryAfter(c.policies)
			if got != c.want || ok != c.ok {
				t.Errorf("RetryAfter %d, %t; want %d, %t", got, ok, c.want, c.ok)
			}
		})
	}
}
