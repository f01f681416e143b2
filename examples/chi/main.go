// Chi is a small server on chi: a limit by address for everything, one by address and route for
// a group, and one by user for a single route. It is a module of its own, so that the library does not
// depend on chi; run it from here.
//
//	go run .                                     # counts in memory
//	REDIS_URL=redis://localhost:6379 go run .    # counts for a whole fleet
//
//	for i in $(seq 11); do curl -i localhost:8080/items/$i; done
//	for i in $(seq 4); do curl -i -u alice:secret -X POST localhost:8080/orders; done
//
// A limit by address goes to Use, like any middleware. A limit by route goes where chi
// knows the route: to With, or to Use in a Group. The Use of a router runs before its
// routes are looked up; there all routes would be one, and the limiter warns.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

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
		Handler:           newRouter(limiter),
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

func newRouter(limiter *core.Limiter) http.Handler {
	all := ratelimit.Leaky(limiter, 100, core.PerSecond(20))
	perRoute := ratelimit.Leaky(limiter, 10, core.PerSecond(1), keyfuncs.RemoteIP, keyfuncs.Route)
	perUser := ratelimit.TokenBucket(limiter, 3, core.PerMinute(3), keyfuncs.User(user))
	authenticated := middleware.BasicAuth("orders", map[string]string{"alice": "secret", "bob": "secret"})

	router := chi.NewRouter()
	router.Use(all)
	router.Group(func(r chi.Router) {
		r.Use(perRoute)
		r.Get("/items/{id}", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "item %s\n", r.PathValue("id")) })
		r.Get("/users/{id}", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "user %s\n", r.PathValue("id")) })
	})
	router.With(authenticated, perUser).Post("/orders", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "thank you, %s\n", user(r)) })
	return router
}

// user tells who has signed in. It is asked behind authenticated alone.
func user(r *http.Request) string {
	name, _, _ := r.BasicAuth()
	return name
}
