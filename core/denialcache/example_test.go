package denialcache_test

import (
	"context"
	"fmt"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/core/denialcache"
)

func ExampleNew() {
	repeated := core.WithTrace(core.Trace{Repeated: func() { fmt.Println("denied from memory") }})
	store := core.NewMemory() // or core.NewRedis(client)
	limiter := core.New(denialcache.New(store, 100_000, repeated))
	defer func() { _ = limiter.Close() }()

	for range 3 {
		d, err := limiter.Allow(context.Background(), "user:42", core.Leaky(1, core.PerHour(1)))
		fmt.Println(d.Allowed, err)
	}
	// Output:
	// true <nil>
	// false <nil>
	// denied from memory
	// false <nil>
}
