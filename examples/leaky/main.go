// Leaky is the classic, often called ten calls per ten seconds: a bucket of ten that drains one
// a second, for each remote address. It answers in words of its own, and tells in a header of
// the Rack world, X-Rate-Limited-For, when the next drip falls.
//
//	go run ./examples/leaky                                     # counts in memory
//	REDIS_URL=redis://localhost:6379 go run ./examples/leaky    # counts for a whole fleet
//
//	for i in $(seq 11); do curl -i localhost:9292/api; done
package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/headers"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
)

func main() {
	limiter, err := core.Open(cmp.Or(os.Getenv("REDIS_URL"), "memory:"))
	if err != nil {
		log.Fatal(err)
	}
	server := &http.Server{
		Addr:              cmp.Or(os.Getenv("ADDR"), "localhost:9292"),
		Handler:           newHandler(limiter),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       time.Minute,
	}
	interrupted, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	go func() {
		log.Printf("listening on http://%s", server.Addr)
		if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
			log.Fatal(err)
		}
	}()
	<-interrupted.Done()
	stop() // a second interrupt ends the process at once
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_ = server.Shutdown(ctx) // waits for the requests in flight
	_ = limiter.Close()
}

func newHandler(limiter *core.Limiter) http.Handler {
	limit := ratelimit.New(limiter, ratelimit.Options{Headers: headers.RateLimitedFor, Denied: rateLimited},
		ratelimit.Policy{Limit: core.Leaky(10, core.Per(10, 10*time.Second))})
	mux := http.NewServeMux()
	mux.Handle("GET /api", limit(http.HandlerFunc(api)))
	return mux
}

func api(w http.ResponseWriter, _ *http.Request) {
	io.WriteString(w, "Hello\n")
}

func rateLimited(w http.ResponseWriter, r *http.Request, denial *ratelimit.Denial) {
	if denial.Status != http.StatusTooManyRequests {
		denial.ServeHTTP(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(denial.Status)
	io.WriteString(w, "Rate limited\n")
}
