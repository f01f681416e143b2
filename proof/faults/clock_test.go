package faults_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
)

// A clock that is set back or forward, or differs from that of another process, mints
// nothing, and locks nobody out for longer than the limit itself does.
func TestClockSteps(t *testing.T) {
	t.Parallel()
	const capacity, window = 30, time.Minute
	s := newSite(t)
	for name, limit := range map[string]core.Quota{
		"leaky":          core.Leaky(capacity, core.Per(capacity, window)),
		"shaping":        core.Shaping(capacity, core.Per(capacity, window)),
		"token bucket":   core.TokenBucket(capacity, core.Per(capacity, window)),
		"gcra":           core.GCRA(capacity, core.Per(capacity, window)),
		"fixed window":   core.FixedWindow(capacity, window),
		"sliding window": core.SlidingWindow(capacity, window),
		"sliding log":    core.SlidingLog(capacity, window),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var now atomic.Int64
			now.Store(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC).UnixMicro())
			limiter := s.heeding(t, patient, core.WithClock(func() time.Time { return time.UnixMicro(now.Load()) }))
			// exhaust asks from several goroutines until all are denied.
			exhaust := func() int {
				t.Helper()
				var passed atomic.Int64
				everybody(callers, func(int) {
					for denied := 0; denied < 3; {
						d, err := limiter.Allow(t.Context(), name, limit)
						switch {
						case err != nil:
							t.Error(err)
							return
						case d.Allowed:
							passed.Add(1)
						default:
							denied++
							if d.RetryAfter > 2*window {
								t.Errorf("denied for %v by a limit of %v", d.RetryAfter, window)
								return
							}
						}
					}
				})
				return int(passed.Load())
			}
			if n := exhaust(); n != capacity {
				t.Fatalf("%d passed, want %d", n, capacity)
			}
			for _, step := range []time.Duration{-time.Hour, -time.Millisecond, -24 * time.Hour} {
				now.Add(step.Microseconds())
				if n := exhaust(); n > 0 {
					t.Errorf("%d passed after the clock was set back by %v", n, -step)
				}
			}
			now.Add((2 * window).Microseconds())
			if n := exhaust(); n != capacity {
				t.Errorf("%d passed when the limit's own period was over, want %d", n, capacity)
			}
			now.Add((365 * 24 * time.Hour).Microseconds())
			if n := exhaust(); n != capacity {
				t.Errorf("%d passed after the clock was set forward, want %d", n, capacity)
			}
		})
	}
}
