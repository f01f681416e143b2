package ratelimit_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v5"

	"github.com/weir-go/ratelimit/core"
	ratelimit "github.com/weir-go/ratelimit/echo/v5"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
)

func memory() *core.Limiter { return core.New(core.NewMemory()) }

func ok(*echo.Context) error { return nil }

func get(h http.Handler, path string, lines ...string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, path, nil)
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	h.ServeHTTP(w, r)
	return w
}

// visit is get, as a server does it: the context of the request ends after the request.
func visit(t *testing.T, h http.Handler, path string) *httptest.ResponseRecorder {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	defer end()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil))
	return w
}

func TestOuterMiddlewareSeesStatusAndSize(t *testing.T) {
	var status int
	var size int64
	e := echo.New()
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error {
			err := next(c)
			response, resolved := echo.ResolveResponseStatus(c.Response(), err)
			status, size = resolved, response.Size
			return err
		}
	})
	hook := func(w http.ResponseWriter, r *http.Request, denial *ratelimit.Denial) { denial.ServeHTTP(w, r) }
	e.Use(ratelimit.New(memory(), ratelimit.Options{Denied: hook}, ratelimit.Policy{Limit: core.FixedWindow(1, time.Hour)}))
	e.GET("/", ok)
	get(e, "/")
	w := get(e, "/") // which the middleware writes itself
	if status != w.Code || size != int64(w.Body.Len()) || status != http.StatusTooManyRequests || size == 0 {
		t.Errorf("outer middleware saw %d of %d bytes, the client %d of %d", status, size, w.Code, w.Body.Len())
	}
}

// An error is rendered further out, so it is what the client gets that a policy settles.
func TestErrorsAreSettledByWhatTheClientGets(t *testing.T) {
	wrong := errors.New("wrong password")
	own := func(c *echo.Context, err error) { _ = c.String(http.StatusUnauthorized, err.Error()) }
	for name, c := range map[string]struct {
		err     error
		handler echo.HTTPErrorHandler
		outside func(*echo.Echo)
		want    int
	}{
		"echo's own error":                  {err: echo.NewHTTPError(http.StatusUnauthorized, ""), want: http.StatusUnauthorized},
		"echo's own error, wrapped":         {err: fmt.Errorf("login: %w", echo.NewHTTPError(http.StatusUnauthorized, "")), want: http.StatusUnauthorized},
		"an error of unknown status":        {err: wrong, want: http.StatusInternalServerError},
		"an error handler that knows it":    {err: wrong, handler: own, want: http.StatusUnauthorized},
		"middleware in front that knows it": {err: wrong, outside: answers(http.StatusForbidden), want: http.StatusForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			settled := make(chan int, 9)
			e := echo.New()
			if c.handler != nil {
				e.HTTPErrorHandler = c.handler
			}
			if c.outside != nil {
				c.outside(e)
			}
			limit := core.FixedWindow(5, time.Hour)
			policy := ratelimit.Policy{Limit: limit, Settle: ratelimit.SettlePolicy{Cost: func(_ *http.Request, served ratelimit.Served) int {
				settled <- served.Status
				return 1
			}}}
			inner := policy
			inner.Limit = limit.Named("inner")
			e.Use(ratelimit.New(memory(), ratelimit.Options{}, policy), ratelimit.New(memory(), ratelimit.Options{}, inner))
			e.GET("/", func(*echo.Context) error { return c.err })
			if w := visit(t, e, "/"); w.Code != c.want {
				t.Errorf("answered %d, want %d", w.Code, c.want)
			}
			for range 2 {
				if got := <-settled; got != c.want {
					t.Errorf("settled by %d, want %d", got, c.want)
				}
			}
		})
	}
}

// answers is a middleware that answers every error itself.
func answers(status int) func(*echo.Echo) {
	return func(e *echo.Echo) {
		e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
			return func(c *echo.Context) error {
				if err := next(c); err != nil {
					return c.NoContent(status)
				}
				return nil
			}
		})
	}
}

func TestUserOutsideOfEchoIsNobody(t *testing.T) {
	_, err := ratelimit.User("user")(httptest.NewRequest(http.MethodGet, "/", nil))
	if !errors.Is(err, keyfuncs.ErrNoKey) {
		t.Errorf("error %v, want ErrNoKey", err)
	}
	defer func() {
		if message, _ := recover().(string); !strings.HasPrefix(message, "ratelimit: User: ") {
			t.Errorf("panic %q, want one about an empty key", message)
		}
	}()
	ratelimit.User("")
}

// A proxy that is a handler or a middleware of echo's, and returns its errors, has
// MergeUpstream in front.
func TestUpstreamOfAProxyOfEchosIsMerged(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("RateLimit", `"day";r=4;t=60`)
		w.WriteHeader(http.StatusTeapot)
	}))
	defer upstream.Close()
	target, err := url.Parse(upstream.URL)
	if err != nil {
		t.Fatal(err)
	}
	e := echo.New()
	e.Use(
		ratelimit.New(memory(), ratelimit.Options{}, ratelimit.Policy{Limit: core.FixedWindow(9, time.Hour).Named("nine")}),
		echo.WrapMiddleware(guard.MergeUpstream),
	)
	e.GET("/:what", func(c *echo.Context) error {
		if c.Param("what") == "gone" {
			return echo.NewHTTPError(http.StatusBadGateway, "gone")
		}
		proxy := httputil.NewSingleHostReverseProxy(target)
		proxy.ServeHTTP(c.Response(), c.Request())
		return nil
	})
	for path, want := range map[string]struct {
		code   int
		fields []string
	}{
		"/there": {http.StatusTeapot, []string{`"nine";r=8;t=3600, "day";r=4;t=60`}},
		"/gone":  {http.StatusBadGateway, []string{`"nine";r=8;t=3600`}},
	} {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.RemoteAddr = fmt.Sprintf("203.0.113.%d:4711", len(path)) // each has a limit of its own
		w := httptest.NewRecorder()
		e.ServeHTTP(w, r)
		if got := w.Header()["Ratelimit"]; w.Code != want.code || !slices.Equal(got, want.fields) {
			t.Errorf("%s: answered %d with RateLimit %q, want %d with %q", path, w.Code, got, want.code, want.fields)
		}
	}
}

// The place that the log tells is the program's, not the adapter's.
func TestTwoEqualOneLinersAreNoticed(t *testing.T) {
	var log bytes.Buffer
	before := slog.Default()
	defer slog.SetDefault(before)
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	limiter := memory()
	_, file, line, _ := runtime.Caller(0)
	_ = ratelimit.Leaky(limiter, 10, core.PerSecond(1))
	_ = ratelimit.Leaky(limiter, 10, core.PerSecond(1))
	first, second := fmt.Sprintf("first=%s:%d", file, line+1), fmt.Sprintf("second=%s:%d", file, line+2)
	if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, first) || !strings.Contains(got, second) {
		t.Errorf("logged %q, want one line with %s and %s", got, first, second)
	}
}
