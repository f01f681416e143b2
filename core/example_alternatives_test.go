package core_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/weir-go/ratelimit/core"
)

// Each user has two exports an hour in the plan. Then credits are used up.
func ExampleFirstOf() {
	limiter, err := core.Open("memory:")
	if err != nil {
		log.Fatal(err)
	}
	checks := core.FirstOf(
		core.Check{Key: "user:42", Limit: core.FixedWindow(2, time.Hour).Named("plan")},
		core.Check{Key: "user:42", Limit: core.FixedWindow(1, 30*24*time.Hour).Named("credits")},
	)
	for range 4 {
		decisions, err := limiter.AllowAll(context.Background(), checks...)
		if err != nil {
			log.Fatal(err)
		}
		for _, d := range decisions {
			if d.Waived {
				continue // the other one counts
			}
			fmt.Printf("%s: allowed %t, %d left, retry after %v\n", d.Limit.Name(), d.Allowed, d.Remaining, d.RetryAfter.Round(time.Hour))
		}
	}
	// Output:
	// plan: allowed true, 1 left, retry after 0s
	// plan: allowed true, 0 left, retry after 0s
	// credits: allowed true, 0 left, retry after 0s
	// plan: allowed false, 0 left, retry after 1h0m0s
}

// Two tenants share a limit of 10. Each is guaranteed 3, and borrows the rest.
func ExampleFirstOf_guarantee() {
	limiter, err := core.Open("memory:")
	if err != nil {
		log.Fatal(err)
	}
	shared, guaranteed := core.TokenBucket(10, core.PerHour(10)), core.TokenBucket(3, core.PerHour(3))
	ask := func(tenant string) bool {
		decisions, err := limiter.AllowAll(context.Background(), append(core.FirstOf(
			core.Check{Key: tenant, Limit: guaranteed},
			core.Check{Key: "all", Limit: shared, Headroom: 2 * 3, Mode: core.Condition}, // it is charged below
		), core.Check{Key: "all", Limit: shared})...)
		if err != nil {
			log.Fatal(err)
		}
		_, denied := core.Denied(decisions)
		return !denied
	}
	for _, tenant := range []string{"greedy", "modest"} {
		passed := 0
		for range 20 {
			if ask(tenant) {
				passed++
			}
		}
		fmt.Printf("%s: %d of 20\n", tenant, passed)
	}
	// Output:
	// greedy: 4 of 20
	// modest: 3 of 20
}
