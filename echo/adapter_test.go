package ratelimit_test

import (
	"net"
	"net/http"
	"testing"

	"github.com/labstack/echo/v4"
	"go.uber.org/goleak"

	ratelimit "github.com/weir-go/ratelimit/echo"
	"github.com/weir-go/ratelimit/internal/adaptertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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
		User:          ratelimit.User("user"),
		CatchAll:      "/files/{...}", // echo's wildcards have no name
		Serve:         serve,
	})
}

func serve(site adaptertest.Site[ratelimit.Middleware]) http.Handler {
	e := echo.New()
	if site.Proxies != nil {
		trust := []echo.TrustOption{echo.TrustLoopback(false), echo.TrustLinkLocal(false), echo.TrustPrivateNet(false)}
		for _, proxy := range site.Proxies {
			_, prefix, err := net.ParseCIDR(proxy)
			if err != nil {
				panic(err)
			}
			trust = append(trust, echo.TrustIPRange(prefix))
		}
		e.IPExtractor = echo.ExtractIPFromXFFHeader(trust...)
	}
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			if site.Before != nil {
				site.Before(c.Response())
			}
			c.Set("user", site.User)
			return next(c)
		}
	})
	e.Use(site.Around...)
	for _, path := range []string{"/", "/items/:id", "/files/*"} {
		e.Match([]string{http.MethodGet, http.MethodHead, http.MethodOptions}, path, func(c echo.Context) error {
			site.Handler(c.Response(), c.Request())
			return nil
		}, site.Inside...)
	}
	return e
}
