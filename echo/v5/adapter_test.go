package ratelimit_test

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"testing"

	"github.com/labstack/echo/v5"
	"go.uber.org/goleak"

	ratelimit "github.com/weir-go/ratelimit/echo/v5"
	"github.com/weir-go/ratelimit/guard/guardtest"
	"github.com/weir-go/ratelimit/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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
		ClientIP:  ratelimit.ClientIP,
		User:      ratelimit.User("user"),
		UserValue: ratelimit.With(func(c *echo.Context) any { return c.Get("user") }),
		CatchAll:  "/files/{...}", // echo's wildcards have no name
		Play:      play,
		Redis:     func(t *testing.T) string { return redistest.Start(t).URL() },
		Answered: guardtest.Answered{
			LeavesErrors: true,
			Sees: func(outside guardtest.Outside, restores, panicked bool) bool {
				if panicked {
					return outside == guardtest.Recovers
				}
				return outside != guardtest.Swallows && (outside != guardtest.AnswersRaw || !restores)
			},
		},
		AlwaysDocument: true,
	})
}

func play(scene guardtest.Scene[ratelimit.Middleware]) http.Handler {
	e := echo.New()
	e.Logger = slog.New(slog.DiscardHandler) // it tells of what is written after a connection was taken over
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) (err error) {
			defer func() {
				reason := recover()
				switch {
				case reason == nil:
				case scene.Outside != guardtest.Recovers || reason == http.ErrAbortHandler: //nolint:errorlint // as net/http does
					panic(reason)
				default:
					err = fmt.Errorf("panicked: %v", reason)
				}
			}()
			if err = next(c); err == nil {
				return nil
			}
			response := responseOf(c)
			switch {
			case scene.Outside == guardtest.Swallows:
				return nil
			case response.Committed:
			case scene.Outside == guardtest.Answers:
				return c.NoContent(http.StatusTeapot)
			case scene.Outside == guardtest.AnswersRaw:
				http.Error(response.ResponseWriter, "answered", http.StatusTeapot)
				return nil
			}
			return err
		}
	})
	if scene.Restores {
		e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
			return func(c *echo.Context) error {
				response := responseOf(c)
				before := response.ResponseWriter
				response.ResponseWriter = guardtest.Wrapper{ResponseWriter: before}
				defer func() { response.ResponseWriter = before }()
				return next(c)
			}
		})
	}
	e.Use(scene.Limiters...)
	e.GET("/", func(c *echo.Context) error {
		if scene.Raw {
			scene.Handler(responseOf(c).ResponseWriter, c.Request())
		} else {
			scene.Handler(c.Response(), c.Request())
		}
		if scene.Error != 0 {
			return echo.NewHTTPError(scene.Error, "left")
		}
		return nil
	})
	return e
}

// responseOf returns echo's own response.
func responseOf(c *echo.Context) *echo.Response {
	response, err := echo.UnwrapResponse(c.Response())
	if err != nil {
		panic(err)
	}
	return response
}

func serve(site guardtest.Site[ratelimit.Middleware]) http.Handler {
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
		return func(c *echo.Context) error {
			if site.Before != nil {
				site.Before(c.Response())
			}
			c.Set("user", site.User)
			return next(c)
		}
	})
	e.Use(site.Around...)
	for _, path := range []string{"/", "/items/:id", "/files/*"} {
		e.Match([]string{http.MethodGet, http.MethodHead, http.MethodOptions}, path, func(c *echo.Context) error {
			site.Handler(c.Response(), c.Request())
			return nil
		}, site.Inside...)
	}
	return e
}
