package redisstore

import (
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/exact"
	"github.com/weir-go/ratelimit/internal/redistest"
)

// A charge is given back into the window that was charged, and to no later one.
func TestGiveBackKnowsItsWindow(t *testing.T) {
	client := redistest.Start(t).Client(t)
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		spec  *exact.Spec
		later time.Duration // from the charge of 3 to that of 4, and to its being given back
		want  int           // remaining of 10 then
	}{
		{spec(exact.FixedWindow, 10, 10, time.Minute), 10 * time.Second, 6},
		{spec(exact.FixedWindow, 10, 10, time.Minute), time.Minute, 6}, // the 3 went with their window
		{spec(exact.SlidingWindow, 10, 10, time.Minute), 10 * time.Second, 6},
		{spec(exact.SlidingWindow, 10, 10, time.Minute), time.Minute, 6}, // taken from the window before
		{spec(exact.SlidingWindow, 10, 10, time.Minute), 2 * time.Minute, 6},
		{spec(exact.SlidingLog, 10, 10, time.Minute), 10 * time.Second, 6},
		{spec(exact.SlidingLog, 10, 10, time.Minute), time.Minute, 6},
		{spec(exact.Leaky, 10, 6, time.Minute), 10 * time.Second, 6},
		{spec(exact.GCRA, 10, 6, time.Minute), 10 * time.Second, 6},
		{named("tokens", exact.TokenBucket), 100 * time.Millisecond, 6},
		{named("queue", exact.Shaping), 100 * time.Millisecond, 6},
	} {
		t.Run(test.spec.String()+" after "+test.later.String(), func(t *testing.T) {
			now := start
			store := newStore(client, func(c *Config) {
				c.Prefix, c.Clock = redistest.Prefix(t), func() int64 { return now.UnixMicro() } //nolint:gocritic // now changes
			})
			charge := func(units int) *call.Call {
				t.Helper()
				c, err := decide(t.Context(), store, call.Check{Key: "key", Spec: test.spec, Units: units})
				if err != nil || !c.Passed() {
					t.Fatalf("%+v, %v", c.Checks, err)
				}
				return c
			}
			charged := callOf(call.Check{Key: "key", Spec: test.spec, Units: 3})
			charged.Settled = true
			if _, err := store.Decide(t.Context(), []*call.Call{charged}); err != nil {
				t.Fatal(err)
			}
			now = start.Add(test.later)
			charge(4)
			store.giveBack(t.Context(), charged.Groups[0])

			left := charge(0).Checks[0]
			if got := left.Spec.Remaining(left.Usage); got != test.want {
				t.Errorf("%d remain, want %d", got, test.want)
			}
		})
	}
}
