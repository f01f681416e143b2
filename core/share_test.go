package core_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/redistest"
	"github.com/weir-go/ratelimit/internal/repeatable"
)

// hammer asks from many goroutines at once, each several times, and returns how
// often was admitted.
func hammer(t *testing.T, ask func(caller, turn int) (core.Decision, error)) (admitted int64) {
	t.Helper()
	const callers, turns = 64, 20
	var (
		group sync.WaitGroup
		count atomic.Int64
	)
	for caller := range callers {
		group.Go(func() {
			for turn := range turns {
				d, err := ask(caller, turn)
				if err != nil {
					t.Error(err)
					return
				}
				if d.Allowed {
					count.Add(1)
				}
			}
		})
	}
	group.Wait()
	return count.Load()
}

// Under load, calls share batches, and each is decided as if it were alone.
func TestCallsShareBatches(t *testing.T) {
	server := redistest.Start(t)
	for _, heeds := range []bool{true, false} {
		t.Run(fmt.Sprintf("client heeds deadlines %t", heeds), func(t *testing.T) {
			client := server.Client(t, func(o *redis.Options) { o.ContextTimeoutEnabled = heeds })
			limiter := core.New(core.NewRedis(client, core.WithPrefix(redistest.Prefix(t)), core.WithBudget(patient)))
			before := server.Calls(t, "evalsha")
			admitted := hammer(t, func(caller, _ int) (core.Decision, error) {
				return limiter.Allow(t.Context(), fmt.Sprint("user:", caller%4), core.Leaky(100, core.PerHour(1)))
			})
			if admitted != 400 {
				t.Errorf("%d admitted, want 100 on each of 4 keys", admitted)
			}
			if calls := server.Calls(t, "evalsha") - before; calls > 64*20/2 {
				t.Errorf("%d batches for %d calls", calls, 64*20)
			}
		})
	}
}

// A key that is damaged is the fault of one call, and concerns no other.
func TestDamageDoesNotSpread(t *testing.T) {
	client := redistest.Shared(t).Client(t)
	prefix := redistest.Prefix(t)
	store := core.NewRedis(client, core.WithPrefix(prefix), core.WithBudget(patient), core.WithLogger(discard))
	limiter := core.New(store)
	limit := core.FixedWindow(10, year)
	admitted := hammer(t, func(caller, turn int) (core.Decision, error) {
		key := fmt.Sprint("user:", caller, ":", turn)
		if caller%8 == 0 {
			client.RPush(t.Context(), redisKey(prefix, key, limit), "damage")
		}
		d, err := limiter.AllowN(t.Context(), key, limit, 4)
		if err == nil && d.Remaining != 6 {
			t.Errorf("%s: %d remain, want 6", key, d.Remaining)
		}
		return d, err
	})
	if admitted != 64*20 || repairedBy(store) != 8*20 {
		t.Errorf("%d admitted and %d replaced, want %d and %d", admitted, repairedBy(store), 64*20, 8*20)
	}
}

// Behind a proxy, a cluster looks like one server, until keys of several slots come
// in one batch. Then each call gets a script run of its own, in a pipeline.
func TestClusterInDisguise(t *testing.T) {
	server := redistest.Start(t, "--cluster-enabled", "yes")
	client := server.Client(t)
	if err := client.ClusterAddSlotsRange(t.Context(), 0, 16383).Err(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); !strings.Contains(client.ClusterInfo(t.Context()).Val(), "cluster_state:ok"); {
		if time.Now().After(deadline) {
			t.Fatal("the cluster does not come up")
		}
		time.Sleep(10 * time.Millisecond)
	}
	limiter := core.New(core.NewRedis(client, core.WithPrefix(redistest.Prefix(t)), core.WithBudget(patient)))
	admitted := hammer(t, func(caller, turn int) (core.Decision, error) {
		if caller == 0 && turn == 10 {
			client.ScriptFlush(t.Context()) // the pipeline heals, too
		}
		return limiter.Allow(t.Context(), fmt.Sprint("user:", caller%8), core.GCRA(50, core.PerHour(1)))
	})
	if admitted != 400 {
		t.Errorf("%d admitted, want 50 on each of 8 keys", admitted)
	}
}

// In a cluster, calls about keys of one node share a round trip.
func TestCallsOfANodeShareARoundTrip(t *testing.T) {
	cluster := redistest.SharedCluster(t)
	client := cluster.Client(t)
	limiter := core.New(core.NewRedis(client, core.WithPrefix(redistest.Prefix(t)), core.WithBudget(patient)))
	admitted := hammer(t, func(caller, turn int) (core.Decision, error) {
		if caller == 0 && turn == 10 {
			for _, node := range cluster.Nodes() {
				node.Client(t).ScriptFlush(t.Context())
			}
		}
		return limiter.Allow(t.Context(), fmt.Sprint("user:", caller%16), core.TokenBucket(30, core.PerHour(1)))
	})
	if admitted != 480 {
		t.Errorf("%d admitted, want 30 on each of 16 keys", admitted)
	}
}

// disguised hides what client it is.
type disguised struct{ redis.UniversalClient }

// A call about keys in several slots is asked in parts as soon as it is known that
// there are slots.
func TestCallOverAClusterInDisguise(t *testing.T) {
	cluster := redistest.SharedCluster(t)
	limiter := core.New(core.NewRedis(disguised{cluster.Client(t)}, core.WithPrefix(redistest.Prefix(t)), core.WithBudget(patient)))
	limit := core.Leaky(50, core.PerHour(1))
	admitted := hammer(t, func(caller, _ int) (core.Decision, error) {
		d, err := limiter.AllowAll(t.Context(),
			core.Check{Key: "address", Limit: limit.Named("address"), Mode: core.Look},
			core.Check{Key: fmt.Sprint("user:", caller%8), Limit: limit, Cost: 1})
		if err != nil {
			return core.Decision{}, err
		}
		return d[1], nil
	})
	if admitted != 400 {
		t.Errorf("%d admitted, want 50 on each of 8 keys", admitted)
	}
}

// When memory is full, a denial is still a denial, whatever shares its batch.
func TestOutOfMemoryConcernsOnlyCharges(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client(t)
	limiter := core.New(core.NewRedis(client, core.WithPrefix(redistest.Prefix(t)), core.WithBudget(patient),
		core.WithInFlight(1), core.WithBreaker(0, 0)))
	limit := core.Leaky(1, core.PerHour(1))
	if _, err := limiter.Allow(t.Context(), "used up", limit); err != nil {
		t.Fatal(err)
	}
	client.ConfigSet(t.Context(), "maxmemory", "1")
	var group sync.WaitGroup
	for i := range 200 {
		group.Go(func() {
			if i%10 == 0 {
				if _, err := limiter.Allow(t.Context(), fmt.Sprint("new:", i), limit); core.FailureOf(err) != "out-of-memory" {
					t.Errorf("a new key: %v, want an error that is %s", err, "out-of-memory")
				}
				return
			}
			if d, err := limiter.Allow(t.Context(), "used up", limit); err != nil || d.Allowed {
				t.Errorf("the key that is used up: %+v, %v, want a denial", d, err)
			}
		})
	}
	group.Wait()
}

// Callers who leave at random are charged nothing: calls in flight are given back. No caller gets the
// answer to another call.
func TestCallersWhoLeaveAtRandom(t *testing.T) {
	client := redistest.Shared(t).Client(t, func(o *redis.Options) { o.ContextTimeoutEnabled, o.MaxRetries = true, -1 })
	seeds := repeatable.Random(t)
	for _, inFlight := range []int{1, 2} {
		prefix := core.WithPrefix(redistest.Prefix(t))
		store := core.NewRedis(client, prefix, core.WithBudget(patient), core.WithInFlight(inFlight))
		limiter := core.New(store)
		const callers, turns, capacity = 32, 40, 1_000_000
		var admitted, lost [8]atomic.Int64 // by key
		var group sync.WaitGroup
		for caller := range callers {
			random := repeatable.Split(seeds)
			group.Go(func() {
				at := caller % len(admitted)
				for range turns {
					ctx, cancel := context.WithCancel(t.Context())
					stop := time.AfterFunc(time.Duration(random.IntN(2000))*time.Microsecond, cancel)
					// The limit tells whose answer it is.
					limit := core.Leaky(capacity+at, core.PerHour(2))
					d, err := limiter.Allow(ctx, fmt.Sprint("user:", at), limit)
					stop.Stop()
					cancel()
					switch {
					case err == nil && d.Limit == limit && d.Allowed:
						admitted[at].Add(1)
					case errors.Is(err, context.Canceled):
						lost[at].Add(1)
					default:
						t.Errorf("%+v, %v", d, err)
					}
				}
			})
		}
		group.Wait()
		_ = store.Close()
		limiter = core.New(core.NewRedis(client, prefix, core.WithBudget(patient)))
		for at := range admitted {
			limit := core.Leaky(capacity+at, core.PerHour(2))
			d, err := limiter.Peek(t.Context(), fmt.Sprint("user:", at), limit)
			if err != nil {
				t.Fatal(err)
			}
			// What has drained in flight is not given back: parts of one event.
			if charged := int64(limit.Capacity()-d.Remaining) - admitted[at].Load(); charged < 0 || charged > 1 || lost[at].Load() == 0 {
				t.Errorf("key %d: %d charged besides %d admitted, and %d left", at, charged, admitted[at].Load(), lost[at].Load())
			}
		}
	}
}
