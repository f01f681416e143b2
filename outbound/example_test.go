package outbound_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/outbound"
)

// A client of a partner's API that allows fifty calls a second to the whole fleet.
func ExampleNew() {
	partner := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer partner.Close()
	limiter, _ := core.Open("memory:") // or "redis://…", for the whole fleet
	defer limiter.Close()
	client := &http.Client{
		Transport: outbound.New(limiter, core.Leaky(1, core.PerSecond(50)), outbound.Options{
			LongestWait: 10 * time.Second,
		}),
	}
	start := time.Now()
	for range 3 {
		response, err := client.Get(partner.URL) // waits until it may be made
		if err != nil {
			return
		}
		response.Body.Close()
	}
	fmt.Println(time.Since(start) >= 40*time.Millisecond)
	// Output: true
}

// A client that makes a call again if its host has not accepted it.
func ExampleRetry() {
	calls := 0
	partner := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if calls++; calls == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer partner.Close()
	limiter, _ := core.Open("memory:")
	defer limiter.Close()
	client := &http.Client{
		Transport: outbound.New(limiter, core.Unlimited, outbound.Options{Throttle: true, Retry: outbound.Retry{Most: 2}}),
	}
	response, err := client.Get(partner.URL)
	if err != nil {
		return
	}
	response.Body.Close()
	fmt.Println(response.StatusCode, "after", calls, "calls")
	// Output: 200 after 2 calls
}
