package core_test

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-go/ratelimit/core"
)

// A client has two calls a day in its plan, and pays with credits for more.
func ExampleBalance() {
	ctx, limiter := context.Background(), core.New(core.NewMemory()) // in production core.NewRedis: memory forgets
	plan := core.FixedWindow(2, 24*time.Hour).Named("plan")
	credits := core.Balance().Named("credits")
	for range 2 { // the payment is told twice
		d, repeated, err := limiter.TopUp(ctx, "user:42", credits, 3, "payment-7")
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(d.Remaining, "credits, repeated:", repeated)
	}
	for range 6 {
		decisions, err := limiter.AllowAll(ctx, core.FirstOf(
			core.Check{Key: "user:42", Limit: plan}, core.Check{Key: "user:42", Limit: credits})...)
		if err != nil {
			fmt.Println(err)
			return
		}
		_, denied := core.Denied(decisions)
		fmt.Printf("denied: %t, plan %d, credits %d\n", denied, decisions[0].Remaining, decisions[1].Remaining)
	}
	// Output:
	// 3 credits, repeated: false
	// 3 credits, repeated: true
	// denied: false, plan 1, credits 3
	// denied: false, plan 0, credits 3
	// denied: false, plan 0, credits 2
	// denied: false, plan 0, credits 1
	// denied: false, plan 0, credits 0
	// denied: true, plan 0, credits 0
}
