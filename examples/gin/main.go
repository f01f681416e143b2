// Gin is a small server on gin. Each address gets 20 requests at once and then two a second,
// and each user 3 orders a minute, from all addresses together.
//
//	go run ./examples/gin                                     # counts in memory
//	REDIS_URL=redis://localhost:6379 go run ./examples/gin    # counts for a whole fleet
//
//	for i in $(seq 4); do curl -i -u alice:secret -X POST localhost:8080/orders; done
//	for i in $(seq 21); do curl -i localhost:8080/items/7; done
//
// The user comes from gin.Context, where gin's own BasicAuth has put them, so the limit by user
// stands behind it. ratelimit.User reads any other key of the context in the same way.
package main

import (
	"cmp"
	"context"
	"errors"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/weir-go/ratelimit/core"
	ratelimit "github.com/weir-go/ratelimit/gin"
	"github.com/weir-go/ratelimit/guard"
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
	router := gin.Default()
	router.Use(ratelimit.Leaky(limiter, 20, core.PerSecond(2)))
	router.GET("/items/:id", func(c *gin.Context) { c.String(http.StatusOK, "item %s\n", c.Param("id")) })

	users := router.Group("/", gin.BasicAuth(gin.Accounts{"alice": "secret", "bob": "secret"}))
	users.POST("/orders", ratelimit.TokenBucket(limiter, 3, core.PerMinute(3), ratelimit.User(gin.AuthUserKey)), order)
	return router
}

// order tells the user how many more orders they may send now.
func order(c *gin.Context) {
	left := 0
	for _, outcome := range guard.OutcomesFrom(c.Request.Context()) { // the innermost limit comes last
		left = outcome.Decision.Remaining
	}
	c.JSON(http.StatusOK, gin.H{"user": c.GetString(gin.AuthUserKey), "left": left})
}
