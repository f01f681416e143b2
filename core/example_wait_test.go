package core_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weir-go/ratelimit/core"
)

// A worker respects a partner's five calls a second, and gives up where that would take
// too long.
func ExampleLimiter_Do() {
	limiter, _ := core.Open("memory:")
	defer limiter.Close()
	partner := core.Leaky(1, core.PerSecond(5)).Named("partner")
	call := func(context.Context) error {
		fmt.Println("called")
		return nil
	}
	ctx := context.Background()
	for range 2 {
		_ = limiter.Do(ctx, "partner", partner, call) // waits its turn
	}
	err := limiter.Do(ctx, "partner", partner, call, core.WithLongestWait(time.Millisecond))
	if limited, ok := errors.AsType[*core.LimitedError](err); ok {
		fmt.Println("too busy, come again in", limited.Decision.RetryAfter.Round(100*time.Millisecond))
	}
	// Output:
	// called
	// called
	// too busy, come again in 200ms
}

// A partner has answered "retry after 300 ms": all waiters in the fleet that heed it wait
// so long.
func ExampleLimiter_HoldBack() {
	limiter, _ := core.Open("memory:")
	defer limiter.Close()
	ctx, partner := context.Background(), core.Leaky(10, core.PerSecond(10)).Named("partner")

	_ = limiter.HoldBack(ctx, "partner", 300*time.Millisecond)
	start := time.Now()
	_ = limiter.Wait(ctx, "partner", partner) // does not heed it
	fmt.Println("went on after", time.Since(start).Truncate(300*time.Millisecond))
	_ = limiter.Wait(ctx, "partner", partner, core.WithHoldBack())
	fmt.Println("went on after", time.Since(start).Truncate(300*time.Millisecond))
	// Output:
	// went on after 0s
	// went on after 300ms
}
