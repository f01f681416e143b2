package core_test

import (
	"context"
	"flag"
	"net"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/core/internal/inspect"
	"github.com/weir-go/ratelimit/core/storetest"
	"github.com/weir-go/ratelimit/internal/redistest"
	"github.com/weir-go/ratelimit/internal/repeatable"
)

// TestMain runs fewer random examples than rapid does by itself, so that the
// laws are quick to check: -rapid.checks=1000 looks closer. Each run draws others, and a
// failure says which flag repeats it. Twice as many tests as usual run in parallel, since the laws wait
// for Redis half of the time.
func TestMain(m *testing.M) {
	if _, given := os.LookupEnv("RAPID_CHECKS"); !given {
		examples := "30"
		if repeatable.Raced {
			examples = "10"
		}
		_ = flag.Set("rapid.checks", examples) // given on the command line, it is parsed later
	}
	_ = flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0)))
	if work := os.Getenv(childWork); work != "" {
		os.Exit(beChild(work))
	}
	if work := os.Getenv(childCrowd); work != "" {
		os.Exit(beCrowd(work))
	}
	if work := os.Getenv(childTenant); work != "" {
		os.Exit(beTenant(work))
	}
	if url := os.Getenv(pingWork); url != "" {
		os.Exit(bePinging(url))
	}
	// The first lookup of a name makes channels that all lookups share: it must not come in a bubble
	// of package synctest.
	_, _ = net.DefaultResolver.LookupHost(context.Background(), "localhost")
	os.Exit(redistest.Run(m))
}

func newMemory(_ *testing.T, now func() time.Time) core.Store {
	return core.NewMemory(core.WithClock(now))
}

// keysIn returns how many keys a store in memory holds, each counted under each of its limits.
func keysIn(store core.Store) int {
	return inspect.StoreOf(core.New(store)).Memory.Len()
}

// repairedBy returns how many keys a store on Redis has repaired.
func repairedBy(store core.Store) int64 {
	return inspect.StoreOf(core.New(store)).Redis.Repaired()
}

// newRedis returns a factory of stores on the shared server. The tests share a
// client, and each store has keys of its own.
func newRedis(t *testing.T, options ...core.Option) storetest.Factory {
	client := redistest.Shared(t).Client(t)
	return func(t *testing.T, now func() time.Time) core.Store {
		return core.NewRedis(client, append(options,
			core.WithClock(now), core.WithPrefix(redistest.Prefix(t)), core.WithBudget(time.Minute))...)
	}
}
