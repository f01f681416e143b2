package core_test

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/redistest"
)

// What docs/redis-in-production.md says of times to live: a key is kept until it has recovered, and no longer than that page says.
func TestKeysLiveNoLongerThanDocumented(t *testing.T) {
	server := redistest.Shared(t)
	client := server.Client(t)
	const hour = time.Hour
	for _, c := range []struct {
		limit    core.Limit
		recovers time.Duration // after one unit
		most     time.Duration
	}{
		{core.GCRA(10, core.PerMinute(1)), time.Minute, 2*time.Minute + 2*time.Second},
		{core.Leaky(10, core.PerMinute(1)), time.Minute, 2*time.Minute + 2*time.Second},
		{core.Leaky(10, core.PerMinute(1)).Named("named"), time.Minute, 2*time.Minute + 2*time.Second},
		{core.Shaping(10, core.PerMinute(1)), time.Minute, 2*time.Minute + 2*time.Second},
		{core.TokenBucket(10, core.PerMinute(1)), time.Minute, 2*time.Minute + 2*time.Second},
		{core.FixedWindow(10, hour), hour, 2*hour + 2*time.Second},
		{core.SlidingWindow(10, hour), hour, 2*2*hour + 2*time.Second}, // it counts in the window after it as well
		{core.SlidingLog(10, hour), hour, 2*hour + 2*time.Second},
		{core.Calendar(10, core.Every(hour)), 0, hour + hour/8 + 2*time.Second},
		{core.Calendar(10, core.Daily("UTC")), 0, 24*hour + 3*hour + 2*time.Second},
		{core.Concurrent(10, 30*time.Second), 30 * time.Second, 30*time.Second + 10*time.Minute + 2*time.Second},
	} {
		key := rand.Text()
		if _, err := core.New(core.NewRedis(client, core.WithBudget(patient))).Reserve(t.Context(), core.Check{Key: key, Limit: c.limit}); err != nil {
			t.Fatal(err)
		}
		keys, err := client.Keys(t.Context(), "*{"+key+"}*").Result()
		if err != nil || len(keys) != 1 {
			t.Fatalf("%v: %q, %v", c.limit, keys, err)
		}
		left, err := client.PTTL(t.Context(), keys[0]).Result()
		if err != nil || left > c.most || left < c.recovers-time.Minute/2 { // which the test may take
			t.Errorf("%v lives for %v, want %v to %v; %v", c.limit, left, c.recovers, c.most, err)
		}
	}
}
