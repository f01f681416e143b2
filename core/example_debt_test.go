package core_test

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/weir-go/ratelimit/core"
)

// A client declares 1 cent for each call, and uses 50. With debt it pays for them before its next call.
func ExampleQuota_WithDebt() {
	ctx, limiter := context.Background(), core.New(core.NewMemory())
	defer limiter.Close()
	cents := core.TokenBucket(20, core.PerMinute(10)).Named("cents")
	for _, limit := range []core.Quota{cents, cents.WithDebt(100), cents.WithDebt(math.MaxInt)} {
		key := "user:" + limit.String()
		r, err := limiter.Reserve(ctx, core.Check{Key: key, Limit: limit, Cost: 1})
		if err != nil {
			fmt.Println(err)
			return
		}
		if err := r.Settle(ctx, 50); err != nil {
			fmt.Println(err)
			return
		}
		d, _ := limiter.AllowN(ctx, key, limit, 1)
		fmt.Println(limit, "waits for", d.RetryAfter.Round(time.Second))
	}
	// Output:
	// cents: token-bucket 20, 10/m waits for 6s
	// cents: token-bucket 20, 10/m, debt 100 waits for 3m6s
	// cents: token-bucket 20, 10/m, debt unlimited waits for 3m6s
}
