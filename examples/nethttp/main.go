// Nethttp is a small server on net/http alone. Each address gets 10 requests at once and then
// one a second on each route, and each user 3 orders a minute.
//
//	go run ./examples/nethttp                                     # counts in memory
//	REDIS_URL=redis://localhost:6379 go run ./examples/nethttp    # counts for a whole fleet
//
//	for i in $(seq 11); do curl -i localhost:8080/items/$i; done
//	for i in $(seq 4); do curl -i -u alice:secret -X POST localhost:8080/orders; done
//
// A limit around the mux itself knows the pattern that a request is going to match, so items
// and search have a limit each, for all their paths. A limit by user stands behind the
// authentication.
package main

import (
	"cmp"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/keyfuncs"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
)

func main() {
	limiter, err := core.Open(cmp.Or(os.Getenv("REDIS_URL"), "memory:"))
	if err != nil {
		log.Fatal(err)
	}
	server := &http.Server{
		Addr:              cmp.Or(os.Getenv("ADDR"), "localhost:8080"),
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
	perRoute := ratelimit.Leaky(limiter, 10, core.PerSecond(1), keyfuncs.RemoteIP, keyfuncs.Route)
	perUser := ratelimit.TokenBucket(limiter, 3, core.PerMinute(3), keyfuncs.User(user))

	mux := http.NewServeMux()
	mux.HandleFunc("GET /items/{id}", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "item %s\n", r.PathValue("id")) })
	mux.HandleFunc("GET /search", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "found") })
	mux.Handle("POST /orders", authenticated(perUser(http.HandlerFunc(order))))
	return perRoute(mux)
}

func order(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "thank you, %s\n", user(r))
}

// authenticated stands for your own authentication: every user has the password "secret".
func authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, password, _ := r.BasicAuth(); subtle.ConstantTimeCompare([]byte(password), []byte("secret")) == 0 {
			w.Header().Set("WWW-Authenticate", "Basic")
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// user tells who has signed in. It is asked behind authenticated alone.
func user(r *http.Request) string {
	name, _, _ := r.BasicAuth()
	return name
}
