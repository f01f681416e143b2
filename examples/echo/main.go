// Echo is a small server on echo v4 with two groups: each address gets 10 requests at once and
// then one a second below /catalog, and each user 3 a minute below /account. An error handler of
// the server's own answers denied requests.
//
//	go run ./examples/echo                                     # counts in memory
//	REDIS_URL=redis://localhost:6379 go run ./examples/echo    # counts for a whole fleet
//
//	for i in $(seq 11); do curl -i localhost:8080/catalog/items/7; done
//	for i in $(seq 4); do curl -i -u alice:secret localhost:8080/account/orders; done
//
// The user comes from echo.Context, where the authentication has put them, so the group's limit
// stands behind it.
package main

import (
	"cmp"
	"context"
	"crypto/subtle"
	"errors"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/weir-go/ratelimit/core"
	ratelimit "github.com/weir-go/ratelimit/echo"
)

func main() {
	limiter, err := core.Open(cmp.Or(os.Getenv("REDIS_URL"), "memory:"))
	if err != nil {
		log.Fatal(err)
	}
	e := newEcho(limiter)
	interrupted, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	go func() {
		if err := e.Start(cmp.Or(os.Getenv("ADDR"), "localhost:8080")); !errors.Is(err, http.ErrServerClosed) {
			log.Fatal(err)
		}
	}()
	<-interrupted.Done()
	stop() // a second interrupt ends the process at once
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_ = e.Shutdown(ctx) // waits for the requests in flight
	_ = limiter.Close()
}

func newEcho(limiter *core.Limiter) *echo.Echo {
	e := echo.New()
	e.Server.ReadHeaderTimeout, e.Server.ReadTimeout = 5*time.Second, 10*time.Second
	e.Server.WriteTimeout, e.Server.IdleTimeout = 30*time.Second, time.Minute
	e.HTTPErrorHandler = func(err error, c echo.Context) { answer(e, err, c) }

	catalog := e.Group("/catalog", ratelimit.Leaky(limiter, 10, core.PerSecond(1)))
	catalog.GET("/items/:id", func(c echo.Context) error { return c.String(http.StatusOK, "item "+c.Param("id")+"\n") })

	account := e.Group("/account", authenticated, ratelimit.TokenBucket(limiter, 3, core.PerMinute(3), ratelimit.User("user")))
	account.GET("/orders", func(c echo.Context) error { return c.String(http.StatusOK, "none yet\n") })
	return e
}

// answer answers a denied request in the words of this server, and leaves all other errors to echo.
// Retry-After and the limits' fields are set already.
func answer(e *echo.Echo, err error, c echo.Context) {
	var failure *echo.HTTPError
	if errors.As(err, &failure) && !c.Response().Committed {
		if denied, ok := failure.Message.(*ratelimit.Document); ok {
			_ = c.JSON(failure.Code, map[string]any{"error": denied.Title, "limits": denied.ViolatedPolicies})
			return
		}
	}
	e.DefaultHTTPErrorHandler(err, c)
}

// authenticated stands for your own authentication: every user has the password "secret".
func authenticated(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		user, password, _ := c.Request().BasicAuth()
		if subtle.ConstantTimeCompare([]byte(password), []byte("secret")) == 0 {
			return echo.ErrUnauthorized
		}
		c.Set("user", user)
		return next(c)
	}
}
