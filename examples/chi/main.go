// Chi protects a small API built on chi: every address gets 10 requests at once and then
// one a second on each route, and 5 logins in 15 minutes. It is a module of its own, so
// that chi is nobody's dependency; run it from here.
//
//	go run . -redis redis://localhost:6379
//	for i in $(seq 11); do curl -i localhost:8080/items/7; done
//
// A limit by address goes to Use, like any middleware. A limit by route goes where chi
// knows the route: to With, or to Use in a Group. The Use of a router runs before its
// routes are looked up; there all routes would be one, and the limiter warns.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/examples/internal/serve"
	"github.com/weir-go/ratelimit/keyfuncs"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
)

func main() {
	addr := flag.String("addr", "localhost:8080", "address to listen on")
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
	return serve.Run(addr, newRouter(limiter),
		"each address gets 10 requests at once on each route, then 1 a second, and 5 POST /login in 15 minutes")
}

func newRouter(limiter *core.Limiter) http.Handler {
	all := ratelimit.Leaky(limiter, 100, core.PerSecond(20))
	perRoute := ratelimit.Leaky(limiter, 10, core.PerSecond(1), keyfuncs.RemoteIP, keyfuncs.Route)
	logins := ratelimit.SlidingLog(limiter, 5, 15*time.Minute)

	router := chi.NewRouter()
	router.Use(all)
	router.Group(func(r chi.Router) {
		r.Use(perRoute)
		r.Get("/items/{id}", item)
		r.Get("/users/{id}", user)
	})
	router.With(logins).Post("/login", login)
	return router
}

func item(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "item %s\n", r.PathValue("id"))
}

func user(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "user %s\n", r.PathValue("id"))
}

func login(w http.ResponseWriter, _ *http.Request) {
	fmt.Fprintln(w, "welcome")
}
