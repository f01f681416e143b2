package ratelimit_test

import (
	"fmt"
	"log"
	"net/http"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
)

// A free tier has two requests a day, and a day begins at midnight in Berlin.
func ExampleCalendar() {
	now := time.Date(2026, time.July, 31, 21, 0, 0, 0, time.UTC) // 23:00 in Berlin
	limiter := core.New(core.NewMemory(core.WithClock(func() time.Time { return now })))
	defer limiter.Close()
	handler := ratelimit.Calendar(limiter, 2, core.Daily("Europe/Berlin"), keyfuncs.Header("X-API-Key"))(http.HandlerFunc(item))

	for range 3 {
		answer := request(handler, "/")
		fmt.Println(answer.StatusCode, answer.Header.Get("RateLimit"))
	}
	now = now.Add(time.Hour)
	fmt.Println(request(handler, "/").StatusCode)
	// Output:
	// 200 "calendar:2:day:Europe/Berlin";r=1;t=3600
	// 200 "calendar:2:day:Europe/Berlin";r=0;t=3600
	// 429 "calendar:2:day:Europe/Berlin";r=0;t=3600
	// 200
}

// The plan is charged while it lasts, and then the credits. The client is told which of them was.
func Example_firstOf() {
	limiter, err := core.Open("memory:")
	if err != nil {
		log.Fatal(err)
	}
	user := keyfuncs.User(func(r *http.Request) string { return r.URL.Query().Get("user") })
	limit := ratelimit.New(limiter, ratelimit.Options{}, guard.FirstOf(
		ratelimit.Policy{Limit: core.FixedWindow(1, time.Hour).Named("plan"), By: user},
		ratelimit.Policy{Limit: core.FixedWindow(2, 24*time.Hour).Named("credits"), By: user},
	)...)
	handler := limit(http.HandlerFunc(item))

	for range 4 {
		answer := request(handler, "/?user=ada")
		fmt.Println(answer.StatusCode, answer.Header.Get("RateLimit"))
	}
	// Output:
	// 200 "plan";r=0;t=3600
	// 200 "credits";r=1;t=86400
	// 200 "credits";r=0;t=86400
	// 429 "plan";r=0;t=3600
}

// Batch jobs share a limit with users, and leave two of it to them.
func ExamplePolicy_headroom() {
	limiter, err := core.Open("memory:")
	if err != nil {
		log.Fatal(err)
	}
	limit := ratelimit.New(limiter, ratelimit.Options{}, ratelimit.Policy{
		Limit: core.FixedWindow(4, time.Hour).Named("api"), By: keyfuncs.Global,
		Headroom: func(r *http.Request) int {
			if r.URL.Path == "/batch" {
				return 2
			}
			return 0
		},
	})
	handler := limit(http.HandlerFunc(item))

	for _, path := range []string{"/batch", "/batch", "/batch", "/", "/"} {
		answer := request(handler, path)
		fmt.Println(path, answer.StatusCode, answer.Header.Get("RateLimit"))
	}
	// Output:
	// /batch 200 "api";r=3;t=3600
	// /batch 200 "api";r=2;t=3600
	// /batch 429 "api";r=2;t=3600
	// / 200 "api";r=1;t=3600
	// / 200 "api";r=0;t=3600
}

// Two wrong passwords ban an address from an account for a minute, and for longer each time. While the ban is in force, the
// right one is denied, too. Places bound the guesses in flight, which no strike has been made for yet. The limiter is around the login
// alone: any other answer with 200 would forgive.
func ExamplePolicy_ban() {
	limiter, err := core.Open("memory:")
	if err != nil {
		log.Fatal(err)
	}
	guessing := core.Ban{Strikes: core.SlidingLog(2, 10*time.Minute), First: time.Minute}.Named("guessing")
	addressAndUser := keyfuncs.Join(keyfuncs.RemoteIP, keyfuncs.User(func(r *http.Request) string { return r.URL.Query().Get("user") }))
	limit := ratelimit.New(limiter, ratelimit.Options{},
		ratelimit.Policy{Limit: core.Concurrent(2, 30*time.Second), By: addressAndUser}, // guesses in flight
		ratelimit.Policy{Ban: ratelimit.BanPolicy{
			Ban: guessing,
			Strike: func(_ *http.Request, served ratelimit.Served) int {
				if served.Status == http.StatusUnauthorized {
					return 1
				}
				return 0
			},
			// A login that succeeds clears the strikes of this user from this address.
			Forgive: func(_ *http.Request, served ratelimit.Served) bool { return served.Status == http.StatusOK },
		}, By: addressAndUser},
	)
	handler := limit(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("password") != "secret" {
			http.Error(w, "the password is wrong", http.StatusUnauthorized)
		}
	}))

	for _, password := range []string{"guess", "secret", "guess", "guess", "secret"} {
		fmt.Println(password, request(handler, "/login?user=ada&password="+password).StatusCode)
	}
	// Output:
	// guess 401
	// secret 200
	// guess 401
	// guess 401
	// secret 403
}
