// Gin protects a small API built on gin: every address gets 10 requests at once
// and then one a second, and 5 logins in 15 minutes.
//
//	go run ./examples/gin -redis redis://localhost:6379
//	for i in $(seq 11); do curl -i localhost:8080/items/7; done
package main

import (
	"context"
	"flag"
	"log"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/examples/internal/serve"
	ratelimit "github.com/weir-go/ratelimit/gin"
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

	gin.SetMode(gin.ReleaseMode)
	router := gin.New()
	router.Use(ratelimit.Leaky(limiter, 10, core.PerSecond(1)))
	router.GET("/items/:id", item)
	router.POST("/login", ratelimit.SlidingLog(limiter, 5, 15*time.Minute), login)
	return serve.Run(addr, router,
		"each address gets 10 requests at once, then 1 a second, and 5 POST /login in 15 minutes")
}

func item(c *gin.Context) {
	c.String(http.StatusOK, "item %s\n", c.Param("id"))
}

func login(c *gin.Context) {
	c.String(http.StatusOK, "welcome\n")
}
