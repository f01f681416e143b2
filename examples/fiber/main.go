// Command fiber is a small server on Fiber, for which ratelimit has no package: limit.go is an adapter of some 150 lines over package guard, to be
// copied. Each address gets 10 requests at once and then one a second on each route, and each user 3 orders a minute; an order that fails
// costs nothing.
//
//	go run .                                     # counts in memory
//	REDIS_URL=redis://localhost:6379 go run .    # counts for a whole fleet
//
//	for i in $(seq 11); do curl -i localhost:8080/items/$i; done
//	for i in $(seq 4); do curl -i -X POST "localhost:8080/orders?user=alice&of=tea"; done
package main

import (
	"cmp"
	"context"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/gofiber/fiber/v3"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
)

func main() {
	limiter, err := core.Open(cmp.Or(os.Getenv("REDIS_URL"), "memory:"))
	if err != nil {
		log.Fatal(err)
	}
	interrupted, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err = newApp(limiter).Listen(cmp.Or(os.Getenv("ADDR"), "localhost:8080"), fiber.ListenConfig{GracefulContext: interrupted})
	stop()
	_ = limiter.Close()
	if err != nil {
		log.Fatal(err)
	}
}

// newApp returns the service with its limits.
func newApp(limiter *core.Limiter) *fiber.App {
	perRoute := limit(guard.Must(guard.New(limiter, guard.Options{},
		guard.PolicyFor(core.Leaky(10, core.PerSecond(1)), keyfuncs.RemoteIP, keyfuncs.Route))))
	orders := limit(guard.Must(guard.New(limiter, guard.Options{}, guard.Policy{
		Limit: core.SlidingLog(3, time.Minute).Named("orders"),
		By:    keyfuncs.User(func(r *http.Request) string { return r.URL.Query().Get("user") }), // as your authentication tells
		Settle: guard.SettlePolicy{Cost: func(_ *http.Request, s guard.Served) int {
			if s.Status >= fiber.StatusInternalServerError {
				return 0
			}
			return 1
		}},
	})))
	app := fiber.New()
	app.Get("/items/:id", perRoute, func(c fiber.Ctx) error { return c.SendString("item " + c.Params("id") + "\n") })
	app.Get("/search", perRoute, func(c fiber.Ctx) error { return c.SendString("nothing found\n") })
	app.Post("/orders", perRoute, orders, func(c fiber.Ctx) error {
		if c.Query("of") == "" {
			return fiber.NewError(fiber.StatusInternalServerError, "nothing to order")
		}
		return c.SendString("thank you, " + c.Query("user") + "\n")
	})
	return app
}
