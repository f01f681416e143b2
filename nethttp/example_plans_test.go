package ratelimit_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/keyfuncs"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
)

// Plans in a map that is swapped while requests run. Their limits have one name, so
// that what somebody has used of one plan is used of the next.
func ExamplePolicy_limitFor() {
	plan := func(n int) core.Limit { return core.FixedWindow(n, time.Hour).Named("plan") }
	var plans atomic.Pointer[map[string]core.Limit]
	plans.Store(&map[string]core.Limit{"ada": plan(10), "staff": core.Unlimited})

	limiter, _ := core.Open("memory:")
	defer limiter.Close()
	user := func(r *http.Request) string { return r.URL.Query().Get("user") }
	limit := ratelimit.New(limiter, ratelimit.Options{}, ratelimit.Policy{
		By: keyfuncs.User(user),
		LimitFor: func(r *http.Request) core.Limit {
			if limit, known := (*plans.Load())[user(r)]; known {
				return limit
			}
			return plan(3)
		},
	})
	h := limit(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	ask := func(user string) {
		fmt.Println(user, request(h, "/?user="+user).Header.Get("RateLimit"))
	}
	for range 7 {
		request(h, "/?user=ada")
	}
	ask("ada")
	plans.Store(&map[string]core.Limit{"ada": plan(20), "staff": core.Unlimited}) // she upgrades
	ask("ada")
	ask("bob")
	ask("staff")
	// Output:
	// ada "plan";r=2;t=3600
	// ada "plan";r=11;t=3600
	// bob "plan";r=2;t=3600
	// staff
}

// A queue of which three pass at once behind the first, as with nginx's "delay=3", and
// the others at an even pace.
func ExamplePolicy_undelayed() {
	limiter, _ := core.Open("memory:")
	defer limiter.Close()
	queue := ratelimit.New(limiter, ratelimit.Options{}, ratelimit.Policy{
		Limit: core.Shaping(5, core.PerSecond(2)), Queue: ratelimit.QueuePolicy{Undelayed: 3},
	})
	start := time.Now()
	h := queue(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		fmt.Println("released after", time.Since(start).Truncate(500*time.Millisecond))
	}))
	var burst sync.WaitGroup
	for range 5 {
		burst.Go(func() { request(h, "/") })
	}
	burst.Wait()
	// Output:
	// released after 0s
	// released after 0s
	// released after 0s
	// released after 0s
	// released after 500ms
}

// A server that shuts down does not wait for those who are in the queue: they are told
// to come again, and their places are free.
func ExampleOptions_draining() {
	limiter, _ := core.Open("memory:")
	defer limiter.Close()
	stopping, stop := context.WithCancel(context.Background()) // as signal.NotifyContext does
	queue := ratelimit.New(limiter, ratelimit.Options{Draining: stopping, Observe: func(ratelimit.Event) {}},
		ratelimit.Policy{Limit: core.Shaping(5, core.PerMinute(1))})
	h := queue(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	fmt.Println(request(h, "/").StatusCode)

	answer := make(chan int)
	go func() { answer <- request(h, "/").StatusCode }() // its turn comes in a minute
	stop()
	fmt.Println(<-answer)
	// Output:
	// 200
	// 503
}
