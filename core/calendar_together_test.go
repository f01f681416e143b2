package core_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/redistest"
)

// A call whose first attempt lacks the server's window of a calendar is made again. The first attempt has
// charged nothing and has struck nobody, whatever else the call asks.
func TestACallForAnotherWindowChargesOnce(t *testing.T) {
	daily, credits := core.Calendar(10, core.Daily("UTC")), core.Leaky(10, core.PerHour(1)).Named("credits")
	ban := core.Ban{Strikes: core.SlidingLog(2, time.Hour), First: time.Hour}.Named("ban").Limit()
	quota := core.Check{Key: "key", Limit: daily}
	paid := core.Check{Key: "key", Limit: credits}
	for name, test := range map[string]struct {
		checks                   []core.Check
		daily, credits, unstruck int // what is left
	}{
		"beside a look":                  {[]core.Check{{Key: "key", Limit: daily, Mode: core.Look}, paid}, 10, 9, 2},
		"beside a condition":             {[]core.Check{{Key: "key", Limit: daily, Mode: core.Condition}, paid}, 10, 9, 2},
		"the first of two alternatives":  {core.FirstOf(quota, paid), 9, 10, 2},
		"the second of two alternatives": {core.FirstOf(paid, quota), 10, 9, 2},
		"beside strikes for a denial":    {[]core.Check{quota, paid, {Key: "key", Limit: ban, Mode: core.OnDenial}}, 9, 9, 2},
		"beside a strike":                {[]core.Check{quota, {Key: "key", Limit: ban}, paid}, 9, 9, 1},
	} {
		t.Run(name, func(t *testing.T) {
			server := time.Date(2026, time.November, 21, 12, 0, 0, 0, time.UTC)
			var reads atomic.Int64 // in turn by the caller and for the script
			clock := func() time.Time {
				if reads.Add(1) == 1 {
					return server.Add(-90 * 24 * time.Hour)
				}
				return server
			}
			client := redistest.Shared(t).Client(t)
			limiter := core.New(core.NewRedis(client, core.WithPrefix(redistest.Prefix(t)), core.WithBudget(patient), core.WithClock(clock)))
			decisions, err := limiter.AllowAll(t.Context(), test.checks...)
			if err != nil {
				t.Fatal(err)
			}
			for i, d := range decisions {
				if d.Denies() {
					t.Errorf("check %d: %+v", i, d)
				}
			}
			left, err := limiter.PeekAll(t.Context(), core.Check{Key: "key", Limit: daily}, core.Check{Key: "key", Limit: credits}, core.Check{Key: "key", Limit: ban})
			if err != nil || left[0].Remaining != test.daily || left[1].Remaining != test.credits || left[2].Remaining != test.unstruck {
				t.Errorf("%+v are left, %v; want %d, %d and %d", left, err, test.daily, test.credits, test.unstruck)
			}
		})
	}
}
