// Nethttp protects a small API built on net/http alone: every address gets 10
// requests at once and then one a second, and 5 logins in 15 minutes.
//
//	go run ./examples/nethttp -redis redis://localhost:6379
//	for i in $(seq 11); do curl -i localhost:8080/items/7; done
//
// With chi the same middleware goes to Use, and to With for a single route; examples/chi
// is a whole server.
//
//	router := chi.NewRouter()
//	router.Use(limit)
//	router.Get("/items/{id}", item)
//	router.With(logins).Post("/login", login)
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net/http"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/examples/internal/serve"
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

	limit := ratelimit.Leaky(limiter, 10, core.PerSecond(1))
	logins := ratelimit.SlidingLog(limiter, 5, 15*time.Minute)

	mux := http.NewServeMux()
	mux.HandleFunc("GET /items/{id}", item)
	mux.Handle("POST /login", logins(http.HandlerFunc(login)))
	return serve.Run(addr, limit(mux),
		"each address gets 10 requests at once, then 1 a second, and 5 POST /login in 15 minutes")
}

func item(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "item %s\n", r.PathValue("id"))
}

func login(w http.ResponseWriter, _ *http.Request) {
	fmt.Fprintln(w, "welcome")
}
