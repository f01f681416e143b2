package core_test

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/redistest"
)

// sharedBy is a client of several servers, and those of them to which waiters of a process may listen.
type sharedBy struct {
	client  redis.UniversalClient
	servers []*redistest.Server
	each    bool // they listen to each, and else to one of them
}

func spread(t *testing.T) map[string]sharedBy {
	t.Helper()
	cluster, sentinel := redistest.SharedCluster(t), redistest.StartSentinel(t)
	shards := []*redistest.Server{redistest.Start(t), redistest.Start(t)}
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": shards[0].Addr(), "b": shards[1].Addr()}, MaxRetries: -1})
	t.Cleanup(func() { _ = ring.Close() })
	return map[string]sharedBy{
		"a cluster":  {cluster.Client(t), cluster.Nodes(), false},
		"a ring":     {ring, shards, true},
		"a sentinel": {sentinel.Client(t), []*redistest.Server{sentinel.Master()}, true},
	}
}

// listening waits until so many processes listen where the store tells them of their turns.
func (s sharedBy) listening(t *testing.T, prefix string, want int) {
	t.Helper()
	for deadline := time.Now().Add(patient); ; time.Sleep(5 * time.Millisecond) {
		var each []int
		all := 0
		for _, server := range s.servers {
			channels, err := server.Client(t).PubSubChannels(t.Context(), prefix+":waiting:*").Result()
			if err != nil {
				t.Fatal(err)
			}
			each, all = append(each, len(channels)), all+len(channels)
		}
		if s.each && slices.Min(each) == want && slices.Max(each) == want || !s.each && all == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%v processes listen, want %d", each, want)
		}
	}
}

// In a cluster, on a ring and behind a sentinel waiters are told of their turns, and served in the order of the fleet. When
// the connections break through which they are told, there are others soon.
func TestOrderOfAFleetOnSeveralServers(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts six servers")
	}
	for name, on := range spread(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all, prefix := fleet(t, on.client, 3)
			var group sync.WaitGroup
			for i := range 4 {
				key := fmt.Sprint("key:", i) // on one server or another
				group.Go(func() { placesInOrder(t, on.client, all, prefix, key) })
				group.Go(func() { unitsInOrder(t, on.client, key, core.Leaky(1, core.PerSecond(2)).Named("rate")) })
			}
			group.Wait()
			on.listening(t, prefix, 3)
			for _, server := range on.servers {
				if err := server.Client(t).ClientKillByFilter(t.Context(), "TYPE", "pubsub").Err(); err != nil {
					t.Error(err)
				}
			}
			placesInOrder(t, on.client, all, prefix, "another")
			on.listening(t, prefix, 3)
		})
	}
}

// servedInOrder has limiters ask one after the other, when the one before is known to wait, and says if they are not served in that
// order. begin has the first one served.
func servedInOrder(
	t *testing.T, all []*core.Limiter, known func(want int), take func(l *core.Limiter) (giveBack func(), err error), begin func(),
) (wrong string) {
	t.Helper()
	var mu sync.Mutex
	var order []int
	var group sync.WaitGroup
	for i, l := range all {
		group.Go(func() {
			giveBack, err := take(l)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			order = append(order, i)
			mu.Unlock()
			giveBack()
		})
		known(i + 1)
	}
	begin()
	group.Wait()
	known(0)
	if !slices.IsSorted(order) {
		return fmt.Sprintf("served in the order %v", order)
	}
	return ""
}

// placesInOrder wants the places of a key to go to whichever limiter came first.
func placesInOrder(t *testing.T, client redis.UniversalClient, all []*core.Limiter, prefix, key string) {
	t.Helper()
	limit := core.Concurrent(1, time.Minute).Named("one")
	steadily(t, client, func(try int) string {
		key := fmt.Sprint(key, ":", try)
		held, err := all[0].Acquire(t.Context(), key, limit)
		if err != nil {
			t.Error(err)
			return ""
		}
		return servedInOrder(t, all, func(want int) { registered(t, client, redisKey(prefix, key, limit), want) }, func(l *core.Limiter) (func(), error) {
			p, err := l.Acquire(t.Context(), key, limit)
			return p.Release, err
		}, held.Release)
	})
}

// unitsInOrder wants the units of a key to go to whichever of three limiters came first.
func unitsInOrder(t *testing.T, client redis.UniversalClient, key string, limit core.Quota) {
	t.Helper()
	steadily(t, client, func(int) string { return unitsOutOfOrder(t, client, key, limit) })
}

// unitsOutOfOrder says if the units of a key do not go to whichever of three limiters came first. Until all wait time makes but a
// small step from one to the next, less than a unit takes. The second one waits with WaitAll, for the units of another limit, too.
func unitsOutOfOrder(t *testing.T, client redis.UniversalClient, key string, limit core.Quota) (wrong string) {
	t.Helper()
	const step = 150 * time.Millisecond
	stopped := time.Now()
	var steps atomic.Int64
	var running atomic.Pointer[time.Time]
	all, prefix := fleet(t, client, 3, core.WithClock(func() time.Time {
		now := stopped.Add(time.Duration(steps.Load()) * step)
		if since := running.Load(); since != nil {
			now = now.Add(time.Since(*since))
		}
		return now
	}))
	if _, err := all[0].AllowN(t.Context(), key, limit, limit.Capacity()); err != nil {
		t.Error(err)
		return ""
	}
	return servedInOrder(t, all, func(want int) {
		waitingFor(t, client, prefix, key, limit, want)
		steps.Store(int64(want))
	}, func(l *core.Limiter) (func(), error) {
		if l == all[1] {
			checks := []core.Check{{Key: key + " of all", Limit: core.GCRA(100, core.PerSecond(1))}, {Key: key, Limit: limit, Cost: limit.Capacity()}}
			_, err := l.WaitAll(t.Context(), checks)
			return func() {}, err
		}
		return func() {}, l.WaitN(t.Context(), key, limit, limit.Capacity())
	}, func() {
		now := time.Now()
		running.Store(&now)
	})
}
