package core

import (
	"testing"
	"time"

	"github.com/weir-go/ratelimit/internal/redistest"
)

// A charge is given back into the window that was charged, and to no later one.
func TestGiveBackKnowsItsWindow(t *testing.T) {
	client := redistest.Start(t).Client(t)
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		limit Limit
		later time.Duration // from the charge of 3 to that of 4, and to its being given back
		want  int           // remaining of 10 then
	}{
		{FixedWindow(10, time.Minute), 10 * time.Second, 6},
		{FixedWindow(10, time.Minute), time.Minute, 6}, // the 3 went with their window
		{SlidingWindow(10, time.Minute), 10 * time.Second, 6},
		{SlidingWindow(10, time.Minute), time.Minute, 6}, // taken from the window before
		{SlidingWindow(10, time.Minute), 2 * time.Minute, 6},
		{SlidingLog(10, time.Minute), 10 * time.Second, 6},
		{SlidingLog(10, time.Minute), time.Minute, 6},
		{Leaky(10, PerMinute(6)), 10 * time.Second, 6},
		{GCRA(10, PerMinute(6)), 10 * time.Second, 6},
		{TokenBucket(10, PerMinute(6)).Named("tokens"), 10 * time.Second, 6},
		{Shaping(10, PerMinute(6)).Named("queue"), 10 * time.Second, 6},
	} {
		t.Run(test.limit.String()+" after "+test.later.String(), func(t *testing.T) {
			now := start
			store := NewRedis(client, WithBudget(time.Minute), WithPrefix(redistest.Prefix(t)),
				WithClock(func() time.Time { return now }))
			limiter := New(store)
			charge := func(n int) {
				t.Helper()
				if d, err := limiter.AllowN(t.Context(), "key", test.limit, n); err != nil || !d.Allowed {
					t.Fatalf("%+v, %v", d, err)
				}
			}
			charge(3)
			charged := newQuestion([]Check{{Key: "key", Limit: test.limit, Cost: 3}}, false)
			now = start.Add(test.later)
			charge(4)
			store.giveBack(t.Context(), charged.groups[0], start.UnixMicro())

			d, err := limiter.Peek(t.Context(), "key", test.limit)
			if err != nil {
				t.Fatal(err)
			}
			if d.Remaining != test.want {
				t.Errorf("%d remain, want %d", d.Remaining, test.want)
			}
		})
	}
}
