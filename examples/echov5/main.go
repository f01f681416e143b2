// Echov5 is a small server on echo v5. Each address gets 20 requests at once and then two a
// second, and each user 10 units a minute: a search costs five of them, an item one.
//
//	go run ./examples/echov5                                     # counts in memory
//	REDIS_URL=redis://localhost:6379 go run ./examples/echov5    # counts for a whole fleet
//
//	for i in $(seq 3); do curl -i -u alice:secret localhost:8080/search; done
//	for i in $(seq 11); do curl -i -u bob:secret localhost:8080/items/7; done
//
// The server starts and stops by echo's StartConfig, and the limits log to echo's own logger.
package main

import (
	"cmp"
	"context"
	"crypto/subtle"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/labstack/echo/v5"

	"github.com/weir-go/ratelimit/core"
	ratelimit "github.com/weir-go/ratelimit/echo/v5"
)

func main() {
	limiter, err := core.Open(cmp.Or(os.Getenv("REDIS_URL"), "memory:"))
	if err != nil {
		log.Fatal(err)
	}
	interrupted, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(interrupted, stop) // a second interrupt ends the process at once
	server := echo.StartConfig{
		Address:         cmp.Or(os.Getenv("ADDR"), "localhost:8080"),
		GracefulTimeout: 10 * time.Second, // for the requests in flight
		BeforeServeFunc: func(s *http.Server) error {
			s.ReadHeaderTimeout, s.ReadTimeout = 5*time.Second, 10*time.Second
			s.WriteTimeout, s.IdleTimeout = 30*time.Second, time.Minute
			return nil
		},
	}
	err = server.Start(interrupted, newEcho(limiter))
	_ = limiter.Close()
	if err != nil {
		log.Fatal(err)
	}
}

func newEcho(limiter *core.Limiter) *echo.Echo {
	e := echo.New()
	e.Use(ratelimit.Leaky(limiter, 20, core.PerSecond(2)), authenticated)
	e.Use(ratelimit.New(limiter, ratelimit.Options{Logger: e.Logger}, ratelimit.Policy{
		Limit: core.TokenBucket(10, core.PerMinute(10)).Named("units"),
		By:    ratelimit.User("user"),
		Cost:  cost,
	}))
	e.GET("/items/:id", func(c *echo.Context) error { return c.String(http.StatusOK, "item "+c.Param("id")+"\n") })
	e.GET("/search", func(c *echo.Context) error { return c.String(http.StatusOK, "found\n") })
	return e
}

// cost says how many units a request takes.
func cost(r *http.Request) int {
	if r.URL.Path == "/search" {
		return 5
	}
	return 1
}

// authenticated stands for your own authentication: every user has the password "secret".
func authenticated(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c *echo.Context) error {
		user, password, _ := c.Request().BasicAuth()
		if subtle.ConstantTimeCompare([]byte(password), []byte("secret")) == 0 {
			return echo.ErrUnauthorized
		}
		c.Set("user", user)
		return next(c)
	}
}
