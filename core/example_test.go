package core_test

import (
	"context"
	"crypto/x509"
	"fmt"
	"log"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core"
)

func ExampleLimiter_Allow() {
	limiter := core.New(core.NewMemory()) // or core.Open("redis://localhost:6379")
	limit := core.FixedWindow(2, time.Hour)
	for range 3 {
		decision, err := limiter.Allow(context.Background(), "user:42", limit)
		if err != nil {
			log.Fatal(err) // the call could not be answered
		}
		fmt.Println(decision.Allowed, decision.Remaining)
	}
	// Output:
	// true 1
	// true 0
	// false 0
}

// A burst and a daily quota, asked together: either both are charged or none.
func ExampleLimiter_AllowAll() {
	limiter := core.New(core.NewMemory())
	burst := core.Leaky(10, core.PerMinute(1))
	quota := core.FixedWindow(5, 24*time.Hour)
	for range 2 {
		decisions, err := limiter.AllowAll(context.Background(),
			core.Check{Key: "user:42", Limit: burst, Cost: 3},
			core.Check{Key: "user:42", Limit: quota, Cost: 3})
		if err != nil {
			log.Fatal(err)
		}
		for _, decision := range decisions {
			fmt.Println(decision.Limit, decision.Allowed, decision.Remaining)
		}
	}
	// Output:
	// leaky 10, 1/m true 7
	// fixed-window 5, 1d true 2
	// leaky 10, 1/m true 7
	// fixed-window 5, 1d false 2
}

// Users and batch jobs share a limit of 10. Batch jobs leave 3 of it to the users, who do not notice them.
func ExampleCheck_headroom() {
	limiter := core.New(core.NewMemory())
	limit := core.Leaky(10, core.PerHour(1))
	ask := func(check core.Check) core.Decision {
		check.Key, check.Limit = "partner:mail", limit
		decisions, err := limiter.AllowAll(context.Background(), check)
		if err != nil {
			log.Fatal(err)
		}
		return decisions[0]
	}
	jobs := 0
	for ask(core.Check{Headroom: 3}).Allowed {
		jobs++
	}
	users := 0
	for ask(core.Check{}).Allowed {
		users++
	}
	fmt.Println(jobs, "jobs and", users, "users")
	fmt.Println("the next user in", ask(core.Check{}).RetryAfter.Round(time.Hour))
	fmt.Println("the next job in", ask(core.Check{Headroom: 3}).RetryAfter.Round(time.Hour))
	// Output:
	// 7 jobs and 3 users
	// the next user in 1h0m0s
	// the next job in 4h0m0s
}

func ExampleLimiter_Peek() {
	limiter := core.New(core.NewMemory())
	limit := core.TokenBucket(1, core.PerHour(1))
	for range 2 { // charges nothing
		decision, err := limiter.Peek(context.Background(), "user:42", limit)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(decision.Allowed, decision.Remaining)
	}
	// Output:
	// true 1
	// true 1
}

// A named limit keeps what was used when its numbers change.
func ExampleQuota_Named() {
	limiter := core.New(core.NewMemory())
	free := core.FixedWindow(10, time.Hour).Named("plan")
	paid := core.FixedWindow(20, time.Hour).Named("plan")
	for _, limit := range []core.Quota{free, paid} {
		decision, err := limiter.AllowN(context.Background(), "user:42", limit, 7)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(limit, "leaves", decision.Remaining)
	}
	// Output:
	// plan: fixed-window 10, 1h leaves 3
	// plan: fixed-window 20, 1h leaves 6
}

// If Redis' certificate comes from an authority of your own, tell the client to trust
// it.
func ExampleNewRedis_privateAuthority() {
	authorities := x509.NewCertPool() // with authorities.AppendCertsFromPEM(what is in your file)
	options, err := redis.ParseURL("rediss://limiter:secret@redis.internal:6379")
	if err != nil {
		log.Fatal(err)
	}
	options.TLSConfig.RootCAs = authorities
	options.MaxRetries = -1              // a call that timed out may have been charged
	options.ContextTimeoutEnabled = true // and it ends with its budget
	client := redis.NewClient(options)
	defer client.Close()

	limiter := core.New(core.NewRedis(client)) // sends nothing yet
	defer limiter.Close()
	fmt.Println(options.Addr, "must show a certificate for", options.TLSConfig.ServerName)
	// Output: redis.internal:6379 must show a certificate for redis.internal
}

func ExampleParseLimit() {
	limit, err := core.ParseLimit("login: sliding-log 5, 15m")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(limit.Name(), limit.Algorithm(), limit.Capacity(), limit.Rate().Period)
	_, err = core.ParseLimit("leaky 0, 1/s")
	fmt.Println(err)
	// Output:
	// login sliding-log 5 15m0s
	// core: leaky 0, 1/s: capacity 0 is less than 1
}

// A billing period ends on the customer's day of the month, or on the last day of a month that is too short.
func ExampleMonthlySince() {
	now := time.Date(2026, time.February, 20, 12, 0, 0, 0, time.UTC)
	limiter := core.New(core.NewMemory(core.WithClock(func() time.Time { return now })))
	defer limiter.Close()

	began := time.Date(2025, time.October, 31, 8, 30, 0, 0, time.UTC)
	quota := core.Calendar(10_000, core.MonthlySince(began))
	decision, err := limiter.AllowN(context.Background(), "customer:7", quota, 250)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(quota)
	fmt.Println(decision.Remaining, "left until", now.Add(decision.ResetAfter))
	// Output:
	// calendar 10000, month@31T08:30 UTC
	// 9750 left until 2026-02-28 08:30:00 +0000 UTC
}
