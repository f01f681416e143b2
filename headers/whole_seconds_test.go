package headers_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/headers"
)

// endless has a rate that fits no number of whole seconds that an Integer holds.
var endless = core.Leaky(5, core.Per(1, 100*365*24*time.Hour-time.Microsecond))

func TestQuotaIsScaledAndNeverFalsified(t *testing.T) {
	for _, c := range []struct {
		limit core.Limit
		want  string
	}{
		{core.Leaky(10, core.PerSecond(1)), "q=1;w=1;weir-burst=10"},
		{core.TokenBucket(10, core.PerSecond(10)), "q=10;w=1"},
		{core.TokenBucket(10, core.PerMinute(10)), "q=10;w=60"},
		{core.GCRA(1, core.PerHour(100)), "q=100;w=3600;weir-burst=1"},
		{core.Shaping(20, core.PerDay(5)), "q=5;w=86400;weir-burst=20"},
		{core.Leaky(100, core.Per(10, 100*time.Millisecond)), "q=100;w=1"},
		{core.Leaky(5, core.Per(5, 1500*time.Millisecond)), "q=10;w=3;weir-burst=5"},
		{core.Leaky(3, core.Per(3, 2*time.Millisecond)), "q=1500;w=1;weir-burst=3"},
		{core.Leaky(1, core.Per(1, 333*time.Millisecond)), "q=1000;w=333;weir-burst=1"},
		{core.Leaky(1, core.Per(1, time.Microsecond)), "q=1000000;w=1;weir-burst=1"},
		{core.Leaky(1, core.Per(1, 1_000_001*time.Microsecond)), "q=1000000;w=1000001;weir-burst=1"},
		{core.FixedWindow(100, time.Minute), "q=100;w=60"},
		{core.SlidingWindow(10, 100*time.Millisecond), "q=100;w=1;weir-burst=10"},
		{core.SlidingLog(5, 1500*time.Millisecond), "q=10;w=3;weir-burst=5"},
		// Whole periods would be 1.2e15 in 3s.
		{core.Leaky(7, core.Per(600_000_000_000_000, 1500*time.Millisecond)), "q=400000000000000;w=1;weir-burst=7"},
		{core.Leaky(7, core.PerSecond(largest)), "q=999999999999999;w=1;weir-burst=7"},
		{core.Leaky(7, core.PerSecond(largest+1)), "q=7"},
		{endless, "q=5"},
		{core.Leaky(1<<53-1, core.PerSecond(1)), "q=1;w=1;weir-burst=999999999999999"},
		{core.Leaky(1<<53-1, core.PerSecond(largest)), "q=999999999999999;w=1"},
		{core.FixedWindow(1<<53-1, time.Second), "q=999999999999999"},
		{core.Calendar(100, core.Every(time.Hour).Jitter(time.Minute)), "q=100;w=3600"},
		{core.Calendar(100, core.Daily("UTC")), "q=100;w=86400"},
		{core.Calendar(100, core.Weekly("UTC", time.Monday)), "q=100;w=604800"},
		{core.Calendar(100, core.Every(1500*time.Millisecond)), "q=100"},
		{core.Calendar(100, core.Daily("Europe/Berlin")), "q=100"},
		{core.Calendar(100, core.Monthly("UTC")), "q=100"},
		{core.Leaky(-3, core.PerSecond(-1)), "q=0"},
		{nil, "q=0"},
		{core.Quota{}, "q=0"},
	} {
		t.Run(c.want, func(t *testing.T) {
			h := http.Header{}
			headers.Draft.Write(h, policies(core.Decision{Allowed: true, Limit: c.limit}))
			if got, want := h.Get("RateLimit-Policy"), `"a";`+c.want; got != want {
				t.Errorf("RateLimit-Policy %s, want %s", got, want)
			}
		})
	}
}
