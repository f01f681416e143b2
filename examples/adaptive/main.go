// Adaptive is a server that finds out by itself how many requests it can serve at once, and answers the others with
// 503 at once, before they wait in a queue that only grows. failsafe-go's adaptive limiter decides how many, by how long
// requests take; the middleware keeps them to it. It is a module of its own, so that the library does not depend on failsafe-go;
// run it from here.
//
//	go run .
//
//	for i in $(seq 200); do curl -s -o /dev/null -w '%{http_code}\n' localhost:8080/ & done; wait
//
// This protects one process from more than it can do. Redis has no part in it. Limits for clients, which count for a
// whole fleet, go inside of it: a request without room is then charged nothing.
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/failsafe-go/failsafe-go/adaptivelimiter"

	"github.com/weir-go/ratelimit/guard"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
)

// longestEnd is how long requests in flight may take when the program is told to end.
const longestEnd = 10 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second interrupt ends the process at once
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", cmp.Or(os.Getenv("ADDR"), "localhost:8080"))
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("listening on http://%s", listener.Addr())
	if err := serve(ctx, listener, protect(newBackend())); err != nil {
		log.Fatal(err)
	}
}

// serve serves until the context ends, and returns when the requests in flight have been answered.
func serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       time.Minute,
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), longestEnd)
	defer cancel()
	return server.Shutdown(ending)
}

// protect returns a handler that serves as many requests at once as the handler inside of it can bear. The limit is
// between 1 and 200.
func protect(next http.Handler) http.Handler {
	limiter := adaptivelimiter.NewBuilder[any]().
		WithLimits(1, 200, 20).
		OnLimitChanged(func(e adaptivelimiter.LimitChangedEvent) { log.Printf("%d at once, %d before", e.NewLimit, e.OldLimit) }).
		Build()
	return ratelimit.FromGuard(guard.Adaptive(limiter.Limit))(measure(limiter, next))
}

// measure tells the limiter how long each request takes. The middleware in front has let it in already. Should the
// limit have become smaller since, it is served without being measured.
func measure(limiter adaptivelimiter.AdaptiveLimiter[any], next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if permit, ok := limiter.TryAcquirePermit(); ok {
			defer permit.Record()
		}
		next.ServeHTTP(w, r)
	})
}

// The rest stands for your own work: it can do ten things at once, a hundred in a second.
const (
	workers = 10
	mean    = 100 * time.Millisecond // of the time that one takes
)

// newBackend returns a handler that has some workers. Requests for which none is free wait.
func newBackend() http.Handler {
	free := make(chan struct{}, workers)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case free <- struct{}{}:
		case <-r.Context().Done():
			return // its client has gone
		}
		defer func() { <-free }()
		time.Sleep(mean/2 + time.Duration(rand.ExpFloat64()*float64(mean/2)))
		fmt.Fprintln(w, "done")
	})
}
