package core_test

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-go/ratelimit/core"
)

// A hot key is decided in the process, and one part in ten of its capacity may be admitted too much.
func ExampleLease() {
	store := core.Lease(core.NewMemory(), core.Tolerance{Over: 0.1}) // or core.NewRedis(client)
	limiter := core.New(store)
	everybody, logins := core.TokenBucket(100_000, core.PerSecond(100_000)), core.SlidingLog(5, 15*time.Minute).Exact()

	leased := false
	for range 10_000 {
		d, err := limiter.Allow(context.Background(), "everybody", everybody)
		if err != nil {
			panic(err)
		}
		if leased = leased || d.Leased; !leased {
			time.Sleep(time.Millisecond / 10)
		}
	}
	fmt.Println("everybody is leased:", leased)
	d, err := limiter.Allow(context.Background(), "user:42", logins)
	if err != nil {
		panic(err)
	}
	fmt.Println("a login is leased:", d.Leased)
	if err := limiter.Close(); err != nil { // which gives back what is left
		panic(err)
	}
	// Output:
	// everybody is leased: true
	// a login is leased: false
}
