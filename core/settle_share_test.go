package core_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/core/denialcache"
	"github.com/weir-go/ratelimit/internal/redistest"
)

// What a cluster charges for calls that another of their keys denies is given back, however many
// there are at once.
func TestBurstOfDeniedCallsLeavesNothingCharged(t *testing.T) {
	cluster := redistest.SharedCluster(t)
	limiter := core.New(core.NewRedis(cluster.Client(t), core.WithPrefix(redistest.Prefix(t)), core.WithBudget(patient)))
	if err := limiter.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	roomy, full := core.Leaky(1000, core.PerDay(1)), core.FixedWindow(1, time.Hour)
	if _, err := limiter.Allow(t.Context(), "full", full); err != nil {
		t.Fatal(err)
	}
	const burst, keys = 1000, 50
	var group sync.WaitGroup
	for i := range burst {
		group.Go(func() {
			d, err := limiter.AllowAll(t.Context(),
				core.Check{Key: fmt.Sprint("innocent:", i%keys), Limit: roomy, Cost: 1}, core.Check{Key: "full", Limit: full, Cost: 1})
			if err != nil || d[1].Allowed {
				t.Errorf("%+v, %v", d, err)
			}
		})
	}
	group.Wait()
	for key := range keys {
		d, err := limiter.Peek(t.Context(), fmt.Sprint("innocent:", key), roomy)
		if err != nil || d.Remaining != 1000 {
			t.Errorf("key %d: %d are charged, %v", key, 1000-d.Remaining, err)
		}
	}
}

// A reservation is settled even if its caller's context has ended.
func TestSettleDoesNotDependOnTheContext(t *testing.T) {
	for name, store := range map[string]core.Store{
		"redis":  core.NewRedis(redistest.Shared(t).Client(t), core.WithPrefix(redistest.Prefix(t)), core.WithBudget(patient)),
		"memory": core.NewMemory(),
		"cached": denialcache.New(core.NewMemory(), 10),
	} {
		t.Run(name, func(t *testing.T) {
			limiter, limit := core.New(store), core.Leaky(10, core.PerHour(1))
			r, err := limiter.Reserve(t.Context(), core.Check{Key: "key", Limit: limit, Cost: 4})
			if err != nil {
				t.Fatal(err)
			}
			gone, cancel := context.WithCancel(t.Context())
			cancel()
			if err := r.Cancel(gone); err != nil {
				t.Error(err)
			}
			if d, err := limiter.Peek(t.Context(), "key", limit); err != nil || d.Remaining != 10 {
				t.Errorf("%d remain, %v", d.Remaining, err)
			}
			if err := r.Cancel(t.Context()); err == nil || errors.Is(err, core.ErrNotDone) {
				t.Errorf("settled again: %v", err)
			}
		})
	}
}

// A settlement that was not sent can be sent again: while the breaker is open, say.
func TestSettlementThatWasNotSentCanBeSentAgain(t *testing.T) {
	server := redistest.Start(t)
	limiter, err := core.Open(server.URL(), core.WithBreaker(1, time.Hour), core.WithBudget(patient), core.WithPrefix(redistest.Prefix(t)))
	if err != nil {
		t.Fatal(err)
	}
	defer limiter.Close()
	second, err := core.Open(server.URL(), core.WithBudget(patient), core.WithPrefix(redistest.Prefix(t)))
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	limit := core.Leaky(10, core.PerHour(1))
	r, err := second.Reserve(t.Context(), core.Check{Key: "key", Limit: limit, Cost: 4})
	if err != nil {
		t.Fatal(err)
	}
	server.Stop(t)
	for range 3 {
		if err := r.Settle(t.Context(), 1); !errors.Is(err, core.ErrNotDone) {
			t.Errorf("error %v, want one that says that nothing was done", err)
		}
	}
	server.Restart(t)
	// What was charged is lost with the server, so that it is enough to see the settlement arrive.
	for deadline := time.Now().Add(time.Minute); ; {
		err := r.Settle(t.Context(), 1)
		if err == nil {
			break
		}
		if !errors.Is(err, core.ErrNotDone) || time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	if err := r.Settle(t.Context(), 1); err == nil || errors.Is(err, core.ErrNotDone) {
		t.Errorf("settled again: %v", err)
	}
}

// Where a cluster has settled a part, the rest can be settled, and no part twice.
func TestSettlementInParts(t *testing.T) {
	one, two := redistest.Start(t), redistest.Start(t)
	ring := redis.NewRing(&redis.RingOptions{
		Addrs: map[string]string{"one": one.Addr(), "two": two.Addr()}, HeartbeatFrequency: time.Hour, MaxRetries: -1,
		NewClient: func(o *redis.Options) *redis.Client {
			o.ContextTimeoutEnabled = true
			return redis.NewClient(o)
		},
	})
	defer ring.Close()
	limiter := core.New(core.NewRedis(ring, core.WithBudget(patient), core.WithLogger(discard), core.WithBreaker(0, 0)))
	limit := core.FixedWindow(10, time.Hour)
	var checks []core.Check // of keys on both
	for i, shards := 0, map[string]bool{}; len(shards) < 2; i++ {
		key := fmt.Sprint("key:", i)
		client, err := ring.GetShardClientForKey(key)
		if err != nil {
			t.Fatal(err)
		}
		if !shards[client.Options().Addr] {
			shards[client.Options().Addr] = true
			checks = append(checks, core.Check{Key: key, Limit: limit, Cost: 4})
		}
	}
	r, err := limiter.Reserve(t.Context(), checks...)
	if err != nil || !r.Allowed() {
		t.Fatal(err)
	}
	two.Stop(t)
	if err := r.Settle(t.Context(), 1, 1); err == nil || errors.Is(err, core.ErrNotDone) {
		t.Errorf("error %v, want one that says that a part was done", err)
	}
	two.Restart(t)
	if err := r.Settle(t.Context(), 1, 1); err != nil {
		t.Errorf("the rest: %v", err)
	}
	if err := r.Settle(t.Context(), 0, 0); err == nil {
		t.Error("settled again")
	}
	alive := 0
	for _, c := range checks {
		d, err := limiter.Peek(t.Context(), c.Key, limit)
		if err != nil {
			t.Fatal(err)
		}
		if d.Remaining == 9 {
			alive++
		}
	}
	if alive != 1 { // the other one was lost with its server
		t.Errorf("%d of the two keys have 9 left, want 1", alive)
	}
}

// Where Redis has refused a part of a settlement for want of a permission, it may have refused in the middle of that part.
// So no part is settled twice, neither the one that was refused nor the other one.
func TestSettlementThatIsRefusedInPart(t *testing.T) {
	server := redistest.Start(t)
	admin := server.Client(t)
	redistest.SetUser(t, admin, "limiter", redistest.Without(redistest.AloneUser, "+lrem"))
	client := server.Client(t, func(o *redis.Options) { o.Username, o.Password = "limiter", "secret" })
	limiter := core.New(core.NewRedis(client, core.WithBudget(patient), core.WithLogger(discard)))
	leaky, log := core.Leaky(100, core.PerHour(1)), core.SlidingLog(10, time.Hour)
	allow := ask(t, limiter)
	allow("key", leaky, 50)
	r, err := limiter.Reserve(t.Context(), core.Check{Key: "key", Limit: leaky, Cost: 10}, core.Check{Key: "key", Limit: log, Cost: 5})
	if err != nil {
		t.Fatal(err)
	}
	left := func() [2]int { return [2]int{allow("key", leaky, 0).Remaining, allow("key", log, 0).Remaining} }
	err = r.Settle(t.Context(), 0, 4)
	if err == nil || errors.Is(err, core.ErrNotDone) || core.FailureOf(err) != "not-permitted" {
		t.Errorf("error %v, want that it is not permitted, and not that nothing was done", err)
	}
	told := func() [2]int { return [2]int{r.Decisions()[0].Remaining, r.Decisions()[1].Remaining} }
	if got := left(); got != [2]int{50, 5} || told() != got {
		t.Errorf("%d left, and told that %d are, want 50 and 5: one part is settled", got, told())
	}
	redistest.SetUser(t, admin, "limiter", redistest.AloneUser)
	if err := r.Settle(t.Context(), 0, 4); !errors.Is(err, core.ErrSettled) {
		t.Errorf("settled again: %v", err)
	}
	if got := left(); got != [2]int{50, 5} {
		t.Errorf("%d left, want 50 and 5 as before", got)
	}
}
