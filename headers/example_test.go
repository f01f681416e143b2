package headers_test

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/headers"
)

func Example() {
	decided := []headers.Outcome{
		{Name: "burst", Decision: core.Decision{
			Allowed:    true,
			Limit:      core.Leaky(10, core.PerSecond(1)),
			Remaining:  9,
			NextAfter:  time.Second,
			ResetAfter: time.Second,
		}},
		{Name: "daily", Decision: core.Decision{
			Allowed:    true,
			Limit:      core.FixedWindow(1000, 24*time.Hour),
			Remaining:  640,
			NextAfter:  5 * time.Hour,
			ResetAfter: 5 * time.Hour,
		}},
	}

	h := http.Header{}
	headers.Draft.Write(h, decided)
	fmt.Println("RateLimit-Policy:", h.Get("RateLimit-Policy"))
	fmt.Println("RateLimit:", h.Get("RateLimit"))
	// Output:
	// RateLimit-Policy: "burst";q=1;w=1;weir-burst=10, "daily";q=1000;w=86400
	// RateLimit: "burst";r=9;t=9, "daily";r=640;t=55296
}

func ExampleJoin() {
	w := headers.Join(headers.Draft, headers.Legacy, headers.RateLimitedFor)

	h := http.Header{}
	w.Write(h, []headers.Outcome{{Name: "burst", Decision: core.Decision{
		Limit:      core.Leaky(10, core.PerSecond(1)),
		RetryAfter: 779 * time.Millisecond,
		NextAfter:  779 * time.Millisecond,
		ResetAfter: 9779 * time.Millisecond,
	}}})
	fmt.Println("RateLimit:", h.Get("RateLimit"))
	fmt.Println("X-RateLimit-Reset:", h.Get("X-RateLimit-Reset"))
	fmt.Println("X-Rate-Limited-For:", h.Get("X-Rate-Limited-For"))
	// Output:
	// RateLimit: "burst";r=0;t=1
	// X-RateLimit-Reset: 1
	// X-Rate-Limited-For: 0.779
}

func ExampleNames() {
	expose := strings.Join(headers.Names(headers.Draft), ", ")
	fmt.Println("Access-Control-Expose-Headers:", expose)
	// Output:
	// Access-Control-Expose-Headers: Ratelimit, Ratelimit-Policy, Retry-After
}

// The partition key of a user. Without the secret it does not tell who that is.
func ExampleDraftPartitioned() {
	secret := []byte("0123456789abcdef") // yours is random, and the same on every server
	h := http.Header{}
	headers.DraftPartitioned(secret).Write(h, []headers.Outcome{{
		Name: "burst",
		Key:  "user:42",
		Decision: core.Decision{
			Allowed:    true,
			Limit:      core.Leaky(10, core.PerSecond(1)),
			Remaining:  9,
			NextAfter:  time.Second,
			ResetAfter: time.Second,
		},
	}})
	fmt.Println("RateLimit-Policy:", h.Get("RateLimit-Policy"))
	fmt.Println("RateLimit:", h.Get("RateLimit"))
	// Output:
	// RateLimit-Policy: "burst";q=1;w=1;weir-burst=10;pk=:v5dJSr0QjeIijDWrwdIP/g==:
	// RateLimit: "burst";r=9;t=9;pk=:v5dJSr0QjeIijDWrwdIP/g==:
}

func ExampleRetryAfter() {
	denied := []headers.Outcome{{Name: "burst", Decision: core.Decision{
		Limit:      core.Leaky(10, core.PerSecond(1)),
		RetryAfter: 400 * time.Millisecond,
	}}}
	if seconds, ok := headers.RetryAfter(denied); ok {
		fmt.Println("Retry-After:", seconds)
	}
	// Output:
	// Retry-After: 1
}
