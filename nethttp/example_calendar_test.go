package ratelimit_test

import (
	"fmt"
	"net/http"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/keyfuncs"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
)

// A paid plan has a monthly quota from the customer's own day on, and the free tier a daily one that begins
// at midnight in Berlin.
func ExampleCalendar_plans() {
	now := time.Date(2026, time.February, 27, 22, 30, 0, 0, time.UTC)
	limiter := core.New(core.NewMemory(core.WithClock(func() time.Time { return now })))
	defer limiter.Close()

	since := map[string]time.Time{"ada": time.Date(2025, time.October, 31, 8, 0, 0, 0, time.UTC)}
	free := core.Calendar(3, core.Daily("Europe/Berlin")).Named("free")
	user := func(r *http.Request) string { return r.URL.Query().Get("user") }
	quota := ratelimit.New(limiter, ratelimit.Options{}, ratelimit.Policy{
		By: keyfuncs.User(user),
		LimitFor: func(r *http.Request) core.Limit {
			if began, paid := since[user(r)]; paid {
				return core.Calendar(1000, core.MonthlySince(began)).Named("paid")
			}
			return free
		},
	})
	h := quota(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	ask := func(user string) {
		response := request(h, "/?user="+user)
		fmt.Println(now.Format("Jan 2 15:04"), user, response.StatusCode, response.Header.Get("RateLimit"))
	}
	ask("ada") // until the 28th, since February has no 31st
	for range 4 {
		ask("bob")
	}
	now = now.Add(30 * time.Minute) // midnight in Berlin
	ask("bob")
	now = time.Date(2026, time.February, 28, 8, 0, 0, 0, time.UTC)
	ask("ada")
	// Output:
	// Feb 27 22:30 ada 200 "paid";r=999;t=34200
	// Feb 27 22:30 bob 200 "free";r=2;t=1800
	// Feb 27 22:30 bob 200 "free";r=1;t=1800
	// Feb 27 22:30 bob 200 "free";r=0;t=1800
	// Feb 27 22:30 bob 429 "free";r=0;t=1800
	// Feb 27 23:00 bob 200 "free";r=2;t=86400
	// Feb 28 08:00 ada 200 "paid";r=999;t=2678400
}
