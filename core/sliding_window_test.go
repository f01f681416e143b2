package core_test

import (
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/redistest"
)

// During a deployment, half of the fleet may have another window.
func TestTwoWindowsThatTakeTurnsDoNotLockOut(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	clock := core.WithClock(func() time.Time { return now })
	windows := []time.Duration{time.Minute, 90 * time.Second}
	for name, store := range map[string]core.Store{
		"memory": core.NewMemory(clock),
		"redis":  core.NewRedis(redistest.Shared(t).Client(t), clock, core.WithBudget(patient), core.WithPrefix(redistest.Prefix(t))),
	} {
		t.Run(name, func(t *testing.T) {
			limiter := core.New(store)
			admitted := 0
			for i := range 3600 {
				d, err := limiter.Allow(t.Context(), "key", core.SlidingWindow(10, windows[i%2]).Named("plan"))
				if err != nil {
					t.Fatal(err)
				}
				if d.Allowed {
					admitted++
				}
				now = now.Add(time.Second)
			}
			if admitted < 3600/180*10/2 { // half of what windows three minutes long would admit
				t.Errorf("%d admitted in an hour", admitted)
			}
		})
	}
}
