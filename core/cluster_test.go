package core_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/faultproxy"
	"github.com/weir-go/ratelimit/internal/redistest"
)

func TestCluster(t *testing.T) {
	cluster := redistest.SharedCluster(t)
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

	t.Run("one endpoint, written twice, finds all nodes", func(t *testing.T) {
		endpoint := cluster.Addrs()[0]
		limiter, err := core.Open("redis://"+endpoint+"?addr="+endpoint, core.WithPrefix(redistest.Prefix(t)), core.WithBudget(patient))
		if err != nil {
			t.Fatal(err)
		}
		defer limiter.Close()
		for i := range 20 {
			if d, err := limiter.Allow(t.Context(), fmt.Sprint("user:", i), core.Leaky(1, core.PerHour(1))); err != nil || !d.Allowed {
				t.Fatalf("user:%d: %+v, %v", i, d, err)
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
			t.Errorf("%d calls had to send the script's source", calls)
		}
	})

	t.Run("Open", func(t *testing.T) {
		limiter, err := core.Open(cluster.URL(), core.WithBudget(patient))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = limiter.Close() })
		if err := limiter.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
	})

	t.Run("charges no call twice when a connection breaks", func(t *testing.T) {
		proxies := make(map[string]*faultproxy.Proxy)
		for _, addr := range cluster.Addrs() {
			proxies[addr] = faultproxy.Start(t, addr)
		}
		limiter := core.New(core.NewRedis(cluster.Client(t, func(o *redis.ClusterOptions) {
			o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, network, proxies[addr].Addr())
			}
		}), core.WithPrefix(redistest.Prefix(t)), core.WithBudget(patient), core.WithBreaker(0, 0)))
		limit := core.TokenBucket(1000, core.PerDay(1))
		for _, calls := range []int{1, 50} { // alone, and sharing round trips
			key := fmt.Sprint("key-", calls)
			for _, p := range proxies {
				p.Set(faultproxy.Fault{})
			}
			if _, err := limiter.AllowN(t.Context(), key, limit, 1); err != nil {
				t.Fatal(err)
			}
			for _, p := range proxies {
				p.Set(faultproxy.Fault{When: "evalsha", CutReplies: true})
			}
			var group sync.WaitGroup
			for range calls {
				group.Go(func() {
					if _, err := limiter.Allow(t.Context(), key, limit); core.FailureOf(err) != core.Unreachable {
						t.Errorf("error %v, want one of the connection", err)
					}
				})
			}
			group.Wait()
			for _, p := range proxies {
				p.Heal()
			}
			d, err := limiter.Peek(t.Context(), key, limit)
			if err != nil {
				t.Fatal(err)
			}
			// Fewer when the first answer of a round trip cuts it before the last call
			// has passed.
			if charged := 999 - d.Remaining; charged < 1 || charged > calls {
				t.Errorf("%d calls were charged %d times", calls, charged)
			}
		}
	})

	t.Run("keeps the laws", func(t *testing.T) {
		fewer(t, 15, func(t *testing.T, now func() time.Time) core.Store {
			return core.NewRedis(redis.UniversalClient(client),
				core.WithClock(now), core.WithPrefix(redistest.Prefix(t)), core.WithBudget(time.Minute))
		})
	})
}

// When a node fails, the client learns at once which node has its slots now. go-redis by
// itself would ask ten seconds later.
func TestClusterLearnsOfANewMaster(t *testing.T) {
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var asked atomic.Int64
	master := func(context.Context) ([]redis.ClusterSlot, error) {
		addr := redistest.Shared(t).Addr()
		if asked.Add(1) == 1 {
			addr = gone.Addr().String()
		}
		return []redis.ClusterSlot{{Start: 0, End: 16383, Nodes: []redis.ClusterNode{{Addr: addr}}}}, nil
	}
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	client := redis.NewClusterClient(&redis.ClusterOptions{ClusterSlots: master, MaxRetries: -1, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	limiter := core.New(core.NewRedis(client, core.WithPrefix(redistest.Prefix(t)), core.WithBudget(patient), core.WithBreaker(0, 0)))
	_, err = limiter.Allow(t.Context(), "key", core.Leaky(1, core.PerDay(1)))
	if core.FailureOf(err) != core.Unreachable {
		t.Errorf("error %v, want one of the old master", err)
	}
	for deadline := time.Now().Add(5 * time.Second); asked.Load() < 2 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	if asked.Load() < 2 {
		t.Fatal("who has the slots was not asked")
	}
	for deadline := time.Now().Add(5 * time.Second); ; {
		if _, err = limiter.Allow(t.Context(), "key", core.Leaky(1, core.PerDay(1))); err == nil || time.Now().After(deadline) {
			break
		}
	}
	if err != nil {
		t.Errorf("the new master does not answer: %v", err)
	}
}
