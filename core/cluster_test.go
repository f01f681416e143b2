package core_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/core/storetest"
	"github.com/weir-go/ratelimit/internal/redistest"
)

func TestCluster(t *testing.T) {
	cluster := redistest.StartCluster(t)
	client := cluster.Client(t)

	t.Run("one subject's limits share a slot", func(t *testing.T) {
		trips := &roundTrips{}
		client := cluster.Client(t)
		client.AddHook(trips)
		limiter := core.New(core.NewRedis(client, core.WithPrefix(redistest.Prefix(t)), core.WithBudget(patient)))
		for i := range 20 {
			trips.sent = nil
			d, err := limiter.AllowAll(t.Context(), threeLimits(fmt.Sprint("user:", i))...)
			if err != nil {
				t.Fatal(err)
			}
			if len(d) != 3 || !d[0].Allowed || d[0].Remaining != 9 || len(trips.sent) > 2 {
				t.Fatalf("%+v after %q", d, trips.sent)
			}
		}
	})

	t.Run("Ping loads the scripts of every master", func(t *testing.T) {
		for _, node := range cluster.Nodes() {
			node.Client(t).ScriptFlush(t.Context())
		}
		limiter := core.New(core.NewRedis(client, core.WithPrefix(redistest.Prefix(t)), core.WithBudget(patient)))
		if err := limiter.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
		before := cluster.Calls(t, "eval")
		for i := range 50 {
			if _, err := limiter.Allow(t.Context(), fmt.Sprint("user:", i), core.GCRA(5, core.PerSecond(1))); err != nil {
				t.Fatal(err)
			}
		}
		if calls := cluster.Calls(t, "eval") - before; calls != 0 {
			t.Errorf("%d questions had to send the script's source", calls)
		}
	})

	t.Run("Open", func(t *testing.T) {
		limiter, err := core.Open(cluster.URL())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = limiter.Close() })
		if err := limiter.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
	})

	t.Run("keeps the laws", func(t *testing.T) {
		storetest.Run(t, func(t *testing.T, now func() time.Time) core.Store {
			return core.NewRedis(redis.UniversalClient(client),
				core.WithClock(now), core.WithPrefix(redistest.Prefix(t)), core.WithBudget(time.Minute))
		})
	})
}
