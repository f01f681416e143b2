package core_test

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-go/ratelimit/core"
)

// A stream reserves more as it goes on, and is cut where the budget ends. It pays what it has used.
func ExampleReservation_Grow() {
	limiter := core.New(core.NewMemory())
	defer limiter.Close()
	ctx := context.Background()
	budget := core.Calendar(250, core.Monthly("UTC")).Named("budget")

	answer, err := limiter.Reserve(ctx, core.Check{Key: "user:42", Limit: budget, Cost: 100})
	if err != nil || !answer.Allowed() {
		return
	}
	used := 0
	for reserved := 100; ; reserved += 100 {
		grown, err := answer.Grow(ctx, reserved) // in all: nothing is charged for what is reserved already
		if err != nil {
			return
		}
		fmt.Println(reserved, "reserved:", grown[0].Allowed, "left:", grown[0].Remaining)
		if !grown[0].Allowed {
			break
		}
		used += 90
	}
	if err := answer.Settle(ctx, used); err != nil {
		return
	}
	d, _ := limiter.Peek(ctx, "user:42", budget)
	fmt.Println(used, "used, left:", d.Remaining)
	// Output:
	// 100 reserved: true left: 150
	// 200 reserved: true left: 50
	// 300 reserved: false left: 50
	// 180 used, left: 70
}

// What a process has reserved and never settles, since it dies, is given back ten minutes later. What it has
// reserved of a budget that is paid for stays charged.
func ExampleCheck_reserveFor() {
	now := time.Date(2026, time.March, 2, 9, 0, 0, 0, time.UTC)
	limiter := core.New(core.NewMemory(core.WithClock(func() time.Time { return now })))
	defer limiter.Close()
	ctx := context.Background()
	tokens := core.FixedWindow(1_000, time.Hour).Named("tokens")
	budget := core.Calendar(10_000, core.Monthly("UTC")).Named("budget")

	for range 3 {
		answer, err := limiter.Reserve(ctx,
			core.Check{Key: "user:42", Limit: tokens, Cost: 800, ReserveFor: 10 * time.Minute},
			core.Check{Key: "user:42", Limit: budget, Cost: 800})
		if err != nil {
			return
		}
		d := answer.Decisions()
		fmt.Println(now.Format("15:04"), answer.Allowed(), "tokens:", d[0].Remaining, "budget:", d[1].Remaining)
		now = now.Add(5 * time.Minute) // and nobody settles
	}
	// Output:
	// 09:00 true tokens: 200 budget: 9200
	// 09:05 false tokens: 200 budget: 9200
	// 09:10 true tokens: 200 budget: 8400
}
