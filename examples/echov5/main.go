// Echov5 protects a small API built on echo v5: every address gets 10 requests at once
// and then one a second, and 5 logins in 15 minutes.
//
//	go run ./examples/echov5 -redis redis://localhost:6379
//	for i in $(seq 11); do curl -i localhost:8080/items/7; done
package main

import (
	"context"
	"flag"
	"log"
	"net/http"
	"time"

	"github.com/labstack/echo/v5"

	"github.com/weir-go/ratelimit/core"
	ratelimit "github.com/weir-go/ratelimit/echo/v5"
	"github.com/weir-go/ratelimit/examples/internal/serve"
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

	e := echo.New()
	e.Use(ratelimit.Leaky(limiter, 10, core.PerSecond(1)))
	e.GET("/items/:id", item)
	e.POST("/login", login, ratelimit.SlidingLog(limiter, 5, 15*time.Minute))
	return serve.Run(addr, e,
		"each address gets 10 requests at once, then 1 a second, and 5 POST /login in 15 minutes")
}

func item(c *echo.Context) error {
	return c.String(http.StatusOK, "item "+c.Param("id")+"\n")
}

func login(c *echo.Context) error {
	return c.String(http.StatusOK, "welcome\n")
}
