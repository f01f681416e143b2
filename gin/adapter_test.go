package ratelimit_test

import (
	"errors"
	"net/http"
	"testing"

	"github.com/gin-gonic/gin"
	"go.uber.org/goleak"

	ratelimit "github.com/weir-go/ratelimit/gin"
	"github.com/weir-go/ratelimit/guard/guardtest"
	"github.com/weir-go/ratelimit/internal/redistest"
)

func TestMain(m *testing.M) {
	gin.SetMode(gin.TestMode)
	goleak.VerifyTestMain(m)
}

func TestAdapter(t *testing.T) {
	guardtest.Run(t, guardtest.Adapter[ratelimit.Middleware]{
		FromGuard: ratelimit.FromGuard,
		Serve:     serve,
		Constructors: guardtest.Constructors[ratelimit.Middleware]{
			New:           ratelimit.New,
			Leaky:         ratelimit.Leaky,
			Shaping:       ratelimit.Shaping,
			TokenBucket:   ratelimit.TokenBucket,
			GCRA:          ratelimit.GCRA,
			FixedWindow:   ratelimit.FixedWindow,
			SlidingWindow: ratelimit.SlidingWindow,
			SlidingLog:    ratelimit.SlidingLog,
			Calendar:      ratelimit.Calendar,
			Concurrent:    ratelimit.Concurrent,
		},
		ClientIP: ratelimit.ClientIP,
		ClientIPDiffers: map[string]string{
			"garbage at the stopping point": "ip:6.6.6.6", // gin falls through to X-Real-IP
		},
		User: ratelimit.User("user"),
		UserValue: ratelimit.With(func(c *gin.Context) any {
			value, _ := c.Get("user")
			return value
		}),
		CatchAll: "/files/{rest...}",
		Play:     play,
		Redis:    func(t *testing.T) string { return redistest.Start(t).URL() },
		Answered: guardtest.Answered{
			LeavesErrors: true,
			SendsLater:   true,
			Sees: func(outside guardtest.Outside, restores, panicked bool) bool {
				if panicked {
					return outside == guardtest.Recovers && !restores
				}
				return (outside == guardtest.Answers || outside == guardtest.AnswersRaw) && !restores
			},
		},
	})
}

var errLeft = errors.New("left to be answered")

func play(scene guardtest.Scene[ratelimit.Middleware]) http.Handler {
	router := gin.New()
	router.Use(func(c *gin.Context) {
		defer func() {
			reason := recover()
			switch {
			case reason == nil:
			case scene.Outside != guardtest.Recovers || reason == http.ErrAbortHandler: //nolint:errorlint // as net/http does
				panic(reason)
			default:
				c.AbortWithStatus(http.StatusInternalServerError)
			}
		}()
		c.Next()
		switch {
		case len(c.Errors) == 0 || c.Writer.Written():
		case scene.Outside == guardtest.Answers:
			c.String(http.StatusTeapot, "answered")
		case scene.Outside == guardtest.AnswersRaw:
			http.Error(c.Writer, "answered", http.StatusTeapot)
		}
	})
	if scene.Restores {
		router.Use(func(c *gin.Context) {
			before := c.Writer
			c.Writer = struct{ gin.ResponseWriter }{before}
			defer func() { c.Writer = before }()
			c.Next()
		})
	}
	router.Use(scene.Limiters...)
	router.GET("/", func(c *gin.Context) {
		scene.Handler(c.Writer, c.Request)
		if scene.Error != 0 {
			_ = c.Error(errLeft)
		}
	})
	return router
}

func serve(site guardtest.Site[ratelimit.Middleware]) http.Handler {
	router := gin.New()
	router.HandleMethodNotAllowed = true
	if err := router.SetTrustedProxies(site.Proxies); err != nil {
		panic(err)
	}
	router.Use(func(c *gin.Context) {
		if site.Before != nil {
			site.Before(c.Writer)
		}
		c.Set("user", site.User)
	})
	router.Use(site.Around...)
	routes := router.Group("/", site.Inside...)
	for _, path := range []string{"/", "/items/:id", "/files/*rest"} {
		routes.Match([]string{http.MethodGet, http.MethodHead, http.MethodOptions}, path, func(c *gin.Context) {
			site.Handler(c.Writer, c.Request)
		})
	}
	return router
}
