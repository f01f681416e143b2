package ratelimit

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/keyfuncs"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
)

// Middleware puts a limiter in front of the handlers that it wraps.
type Middleware = echo.MiddlewareFunc

// These are the types of package nethttp.
type (
	Policy    = ratelimit.Policy
	Options   = ratelimit.Options
	ErrorMode = ratelimit.ErrorMode
	Event     = ratelimit.Event
	Outcome   = ratelimit.Outcome
	Guard     = ratelimit.Guard
	Refusal   = ratelimit.Refusal
	Problem   = ratelimit.Problem
)

// ProblemType is the media type of a [Problem].
const ProblemType = ratelimit.ProblemType

// What happens to a request when the store cannot answer; see package nethttp.
const (
	FailOpen   = ratelimit.FailOpen
	FailClosed = ratelimit.FailClosed
)

// New returns a middleware that asks all policies about each request, in one
// round trip, and lets it through if all of them allow it; then all are charged,
// and otherwise none. It panics with the reason if a policy makes no sense.
func New(l *core.Limiter, options Options, policies ...Policy) Middleware {
	guard := ratelimit.NewGuard(l, options, policies...)
	known := new(routes)
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			request, refusal := guard.Check(c.Response().Header(), c.Request(), matched{c, known})
			c.SetRequest(request)
			switch {
			case refusal == nil:
				return next(c)
			case refusal.Native(request) && !indented(c):
				c.Response().Header().Set(echo.HeaderContentType, ProblemType)
				return echo.NewHTTPError(refusal.Status, refusal.Problem())
			default:
				refusal.ServeHTTP(c.Response(), request)
				return nil
			}
		}
	}
}

// indented reports whether echo would write JSON in another form than others do.
func indented(c echo.Context) bool {
	return c.Echo().Debug || c.QueryParams().Has("pretty")
}

// Leaky returns a middleware with a [core.Leaky] limit: capacity requests at once,
// then as many as drain.
//
// Without by, each peer address has a limit of its own; several functions are
// joined by [keyfuncs.Join]. A limit that makes no sense panics here, not when
// requests come. The functions below work alike.
func Leaky(l *core.Limiter, capacity int, drain core.Rate, by ...keyfuncs.Func) Middleware {
	return New(l, Options{}, PolicyFor(core.Leaky(capacity, drain), by...))
}

// Shaping returns a middleware with a [core.Shaping] limit: requests are held
// and released at an even pace, and refused when capacity of them are waiting or
// being served. A client that goes away while it waits keeps its place in the
// queue until its turn.
func Shaping(l *core.Limiter, capacity int, drain core.Rate, by ...keyfuncs.Func) Middleware {
	return New(l, Options{}, PolicyFor(core.Shaping(capacity, drain), by...))
}

// TokenBucket returns a middleware with a [core.TokenBucket] limit.
func TokenBucket(l *core.Limiter, capacity int, refill core.Rate, by ...keyfuncs.Func) Middleware {
	return New(l, Options{}, PolicyFor(core.TokenBucket(capacity, refill), by...))
}

// GCRA returns a middleware with a [core.GCRA] limit.
func GCRA(l *core.Limiter, burst int, rate core.Rate, by ...keyfuncs.Func) Middleware {
	return New(l, Options{}, PolicyFor(core.GCRA(burst, rate), by...))
}

// FixedWindow returns a middleware with a [core.FixedWindow] limit.
func FixedWindow(l *core.Limiter, n int, window time.Duration, by ...keyfuncs.Func) Middleware {
	return New(l, Options{}, PolicyFor(core.FixedWindow(n, window), by...))
}

// SlidingWindow returns a middleware with a [core.SlidingWindow] limit.
func SlidingWindow(l *core.Limiter, n int, window time.Duration, by ...keyfuncs.Func) Middleware {
	return New(l, Options{}, PolicyFor(core.SlidingWindow(n, window), by...))
}

// SlidingLog returns a middleware with a [core.SlidingLog] limit.
func SlidingLog(l *core.Limiter, n int, window time.Duration, by ...keyfuncs.Func) Middleware {
	return New(l, Options{}, PolicyFor(core.SlidingLog(n, window), by...))
}

// PolicyFor returns a policy for a limit by the join of some key functions, or by
// the peer's address if there are none.
func PolicyFor(limit core.Limit, by ...keyfuncs.Func) Policy {
	return ratelimit.PolicyFor(limit, by...)
}

// DecisionFrom returns what the limiters in front of a handler have decided about
// its request, given the context of that request; see package nethttp.
func DecisionFrom(ctx context.Context) []Outcome { return ratelimit.DecisionFrom(ctx) }

// User names the requests of a user, "user:42", by what earlier middleware has
// put into the [echo.Context]: User("user_id") reads c.Get("user_id"), which must
// be a string, an integer or a [fmt.Stringer]; see [keyfuncs.UserValue]. A request
// without it is limited by its peer's address. The limiter must run after the
// authentication. It panics if key is empty.
func User(key string) keyfuncs.Func {
	if key == "" {
		panic("ratelimit: User: the key is empty")
	}
	return keyfuncs.UserValue(func(r *http.Request) any {
		m, ok := keyfuncs.MatchedFrom(r.Context()).(matched)
		if !ok {
			return nil
		}
		return m.c.Get(key)
	})
}

// matched tells the key functions what echo's router knows.
type matched struct {
	c      echo.Context
	routes *routes
}

func (m matched) Route() string {
	if m.c.Get(echo.ContextKeyHeaderAllow) != nil {
		return keyfuncs.Unmatched // echo knows the path, but not for this method
	}
	path := m.c.Path()
	if strings.HasSuffix(path, "*") && !m.routes.has(m.c, path) {
		return keyfuncs.Unmatched
	}
	return keyfuncs.RouteFromColons(path)
}

// routes are the methods and paths of handlers, collected at the first request. A
// group with middleware has a path of its own for what it does not find, which is
// none of them.
type routes struct {
	once  sync.Once
	known map[[2]string]bool
}

func (k *routes) has(c echo.Context, path string) bool {
	k.once.Do(func() {
		registered := c.Echo().Routes()
		for _, router := range c.Echo().Routers() { // those of hosts
			registered = append(registered, router.Routes()...)
		}
		k.known = make(map[[2]string]bool, len(registered))
		for _, r := range registered {
			k.known[[2]string{r.Method, r.Path}] = true
		}
	})
	return k.known[[2]string{c.Request().Method, path}]
}

func (m matched) PathValue(name string) string {
	value := m.c.Param(name)
	if m.c.Request().URL.RawPath == "" {
		return value
	}
	if decoded, err := url.PathUnescape(value); err == nil {
		return decoded // echo leaves a path as it came if it could be written otherwise
	}
	return value
}
