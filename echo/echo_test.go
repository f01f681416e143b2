package ratelimit_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/weir-go/ratelimit/core"
	ratelimit "github.com/weir-go/ratelimit/echo"
	"github.com/weir-go/ratelimit/keyfuncs"
)

func memory() *core.Limiter { return core.New(core.NewMemory()) }

func ok(echo.Context) error { return nil }

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

func TestAnErrorHandlerIsGivenTheProblem(t *testing.T) {
	var handled []error
	e := echo.New()
	e.HTTPErrorHandler = func(err error, c echo.Context) {
		handled = append(handled, err)
		var he *echo.HTTPError
		if !errors.As(err, &he) {
			t.Fatalf("handled a %T, want an *echo.HTTPError", err)
		}
		problem, ok := he.Message.(*ratelimit.Document)
		if !ok {
			t.Fatalf("the message is a %T, want a *Document", he.Message)
		}
		_ = c.String(he.Code, "no: "+strings.Join(problem.ViolatedPolicies, ","))
	}
	e.Use(ratelimit.New(memory(), ratelimit.Options{}, ratelimit.Policy{Limit: core.FixedWindow(1, time.Hour).Named("one")}))
	e.GET("/", ok)
	get(e, "/")
	w := get(e, "/")
	if len(handled) != 1 || w.Code != http.StatusTooManyRequests || w.Body.String() != "no: one" {
		t.Errorf("handled %v, answered %d %q, want one error and the handler's answer", handled, w.Code, w.Body)
	}
	if got := w.Header().Get("Retry-After"); got != "3600" {
		t.Errorf("Retry-After is %q, want 3600", got)
	}
}

// However the client asks, and however echo renders, it is for the error handler to say
// what the client reads.
func TestAnErrorHandlerIsGivenEveryDenial(t *testing.T) {
	var problems []string
	e := echo.New()
	e.Debug = true
	e.HTTPErrorHandler = func(err error, c echo.Context) {
		var denied *echo.HTTPError
		if !errors.As(err, &denied) {
			t.Fatalf("handled a %T, want an *echo.HTTPError", err)
		}
		problem, _ := denied.Message.(*ratelimit.Document)
		problems = append(problems, strings.Join(problem.ViolatedPolicies, ","))
		_ = c.HTML(http.StatusTooManyRequests, "<h1>later</h1>")
	}
	e.Use(ratelimit.New(memory(), ratelimit.Options{}, ratelimit.Policy{Limit: core.FixedWindow(1, time.Hour).Named("one")}))
	e.GET("/", ok)
	get(e, "/")
	for _, visit := range [][]string{{"/"}, {"/?pretty"}, {"/", "Accept: text/plain"}, {"/", "Accept: text/plain;q=1, */*;q=0.1"}} {
		problems = nil
		w := get(e, visit[0], visit[1:]...)
		if !slices.Equal(problems, []string{"one"}) || w.Body.String() != "<h1>later</h1>" || w.Header().Get("Content-Type") != "text/html; charset=UTF-8" {
			t.Errorf("%q: handled %q, answered %q, want the handler's answer in HTML", visit, problems, w.Body)
		}
	}
}

func TestADenialIsAnsweredOnce(t *testing.T) {
	hook := func(w http.ResponseWriter, _ *http.Request, _ *ratelimit.Denial) { _, _ = w.Write([]byte("denied\n")) }
	for name, c := range map[string]struct {
		options ratelimit.Options
		lines   []string
		native  bool
	}{
		"problem": {native: true},
		"text":    {lines: []string{"Accept: text/plain"}, native: true},
		"hook":    {options: ratelimit.Options{Denied: hook}},
		"silent":  {options: ratelimit.Options{Denied: func(http.ResponseWriter, *http.Request, *ratelimit.Denial) {}}},
	} {
		t.Run(name, func(t *testing.T) {
			var returned error
			after, ran := 0, 0
			e := echo.New()
			e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
				return func(c echo.Context) error {
					c.Response().After(func() { after++ })
					returned = next(c)
					if returned != nil {
						c.Error(returned) // as echo's own logger does: handled before echo does
					}
					return returned
				}
			})
			e.Use(ratelimit.New(memory(), c.options, ratelimit.Policy{Limit: core.FixedWindow(1, time.Hour)}))
			e.GET("/", func(echo.Context) error { ran++; return nil })
			get(e, "/")
			w := get(e, "/", c.lines...)
			if got := returned != nil; got != c.native {
				t.Errorf("the middleware returned %v, want an error to be %v", returned, c.native)
			}
			if ran != 1 {
				t.Errorf("the handler ran %d times, want 1", ran)
			}
			if n := strings.Count(w.Body.String(), "\n"); n > 1 || after > 1 {
				t.Errorf("answered more than once: %q", w.Body)
			}
		})
	}
}

func TestOuterMiddlewareSeesStatusAndSize(t *testing.T) {
	var status int
	var size int64
	e := echo.New()
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			err := next(c)
			status, size = c.Response().Status, c.Response().Size
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
	own := func(err error, c echo.Context) { _ = c.String(http.StatusUnauthorized, err.Error()) }
	for name, c := range map[string]struct {
		err     error
		handler echo.HTTPErrorHandler
		outside func(*echo.Echo)
		want    int
	}{
		"echo's own error":                  {err: echo.NewHTTPError(http.StatusUnauthorized), want: http.StatusUnauthorized},
		"one that hides another one":        {err: echo.NewHTTPError(http.StatusBadRequest).SetInternal(echo.NewHTTPError(http.StatusUnauthorized)), want: http.StatusUnauthorized},
		"echo's own error, wrapped":         {err: fmt.Errorf("login: %w", echo.NewHTTPError(http.StatusUnauthorized)), want: http.StatusInternalServerError},
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
			policy := ratelimit.Policy{Limit: limit, Settle: func(_ *http.Request, served ratelimit.Served) int {
				settled <- served.Status
				return 1
			}}
			inner := policy
			inner.Limit = limit.Named("inner")
			e.Use(ratelimit.New(memory(), ratelimit.Options{}, policy), ratelimit.New(memory(), ratelimit.Options{}, inner))
			e.GET("/", func(echo.Context) error { return c.err })
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
			return func(c echo.Context) error {
				if err := next(c); err != nil {
					return c.NoContent(status)
				}
				return nil
			}
		})
	}
}

func TestGroupsAndRoutesNest(t *testing.T) {
	l := memory()
	e := echo.New()
	api := e.Group("/api", ratelimit.Leaky(l, 10, core.PerSecond(1)))
	api.GET("/items/:id", ok, ratelimit.FixedWindow(l, 5, time.Minute, keyfuncs.Route))
	e.GET("/free", ok)
	got := get(e, "/api/items/7").Header().Get("RateLimit")
	if want := `"leaky:10:1/s";r=9;t=9, "fixed-window:5:1m";r=4;t=60`; got != want {
		t.Errorf("RateLimit is %s, want %s", got, want)
	}
	if got := get(e, "/free").Header().Get("RateLimit"); got != "" {
		t.Errorf("outside of the group RateLimit is %s, want none", got)
	}
}

// routes sends a GET to each path of a site and returns the routes that a limiter
// by route has seen.
func routes(build func(ratelimit.Middleware) http.Handler, paths ...string) []string {
	var seen []string
	options := ratelimit.Options{Observe: func(e ratelimit.Event) {
		seen = append(seen, strings.TrimPrefix(e.Outcomes[0].Key, "route:"))
	}}
	policy := ratelimit.Policy{Limit: core.Leaky(100, core.PerSecond(1)), By: keyfuncs.Route}
	h := build(ratelimit.New(memory(), options, policy))
	for _, path := range paths {
		get(h, path)
	}
	return seen
}

func TestWhatMatchesNothingInAGroupIsUnmatched(t *testing.T) {
	got := routes(func(limiter ratelimit.Middleware) http.Handler {
		e := echo.New()
		api := e.Group("/api", limiter)
		api.GET("/items/:id", ok)
		api.GET("/files/*", ok)
		return e
	}, "/api/items/7", "/api/nowhere", "/api/no/where", "/api/files/a")
	if want := []string{"/api/items/{id}", "(unmatched)", "(unmatched)", "/api/files/{...}"}; !slices.Equal(got, want) {
		t.Errorf("routes %q, want %q", got, want)
	}
}

// echo indents its own errors in the same way.
func TestTheDocumentIsIndentedWhereEchoIndents(t *testing.T) {
	e := echo.New()
	e.Use(ratelimit.FixedWindow(memory(), 1, time.Hour))
	e.GET("/", ok)
	get(e, "/")
	var plain, pretty ratelimit.Problem
	for path, problem := range map[string]*ratelimit.Problem{"/": &plain, "/?pretty": &pretty} {
		w := get(e, path)
		if err := json.Unmarshal(w.Body.Bytes(), problem); err != nil || w.Header().Get("Content-Type") != ratelimit.ProblemType {
			t.Errorf("%s: %v, %q", path, err, w.Header())
		}
	}
	if plain.Status != http.StatusTooManyRequests || !reflect.DeepEqual(plain, pretty) {
		t.Errorf("%+v and %+v, want the same problem", plain, pretty)
	}
}

func TestBeforeRoutingThereIsNoRoute(t *testing.T) {
	got := routes(func(limiter ratelimit.Middleware) http.Handler {
		e := echo.New()
		e.Pre(limiter)
		e.GET("/items/:id", ok)
		return e
	}, "/items/7", "/nowhere")
	if want := []string{"(unmatched)", "(unmatched)"}; !slices.Equal(got, want) {
		t.Errorf("routes %q, want %q", got, want)
	}
}

func TestALimiterByRouteBeforeRoutingIsNoticed(t *testing.T) {
	for place, warnings := range map[string]int{"Pre": 1, "Use": 0, "the route": 0} {
		for _, settle := range []func(*http.Request, ratelimit.Served) int{nil, func(*http.Request, ratelimit.Served) int { return 1 }} {
			var log bytes.Buffer
			limit := ratelimit.New(memory(), ratelimit.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))},
				ratelimit.Policy{Limit: core.Leaky(1000, core.PerSecond(1)), By: keyfuncs.Join(keyfuncs.RemoteIP, keyfuncs.Route), Settle: settle})
			e := echo.New()
			var inside []ratelimit.Middleware
			switch place {
			case "Pre":
				e.Pre(limit)
			case "Use":
				e.Use(limit)
			default:
				inside = append(inside, limit)
			}
			e.GET("/items/:id", ok, inside...)
			for range 60 {
				get(e, "/nowhere")
				get(e, "/items/secret")
			}
			got := log.String()
			if strings.Count(got, "\n") != warnings || strings.Contains(got, "secret") ||
				warnings > 0 && (!strings.Contains(got, "level=WARN") || !strings.Contains(got, "found=/items/{id}") || !strings.Contains(got, "echo: Use, not Pre")) {
				t.Errorf("%s: logged %q, want %d warnings", place, got, warnings)
			}
		}
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

// A middleware that several echos use knows the routes of each.
func TestOneMiddlewareInTwoEchos(t *testing.T) {
	got := routes(func(limiter ratelimit.Middleware) http.Handler {
		one, two := echo.New(), echo.New()
		one.Use(limiter)
		one.GET("/files/*", ok)
		two.Use(limiter)
		two.GET("/images/*", ok)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			one.ServeHTTP(w, r)
			two.ServeHTTP(w, r)
		})
	}, "/files/a", "/images/a")
	if want := []string{"/files/{...}", keyfuncs.Unmatched, keyfuncs.Unmatched, "/images/{...}"}; !slices.Equal(got, want) {
		t.Errorf("routes %q, want %q", got, want)
	}
}

// The routes of a host are routes, catch-alls included.
func TestRoutesOfAHost(t *testing.T) {
	got := routes(func(limiter ratelimit.Middleware) http.Handler {
		e := echo.New()
		e.Host("example.com", limiter).GET("/files/*", ok)
		return e
	}, "/files/a", "/nowhere")
	if want := []string{"/files/{...}", keyfuncs.Unmatched}; !slices.Equal(got, want) {
		t.Errorf("routes %q, want %q", got, want)
	}
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
		echo.WrapMiddleware(ratelimit.MergeUpstream),
	)
	e.GET("/:what", func(c echo.Context) error {
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
