// Leaky is the classic, often called ten calls per ten seconds: a bucket of ten that
// drains one a second, for each remote address, and word of when the next drip falls.
//
//	go run ./examples/leaky
//	for i in $(seq 11); do curl -i localhost:9292/api; done
package main

import (
	"context"
	"flag"
	"io"
	"log"
	"net/http"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/examples/internal/serve"
	"github.com/weir-go/ratelimit/headers"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
)

func main() {
	addr := flag.String("addr", "localhost:9292", "address to listen on")
	store := flag.String("redis", "memory:", "URL of the store")
	flag.Parse()
	if err := run(*addr, *store); err != nil {
		log.Fatal(err)
	}
}

func run(addr, store string) error {
	limiter, err := core.Open(store)
	if err != nil {
		return err
	}
	defer limiter.Close()
	if err := limiter.Ping(context.Background()); err != nil {
		return err
	}

	limit := ratelimit.New(limiter, ratelimit.Options{
		Headers: headers.RateLimitedFor,
		Denied:  rateLimited,
	}, ratelimit.Policy{Limit: core.Leaky(10, core.Per(10, 10*time.Second))})

	mux := http.NewServeMux()
	mux.Handle("GET /api", limit(http.HandlerFunc(api)))
	return serve.Run(addr, mux, "GET /api takes 10 calls at once and then one a second from each address")
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
