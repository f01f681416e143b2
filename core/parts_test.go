package core_test

import (
	"context"
	"crypto/rand"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/redistest"
)

// patient is a budget that a busy machine cannot exceed.
const patient = 30 * time.Second

// hourly are limits that hardly recover while a test runs.
var hourly = map[string]func(capacity int) core.Quota{
	"leaky":          func(n int) core.Quota { return core.Leaky(n, core.PerHour(1)) },
	"shaping":        func(n int) core.Quota { return core.Shaping(n, core.PerHour(1)) },
	"token bucket":   func(n int) core.Quota { return core.TokenBucket(n, core.PerHour(1)) },
	"gcra":           func(n int) core.Quota { return core.GCRA(n, core.PerHour(1)) },
	"fixed window":   func(n int) core.Quota { return core.FixedWindow(n, time.Hour) },
	"sliding window": func(n int) core.Quota { return core.SlidingWindow(n, 24*time.Hour) },
	"sliding log":    func(n int) core.Quota { return core.SlidingLog(n, time.Hour) },
}

// In a cluster and in a ring, the keys of one call are on several servers.
func TestCallOverSeveralServers(t *testing.T) {
	cluster := redistest.SharedCluster(t)
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{
		"one": redistest.Start(t).Addr(),
		"two": redistest.Start(t).Addr(),
	}})
	t.Cleanup(func() { _ = ring.Close() })
	for name, client := range map[string]redis.UniversalClient{"cluster": cluster.Client(t), "ring": ring} {
		t.Run(name, func(t *testing.T) {
			prefix := "ratelimit:" + rand.Text()
			limiter := core.New(core.NewRedis(client, core.WithPrefix(prefix), core.WithBudget(patient)))
			if err := limiter.Ping(t.Context()); err != nil {
				t.Fatal(err)
			}
			for algorithm, limit := range hourly {
				t.Run(algorithm, func(t *testing.T) {
					t.Run("is charged as a whole or not at all", func(t *testing.T) { chargedAsAWhole(t, limiter, limit) })
					t.Run("leaves no key when it is denied", func(t *testing.T) { leavesNoKey(t, limiter, client, prefix, limit) })
				})
			}
		})
	}
}

func chargedAsAWhole(t *testing.T, limiter *core.Limiter, limit func(int) core.Quota) {
	const callers, calls, roomy, tight = 8, 25, 1000, 50
	var admitted atomic.Int64
	var group sync.WaitGroup
	for range callers {
		group.Go(func() {
			for range calls {
				decisions, err := limiter.AllowAll(t.Context(),
					core.Check{Key: "roomy", Limit: limit(roomy), Cost: 3},
					core.Check{Key: "tight", Limit: limit(tight), Cost: 1},
					core.Check{Key: "other", Limit: limit(roomy), Cost: 1})
				if err != nil {
					t.Error(err)
					return
				}
				if decisions[0].Allowed && decisions[1].Allowed && decisions[2].Allowed {
					admitted.Add(1)
				}
			}
		})
	}
	group.Wait()
	if admitted.Load() > tight {
		t.Errorf("%d calls passed a limit of %d", admitted.Load(), tight)
	}
	for key, want := range map[string]int{
		"roomy": roomy - 3*int(admitted.Load()),
		"tight": tight - int(admitted.Load()),
		"other": roomy - int(admitted.Load()),
	} {
		capacity := roomy
		if key == "tight" {
			capacity = tight
		}
		decision, err := limiter.Peek(t.Context(), key, limit(capacity))
		if err != nil {
			t.Fatal(err)
		}
		if decision.Remaining != want {
			t.Errorf("%s: %d remain after %d calls passed, want %d", key, decision.Remaining, admitted.Load(), want)
		}
	}
}

func leavesNoKey(t *testing.T, limiter *core.Limiter, client redis.UniversalClient, prefix string, limit func(int) core.Quota) {
	keys := []string{"fresh-1", "fresh-2", "fresh-3", "fresh-4", "denying"}
	checks := make([]core.Check, 0, len(keys))
	for _, key := range keys {
		checks = append(checks, core.Check{Key: key, Limit: limit(7), Cost: 2})
	}
	checks[len(keys)-1].Cost = 8
	decisions, err := limiter.AllowAll(t.Context(), checks...)
	if err != nil {
		t.Fatal(err)
	}
	for i, decision := range decisions {
		want := core.Decision{Allowed: true, Limit: limit(7), Remaining: 7}
		if i == len(keys)-1 {
			want.Allowed, want.RetryAfter = false, core.Never
		}
		if decision != want {
			t.Errorf("%s: %+v, want %+v", keys[i], decision, want)
		}
	}
	for _, key := range keys {
		name := prefix + ":{" + key + "}:" + limit(7).Name()
		if n, err := client.Exists(context.WithoutCancel(t.Context()), name).Result(); err != nil || n != 0 {
			t.Errorf("%s exists (%v)", name, err)
		}
	}
}

// Where something was used before, a denied call leaves it as it was.
func TestDeniedCallLeavesWhatWasUsed(t *testing.T) {
	cluster := redistest.SharedCluster(t)
	for name, limit := range map[string]core.Quota{
		"fixed window":   core.FixedWindow(10, time.Minute),
		"sliding window": core.SlidingWindow(10, time.Minute),
		"sliding log":    core.SlidingLog(10, time.Minute),
		"leaky":          core.Leaky(10, core.PerMinute(10)),
		"gcra":           core.GCRA(10, core.PerMinute(10)),
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Date(2026, 1, 1, 0, 0, 30, 0, time.UTC)
			limiter := core.New(core.NewRedis(cluster.Client(t), core.WithBudget(patient),
				core.WithPrefix(redistest.Prefix(t)), core.WithClock(func() time.Time { return now })))
			denied := []core.Check{{Key: "a", Limit: limit, Cost: 3}, {Key: "b", Limit: limit, Cost: 11}}

			if _, err := limiter.AllowN(t.Context(), "a", limit, 4); err != nil {
				t.Fatal(err)
			}
			before, err := limiter.Peek(t.Context(), "a", limit)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := limiter.AllowAll(t.Context(), denied...); err != nil {
				t.Fatal(err)
			}
			after, err := limiter.Peek(t.Context(), "a", limit)
			if err != nil {
				t.Fatal(err)
			}
			if before != after || after.Remaining != 6 {
				t.Errorf("after a denied call: %+v, before it: %+v", after, before)
			}
		})
	}
}
