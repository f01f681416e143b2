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

// At most two exports of a tenant run at once, on all servers together. The places are given back when the work is
// done, or when their lease ends because this process has died.
func ExampleLimiter_Acquire() {
	limiter, _ := core.Open("memory:")
	defer limiter.Close()
	ctx, exports := context.Background(), core.Concurrent(2, 30*time.Second).Named("exports")

	first, _ := limiter.Acquire(ctx, "tenant:7", exports)
	second, _ := limiter.Acquire(ctx, "tenant:7", exports)
	defer second.Release()
	_, err := limiter.TryAcquire(ctx, "tenant:7", exports)
	if _, limited := errors.AsType[*core.LimitedError](err); limited {
		fmt.Println("two are running")
	}
	first.Release()
	third, err := limiter.Acquire(ctx, "tenant:7", exports, core.WithLongestWait(10*time.Second))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer third.Release()
	fmt.Println("a third one runs:", third.Context().Err() == nil)
	fmt.Println("its token is the greatest:", third.Token() > second.Token())
	// Output:
	// two are running
	// a third one runs: true
	// its token is the greatest: true
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
