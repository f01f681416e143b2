package core_test

import (
	"context"
	"fmt"
	"log"

	"github.com/weir-go/ratelimit/core"
)

// Two tenants share 9 tokens. One asks without end, and leaves the other its share.
func ExampleFairShare() {
	limiter, err := core.Open("memory:")
	if err != nil {
		log.Fatal(err)
	}
	gpu := core.Check{Key: "gpu", Limit: core.TokenBucket(9, core.PerHour(9))}
	for _, tenant := range []string{"greedy", "newcomer"} {
		passed := 0
		for {
			decisions, err := limiter.AllowAll(context.Background(), core.FairShare(gpu, tenant, 1)...)
			if err != nil {
				log.Fatal(err)
			}
			if d, denied := core.Denied(decisions); denied {
				fmt.Printf("%s: %d passed, then %s denied, with %d of the cap left\n", tenant, passed, d.Limit.Name(), decisions[0].Remaining)
				break
			}
			passed++
		}
	}
	// Output:
	// greedy: 5 passed, then fair-share:token-bucket:9:9/h denied, with 4 of the cap left
	// newcomer: 2 passed, then fair-share:token-bucket:9:9/h denied, with 2 of the cap left
}
