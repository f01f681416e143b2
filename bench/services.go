package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/httprate"
	"github.com/go-redis/redis_rate/v10"
	"github.com/labstack/echo/v4"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/goredisstore.v9"
	"github.com/ulule/limiter/v3"
	ululegin "github.com/ulule/limiter/v3/drivers/middleware/gin"
	ululehttp "github.com/ulule/limiter/v3/drivers/middleware/stdlib"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"

	"github.com/weir-go/ratelimit/core"
	ratelimitecho "github.com/weir-go/ratelimit/echo"
	ratelimitgin "github.com/weir-go/ratelimit/gin"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
)

// The frameworks.
const (
	netHTTP       = "net/http"
	ginFramework  = "gin"
	echoFramework = "echo"
)

// service is a web server behind a limiter's middleware. It limits by the address
// of the peer and answers "ok".
type service struct {
	framework string
	limiter   string // "" for none
	own       bool
	handler   func(s *setup, q quota) (http.Handler, error)
}

func (v service) name() string {
	if v.limiter == "" {
		return v.framework + ", no limiter"
	}
	return v.framework + ", " + v.limiter
}

// services are all there is: the limiters that bring a middleware, and redis_rate,
// which does not, with one as short as its users write.
func services() []service {
	return []service{
		{framework: netHTTP, handler: func(*setup, quota) (http.Handler, error) { return plain(), nil }},
		{framework: netHTTP, limiter: leakyName, own: true, handler: ownHTTP(onServed)},
		{framework: netHTTP, limiter: memoryName, own: true, handler: ownHTTP(onMemory)},
		{framework: netHTTP, limiter: redisRateName, handler: redisRateHTTP(redisRatePlain)},
		{framework: netHTTP, limiter: redisRateAuto, handler: redisRateHTTP(redisRatePiped)},
		{framework: netHTTP, limiter: "ulule/limiter", handler: ululeHTTP},
		{framework: netHTTP, limiter: "throttled", handler: throttledHTTP},
		{framework: netHTTP, limiter: "httprate-redis", handler: func(s *setup, q quota) (http.Handler, error) {
			return httprate.LimitBy(q.n, q.per, remoteHost, httprateCounter(s, q))(plain()), nil
		}},
		{framework: netHTTP, limiter: "httprate", handler: func(_ *setup, q quota) (http.Handler, error) {
			return httprate.LimitBy(q.n, q.per, remoteHost)(plain()), nil
		}},
		{framework: ginFramework, handler: func(*setup, quota) (http.Handler, error) { return onGin(), nil }},
		{framework: ginFramework, limiter: leakyName, own: true, handler: ownGin(onServed)},
		{framework: ginFramework, limiter: redisRateName, handler: redisRateGin},
		{framework: ginFramework, limiter: "ulule/limiter", handler: ululeGin},
		{framework: echoFramework, handler: func(*setup, quota) (http.Handler, error) { return onEcho(), nil }},
		{framework: echoFramework, limiter: leakyName, own: true, handler: ownEcho(onServed)},
		{framework: echoFramework, limiter: redisRateName, handler: redisRateEcho},
	}
}

// counting is a store that counts the checks which it could not answer, so that the middleware lets the request through. Those for which it is
// too busy are answered 503.
type counting struct {
	core.Store

	failed *atomic.Int64
}

func (c counting) Decide(ctx context.Context, calls []core.Call) (answered int, err error) {
	answered, err = c.Store.Decide(ctx, calls)
	if err != nil && core.FailureOf(err) != core.Overloaded {
		c.failed.Add(1)
	}
	return answered, err
}

// onServed is the store on Redis behind a middleware. Its failures are counted.
func onServed(s *setup) core.Store { return counting{onRedis(s), &s.failedOpen} }

func plain() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
}

func onGin(middleware ...gin.HandlerFunc) http.Handler {
	gin.SetMode(gin.ReleaseMode)
	router := gin.New()
	router.Use(middleware...)
	router.GET("/", func(c *gin.Context) { c.String(http.StatusOK, "ok") })
	return router
}

func onEcho(middleware ...echo.MiddlewareFunc) http.Handler {
	router := echo.New()
	router.Use(middleware...)
	router.GET("/", func(c echo.Context) error { return c.String(http.StatusOK, "ok") })
	return router
}

func ownHTTP(store func(*setup) core.Store) func(*setup, quota) (http.Handler, error) {
	return func(s *setup, q quota) (http.Handler, error) {
		return ratelimit.Leaky(ownLimiter(s, store), q.n, core.Per(q.n, q.per))(plain()), nil
	}
}

func ownGin(store func(*setup) core.Store) func(*setup, quota) (http.Handler, error) {
	return func(s *setup, q quota) (http.Handler, error) {
		return onGin(ratelimitgin.Leaky(ownLimiter(s, store), q.n, core.Per(q.n, q.per))), nil
	}
}

func ownEcho(store func(*setup) core.Store) func(*setup, quota) (http.Handler, error) {
	return func(s *setup, q quota) (http.Handler, error) {
		return onEcho(ratelimitecho.Leaky(ownLimiter(s, store), q.n, core.Per(q.n, q.per))), nil
	}
}

// remoteHost is the key of the limiters that leave it to their user.
func remoteHost(r *http.Request) (string, error) {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	return host, err
}

// redisRateGate is the code that redis_rate's users write around it: ask, tell the client,
// deny.
func redisRateGate(limiter *redis_rate.Limiter, q quota) func(http.ResponseWriter, *http.Request) (passed bool) {
	limit := redis_rate.Limit{Rate: q.n, Burst: q.n, Period: q.per}
	return func(w http.ResponseWriter, r *http.Request) bool {
		host, err := remoteHost(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return false
		}
		result, err := limiter.Allow(r.Context(), host, limit)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return false
		}
		header := w.Header()
		header.Set("X-RateLimit-Limit", strconv.Itoa(limit.Burst))
		header.Set("X-RateLimit-Remaining", strconv.Itoa(result.Remaining))
		header.Set("X-RateLimit-Reset", strconv.Itoa(int(result.ResetAfter/time.Second)))
		if result.Allowed == 0 {
			header.Set("Retry-After", strconv.Itoa(int(result.RetryAfter/time.Second)+1))
			http.Error(w, http.StatusText(http.StatusTooManyRequests), http.StatusTooManyRequests)
			return false
		}
		return true
	}
}

// redisRatePlain returns a limiter on the client as it is.
func redisRatePlain(s *setup) (*redis_rate.Limiter, error) {
	return redis_rate.NewLimiter(s.client()), nil
}

func redisRateHTTP(made func(*setup) (*redis_rate.Limiter, error)) func(*setup, quota) (http.Handler, error) {
	return func(s *setup, q quota) (http.Handler, error) {
		limiter, err := made(s)
		gate, next := redisRateGate(limiter, q), plain()
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if gate(w, r) {
				next.ServeHTTP(w, r)
			}
		}), err
	}
}

func redisRateGin(s *setup, q quota) (http.Handler, error) {
	gate := redisRateGate(redis_rate.NewLimiter(s.client()), q)
	return onGin(func(c *gin.Context) {
		if !gate(c.Writer, c.Request) {
			c.Abort()
		}
	}), nil
}

func redisRateEcho(s *setup, q quota) (http.Handler, error) {
	gate := redisRateGate(redis_rate.NewLimiter(s.client()), q)
	return onEcho(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			if !gate(c.Response(), c.Request()) {
				return nil
			}
			return next(c)
		}
	}), nil
}

func ululeLimiter(s *setup, q quota) (*limiter.Limiter, error) {
	store, err := ululeredis.NewStoreWithOptions(s.client(), limiter.StoreOptions{Prefix: "ulule"})
	return limiter.New(store, limiter.Rate{Period: q.per, Limit: int64(q.n)}), err
}

func ululeHTTP(s *setup, q quota) (http.Handler, error) {
	instance, err := ululeLimiter(s, q)
	return ululehttp.NewMiddleware(instance).Handler(plain()), err
}

func ululeGin(s *setup, q quota) (http.Handler, error) {
	instance, err := ululeLimiter(s, q)
	return onGin(ululegin.NewMiddleware(instance)), err
}

func throttledHTTP(s *setup, q quota) (http.Handler, error) {
	store, err := goredisstore.NewCtx(s.client(), "throttled:")
	if err != nil {
		return nil, err
	}
	limiter, err := throttledLimiter(store, q)
	middleware := throttled.HTTPRateLimiterCtx{RateLimiter: limiter, VaryBy: &throttled.VaryBy{RemoteAddr: true}}
	return middleware.RateLimit(plain()), err
}
