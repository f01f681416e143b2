package core_test

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-go/ratelimit/core"
)

// A language model's answer is paid by its length, which is known at its end: reserve
// an estimate, and pay the real number.
func ExampleLimiter_Reserve() {
	limiter, _ := core.Open("memory:")
	defer limiter.Close()
	ctx := context.Background()
	tokens := core.FixedWindow(10_000, time.Hour).Named("tokens")

	reservation, err := limiter.Reserve(ctx, core.Check{Key: "user:42", Limit: tokens, Cost: 2_000})
	if err != nil || !reservation.Allowed() {
		return
	}
	used := 1_234 // as the model tells
	if err := reservation.Settle(ctx, used); err != nil {
		return
	}
	d, _ := limiter.Peek(ctx, "user:42", tokens)
	fmt.Println(d.Remaining, "tokens left")
	// Output: 8766 tokens left
}

func ExampleLimiter_Refund() {
	limiter, _ := core.Open("memory:")
	defer limiter.Close()
	ctx := context.Background()
	exports := core.FixedWindow(3, 24*time.Hour)

	d, _ := limiter.Allow(ctx, "user:42", exports)
	fmt.Println(d.Remaining)
	d, _ = limiter.Refund(ctx, "user:42", exports, 1) // the export failed, and it was our fault
	fmt.Println(d.Remaining)
	d, _ = limiter.Charge(ctx, "user:42", exports, 5) // whatever is left
	fmt.Println(d.Remaining)
	// Output:
	// 2
	// 3
	// 0
}

// A job runs only while fewer than five errors have been counted: a condition, to which
// the request adds nothing.
func ExampleCheck_uncharged() {
	limiter, _ := core.Open("memory:")
	defer limiter.Close()
	ctx := context.Background()
	jobs, errs := core.Leaky(10, core.PerHour(10)).Named("jobs"), core.FixedWindow(5, time.Hour).Named("errors")
	for range 7 {
		decisions, _ := limiter.AllowAll(ctx,
			core.Check{Key: "importer", Limit: jobs, Cost: 1},
			core.Check{Key: "importer", Limit: errs, Mode: core.Condition})
		if !decisions[1].Allowed {
			fmt.Println("too many errors; jobs left:", decisions[0].Remaining)
			return
		}
		_, _ = limiter.Charge(ctx, "importer", errs, 1) // the job has failed
	}
	// Output: too many errors; jobs left: 5
}
