// Command journey makes one warm call, built with coverage counters, and leaves in a directory which code it has run.
//
//	journey NAME REDIS DIRECTORY
package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime/coverage"
	"strconv"
	"time"

	"github.com/weir-go/ratelimit/core"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
)

func main() {
	if err := run(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "journey:", err)
		os.Exit(1)
	}
}

// How often a call is made before its code is counted, and how often it is counted.
const (
	warm    = 50
	counted = 12
)

func run(name, redis, directory string) error {
	limiter, err := core.Open(redis, core.WithBudget(10*time.Second))
	if err != nil {
		return err
	}
	defer func() { _ = limiter.Close() }()
	call, err := callOf(name, limiter)
	if err != nil {
		return err
	}
	for range warm {
		if err := call(); err != nil {
			return err
		}
	}
	for i := range counted {
		own := filepath.Join(directory, strconv.Itoa(i))
		if err := os.Mkdir(own, 0o700); err != nil { //nolint:gosec // the directory is the test's own
			return err
		}
		if err := coverage.ClearCounters(); err != nil {
			return err
		}
		if err := call(); err != nil {
			return err
		}
		if err := coverage.WriteMetaDir(own); err != nil {
			return err
		}
		if err := coverage.WriteCountersDir(own); err != nil {
			return err
		}
	}
	return nil
}

// callOf returns a call of a journey.
func callOf(name string, limiter *core.Limiter) (call func() error, err error) {
	limit := core.Leaky(1000, core.PerSecond(1000))
	switch name {
	case "Allow":
		return func() error {
			_, err := limiter.Allow(context.Background(), "user:42", limit)
			return err
		}, nil
	case "Acquire and Release":
		places := core.Concurrent(10, time.Minute)
		return func() error {
			permit, err := limiter.Acquire(context.Background(), "user:42", places)
			if err == nil {
				permit.Release()
			}
			return err
		}, nil
	case "nethttp.Leaky":
		return requestOf(ratelimit.Leaky(limiter, 1000, core.PerSecond(1000))), nil
	case "a request with Settle":
		return requestOf(ratelimit.New(limiter, ratelimit.Options{}, ratelimit.Policy{
			Limit:  limit,
			Cost:   func(*http.Request) int { return 2 },
			Settle: ratelimit.SettlePolicy{Cost: func(*http.Request, ratelimit.Served) int { return 1 }, First: true},
			// so that it is done when the request is
		})), nil
	}
	return nil, fmt.Errorf("there is no journey %q", name)
}

// requestOf returns a request to a handler behind a middleware.
func requestOf(middleware ratelimit.Middleware) func() error {
	handler := middleware(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	return func() error {
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/", nil))
		if answer.Code != http.StatusNoContent {
			return fmt.Errorf("the answer is %d", answer.Code)
		}
		return nil
	}
}
