package admin_test

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/core/admin"
)

func Example() {
	limiter, _ := core.Open("memory:")
	defer limiter.Close()
	ctx := context.Background()
	limit := core.FixedWindow(10, 24*time.Hour)
	_, _ = limiter.AllowN(ctx, "user:42", limit, 7)

	for cursor := ""; ; {
		keys, next, err := admin.List(ctx, limiter, "user:", cursor)
		if err != nil {
			return
		}
		for _, key := range keys {
			words, _ := admin.Describe(ctx, limiter, key.Key, limit)
			fmt.Println(key.Key, words)
		}
		if cursor = next; cursor == "" {
			break
		}
	}
	// Output: user:42 fixed-window:10:1d: 7 of 10, window ends in 24h0m0s
}
