package core_test

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-go/ratelimit/core"
)

func ExampleBan() {
	limiter := core.New(core.NewMemory())
	brute := core.Ban{Strikes: core.SlidingLog(5, 10*time.Minute), First: 10 * time.Minute}.Named("logins")
	ctx, key := context.Background(), "ip:203.0.113.9"
	for range 5 { // five wrong passwords
		d, err := limiter.Strike(ctx, key, brute, 1)
		if err != nil {
			return
		}
		fmt.Println(d.Remaining, "left, a ban has begun:", d.Began)
	}
	left, _ := limiter.Banned(ctx, key, brute)
	fmt.Println("banned:", left > 9*time.Minute && left <= 11*time.Minute)
	_ = limiter.Lift(ctx, key, brute)
	left, _ = limiter.Banned(ctx, key, brute)
	fmt.Println("lifted:", left == 0)
	// Output:
	// 4 left, a ban has begun: false
	// 3 left, a ban has begun: false
	// 2 left, a ban has begun: false
	// 1 left, a ban has begun: false
	// 0 left, a ban has begun: true
	// banned: true
	// lifted: true
}
