package core_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/core/denialcache"
	"github.com/weir-go/ratelimit/internal/redistest"
)

// givingBack is a client's hook that holds what gives back charges, until it is released.
type givingBack struct {
	calls   atomic.Int64
	release chan struct{} // nil: nothing is held
}

func (g *givingBack) DialHook(next redis.DialHook) redis.DialHook { return next }

func (g *givingBack) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		g.see(command)
		return next(ctx, command)
	}
}

func (g *givingBack) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		for _, command := range commands {
			g.see(command)
		}
		return next(ctx, commands)
	}
}

func (g *givingBack) see(command redis.Cmder) {
	givesBack := func(argument any) bool { return fmt.Sprint(argument) == "-1" } // as many units
	if !slices.ContainsFunc(command.Args(), givesBack) {
		return
	}
	g.calls.Add(1)
	if g.release != nil {
		<-g.release
	}
}

// A call over several keys charges some of them and gives that back, because another key denies it. The
// cache does not repeat denials that are due to such charges.
func TestDenialCacheForgetsWhatAClusterGivesBack(t *testing.T) {
	const innocents = 40
	hook := &givingBack{release: make(chan struct{})}
	client := redistest.SharedCluster(t).Client(t, func(o *redis.ClusterOptions) {
		o.NewClient = func(node *redis.Options) *redis.Client {
			client := redis.NewClient(node)
			client.AddHook(hook)
			return client
		}
	})
	start := time.Now() // no denial gets too old, however slow the machine is
	var repeated atomic.Int64
	cache := denialcache.New(core.NewRedis(client, core.WithPrefix(redistest.Prefix(t)), core.WithBudget(patient)), 1000,
		core.WithClock(func() time.Time { return start }), core.WithTrace(core.Trace{Repeated: func() { repeated.Add(1) }}))
	limiter, l := core.New(cache), core.FixedWindow(1, time.Hour)
	if _, err := limiter.Allow(t.Context(), "guilty", l); err != nil {
		t.Fatal(err)
	}
	checks := []core.Check{{Key: "guilty", Limit: l, Cost: 1}}
	for i := range innocents {
		checks = append(checks, core.Check{Key: fmt.Sprint("innocent-", i), Limit: l, Cost: 1})
	}
	var several sync.WaitGroup
	several.Go(func() {
		if d, err := limiter.AllowAll(t.Context(), checks...); err != nil || d[0].Allowed || !d[1].Allowed {
			t.Error(d, err)
		}
	})
	for deadline := time.Now().Add(time.Minute); hook.calls.Load() == 0 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	for _, check := range checks[1:] { // while they are charged
		if d, err := limiter.Allow(t.Context(), check.Key, l); err != nil || d.Allowed {
			t.Fatalf("%+v, %v, want a denial by the charge that is to be given back", d, err)
		}
	}
	close(hook.release)
	several.Wait()
	for _, check := range checks[1:] {
		if d, err := limiter.Allow(t.Context(), check.Key, l); err != nil || !d.Allowed {
			t.Errorf("%s, which was not charged: %+v, %v", check.Key, d, err)
		}
	}
	// The denial of the guilty one is known, so the others are neither charged nor given back.
	if d, err := limiter.Allow(t.Context(), "guilty", l); err != nil || d.Allowed {
		t.Fatal(d, err)
	}
	before, repeatedBefore := hook.calls.Load(), repeated.Load()
	for range 4 {
		d, err := limiter.AllowAll(t.Context(), checks[0], core.Check{Key: "another", Limit: l, Cost: 1})
		if err != nil || d[0].Allowed || !d[1].Allowed || d[1].Remaining != 1 {
			t.Errorf("%+v, %v, want one denied, and the other with its 1 left", d, err)
		}
	}
	if calls := hook.calls.Load() - before; calls != 0 || repeated.Load() != repeatedBefore {
		t.Errorf("%d charges were given back of calls that are known to be denied", calls)
	}
}
