package ratelimit_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/weir-go/ratelimit/core"
	ratelimit "github.com/weir-go/ratelimit/gin"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
)

func memory() *core.Limiter { return core.New(core.NewMemory()) }

func get(h http.Handler, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w
}

func TestADenialAbortsAndLaterHandlersDoNotRun(t *testing.T) {
	for name, options := range map[string]ratelimit.Options{
		"problem": {},
		"hook":    {Denied: func(http.ResponseWriter, *http.Request, *ratelimit.Denial) {}},
	} {
		var ran []string
		aborted := false
		step := func(name string) gin.HandlerFunc { return func(*gin.Context) { ran = append(ran, name) } }
		router := gin.New()
		router.Use(func(c *gin.Context) {
			c.Next()
			aborted = c.IsAborted()
		})
		router.Use(ratelimit.New(memory(), options, ratelimit.Policy{Limit: core.FixedWindow(1, time.Hour)}), step("middleware"))
		router.GET("/", step("first"), step("second"))

		get(router, "/")
		if want := []string{"middleware", "first", "second"}; !slices.Equal(ran, want) || aborted {
			t.Errorf("%s: an admitted request ran %q, aborted %v, want all", name, ran, aborted)
		}
		ran = nil
		if w := get(router, "/"); w.Code != http.StatusTooManyRequests || ran != nil || !aborted {
			t.Errorf("%s: a denied request was answered %d, ran %q, aborted %v, want 429 and nothing", name, w.Code, ran, aborted)
		}
	}
}

func TestOuterMiddlewareSeesStatusAndSize(t *testing.T) {
	var status, size int
	router := gin.New()
	router.Use(func(c *gin.Context) {
		c.Next()
		status, size = c.Writer.Status(), c.Writer.Size()
	})
	router.Use(ratelimit.FixedWindow(memory(), 1, time.Hour))
	router.GET("/", func(*gin.Context) {})
	get(router, "/")
	w := get(router, "/")
	if status != w.Code || size != w.Body.Len() || status != http.StatusTooManyRequests || size == 0 {
		t.Errorf("outer middleware saw %d of %d bytes, the client %d of %d", status, size, w.Code, w.Body.Len())
	}
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

// Who leaves an error to be answered further out has what the client gets settled. If
// nobody is seen to answer, that is 500, or the status that the handler has set.
func TestErrorsAreSettledByWhatTheClientGets(t *testing.T) {
	wrong := errors.New("wrong password")
	leave := func(c *gin.Context) { _ = c.Error(wrong) }
	for name, c := range map[string]struct {
		handler gin.HandlerFunc
		answer  gin.HandlerFunc // further out
		code    int
		settled int
	}{
		"by a document":            {handler: leave, answer: func(c *gin.Context) { c.JSON(401, "no") }, code: 401, settled: 401},
		"by a text":                {handler: leave, answer: func(c *gin.Context) { c.String(403, "no") }, code: 403, settled: 403},
		"by a status":              {handler: leave, answer: func(c *gin.Context) { c.Status(401) }, code: 401, settled: 401},
		"by a status that is sent": {handler: leave, answer: func(c *gin.Context) { c.AbortWithStatus(401) }, code: 401, settled: 401},
		"by sending what there is": {handler: leave, answer: func(c *gin.Context) { c.Writer.WriteHeaderNow() }, code: 200, settled: 200},
		"by a write":               {handler: leave, answer: func(c *gin.Context) { _, _ = c.Writer.WriteString("fine") }, code: 200, settled: 200},
		"by bytes":                 {handler: leave, answer: func(c *gin.Context) { _, _ = c.Writer.Write([]byte("fine")) }, code: 200, settled: 200},
		"by a flush":               {handler: leave, answer: func(c *gin.Context) { c.Writer.Flush() }, code: 200, settled: 200},
		"by net/http":              {handler: leave, answer: func(c *gin.Context) { http.Error(c.Writer, "no", http.StatusUnauthorized) }, code: 401, settled: 401},
		"by nobody":                {handler: leave, answer: func(*gin.Context) {}, code: 200, settled: 500},
		"by another status":        {handler: func(c *gin.Context) { leave(c); c.Status(401) }, answer: func(c *gin.Context) { c.String(403, "no") }, code: 403, settled: 403},
		"by the handler's status":  {handler: func(c *gin.Context) { leave(c); c.Status(401) }, answer: func(*gin.Context) {}, code: 401, settled: 401},
		"by the handler itself":    {handler: func(c *gin.Context) { leave(c); c.String(401, "no") }, answer: func(*gin.Context) {}, code: 401, settled: 401},
		"no error, and no answer":  {handler: func(*gin.Context) {}, answer: func(*gin.Context) {}, code: 200, settled: 200},
	} {
		t.Run(name, func(t *testing.T) {
			settled := make(chan int, 9)
			limit := core.FixedWindow(5, time.Hour)
			policy := ratelimit.Policy{Limit: limit, Settle: ratelimit.SettlePolicy{Cost: func(_ *http.Request, served ratelimit.Served) int {
				settled <- served.Status
				return 1
			}}}
			inner := policy
			inner.Limit = limit.Named("inner")
			router := gin.New()
			router.Use(
				func(context *gin.Context) {
					context.Next()
					c.answer(context)
				},
				ratelimit.New(memory(), ratelimit.Options{}, policy),
				ratelimit.New(memory(), ratelimit.Options{}, inner),
			)
			router.GET("/", c.handler)
			if w := visit(t, router, "/"); w.Code != c.code {
				t.Errorf("answered %d, want %d", w.Code, c.code)
			}
			for range 2 {
				if got := <-settled; got != c.settled {
					t.Errorf("settled by %d, want %d", got, c.settled)
				}
			}
		})
	}
}

// gin uses its context for another request then.
func TestTheRouteIsKnownWhenTheRequestHasEnded(t *testing.T) {
	routes := make(chan string, 100)
	router := gin.New()
	router.Use(ratelimit.New(memory(), ratelimit.Options{}, ratelimit.Policy{
		Limit: core.FixedWindow(1000, time.Hour),
		Settle: ratelimit.SettlePolicy{Cost: func(r *http.Request, _ ratelimit.Served) int {
			route, _ := keyfuncs.Route(r)
			routes <- route
			return 1
		}},
	}))
	router.GET("/items/:id", func(c *gin.Context) { _ = c.Error(errors.New("nobody answers")) })
	router.GET("/other", func(*gin.Context) {})
	for range 50 {
		visit(t, router, "/items/7")
		get(router, "/other")
	}
	count := make(map[string]int)
	for range 100 {
		count[<-routes]++
	}
	if count["route:/items/{id}"] != 50 || count["route:/other"] != 50 {
		t.Errorf("settled %v, want 50 of each route", count)
	}
}

// Without the end of a request to wait for, it is settled when the middleware returns.
func TestAnErrorIsSettledAtOnceWhereNoRequestEnds(t *testing.T) {
	settled := 0
	router := gin.New()
	router.Use(ratelimit.New(memory(), ratelimit.Options{}, ratelimit.Policy{
		Limit:  core.FixedWindow(5, time.Hour),
		Settle: ratelimit.SettlePolicy{Cost: func(_ *http.Request, served ratelimit.Served) int { settled = served.Status; return 1 }},
	}))
	router.GET("/", func(c *gin.Context) { _ = c.Error(errors.New("nobody answers")) })
	if get(router, "/"); settled != http.StatusInternalServerError {
		t.Errorf("settled by %d, want 500", settled)
	}
}

func TestGroupsAndRoutesNest(t *testing.T) {
	l := memory()
	router := gin.New()
	api := router.Group("/api", ratelimit.Leaky(l, 10, core.PerSecond(1)))
	api.GET("/items/:id", ratelimit.FixedWindow(l, 5, time.Minute, keyfuncs.Route), func(*gin.Context) {})
	router.GET("/free", func(*gin.Context) {})
	got := get(router, "/api/items/7").Header().Get("RateLimit")
	if want := `"leaky:10:1/s";r=9;t=9, "fixed-window:5:1m";r=4;t=60`; got != want {
		t.Errorf("RateLimit is %s, want %s", got, want)
	}
	if got := get(router, "/free").Header().Get("RateLimit"); got != "" {
		t.Errorf("outside of the group RateLimit is %s, want none", got)
	}
}

func TestPathValueOfACatchAllHasNoSlash(t *testing.T) {
	var key string
	options := ratelimit.Options{Observe: func(e ratelimit.Event) { key = e.Outcomes[0].Key }}
	router := gin.New()
	router.Use(ratelimit.New(memory(), options, ratelimit.Policy{Limit: core.Leaky(10, core.PerSecond(1)), By: keyfuncs.PathValue("rest")}))
	router.GET("/files/*rest", func(*gin.Context) {})
	get(router, "/files/a/b")
	if want := "path:rest=a/b"; key != want {
		t.Errorf("key %q, want %q", key, want)
	}
}

func TestClientIPLeavesTheRequestAsItIs(t *testing.T) {
	var key string
	options := ratelimit.Options{Observe: func(e ratelimit.Event) { key = e.Outcomes[0].Key }}
	router := gin.New()
	if err := router.SetTrustedProxies([]string{"192.0.2.1"}); err != nil {
		t.Fatal(err)
	}
	router.Use(ratelimit.New(memory(), options, ratelimit.Policy{Limit: core.Leaky(10, core.PerSecond(1)), By: ratelimit.ClientIP()}))
	var seen []string
	router.GET("/", func(c *gin.Context) { seen = c.Request.Header.Values("X-Forwarded-For") })

	lines := []string{"6.6.6.6", "203.0.113.9"}
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header["X-Forwarded-For"] = lines
	router.ServeHTTP(httptest.NewRecorder(), r)
	if want := "ip:203.0.113.9"; key != want || !slices.Equal(seen, lines) {
		t.Errorf("key %q, and the handler saw %q, want %q and %q", key, seen, want, lines)
	}
}

func TestTheContextOfTheRequestTellsTheDecision(t *testing.T) {
	router := gin.New()
	router.Use(ratelimit.Leaky(memory(), 10, core.PerSecond(1)))
	remaining := -1
	router.GET("/", func(c *gin.Context) {
		if outcomes := guard.OutcomesFrom(c.Request.Context()); len(outcomes) == 1 {
			remaining = outcomes[0].Decision.Remaining
		}
	})
	get(router, "/")
	if remaining != 9 {
		t.Errorf("remaining %d, want 9", remaining)
	}
}

func TestUserOutsideOfGinIsNobody(t *testing.T) {
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
