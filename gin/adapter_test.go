package ratelimit_test

import (
	"net/http"
	"testing"

	"github.com/gin-gonic/gin"
	"go.uber.org/goleak"

	ratelimit "github.com/weir-go/ratelimit/gin"
	"github.com/weir-go/ratelimit/internal/adaptertest"
)

func TestMain(m *testing.M) {
	gin.SetMode(gin.TestMode)
	goleak.VerifyTestMain(m)
}

func TestAdapter(t *testing.T) {
	adaptertest.Run(t, adaptertest.Adapter[ratelimit.Middleware]{
		New:           ratelimit.New,
		Leaky:         ratelimit.Leaky,
		Shaping:       ratelimit.Shaping,
		TokenBucket:   ratelimit.TokenBucket,
		GCRA:          ratelimit.GCRA,
		FixedWindow:   ratelimit.FixedWindow,
		SlidingWindow: ratelimit.SlidingWindow,
		SlidingLog:    ratelimit.SlidingLog,
		Layered:       ratelimit.Layered,
		MergeUpstream: ratelimit.MergeUpstream,
		ClientIP:      ratelimit.ClientIP,
		ClientIPDiffers: map[string]string{
			"garbage at the stopping point": "ip:6.6.6.6", // gin falls through to X-Real-IP
		},
		User:     ratelimit.User("user"),
		CatchAll: "/files/{rest...}",
		Serve:    serve,
	})
}

func serve(site adaptertest.Site[ratelimit.Middleware]) http.Handler {
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
