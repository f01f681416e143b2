package ratelimit

import (
	"context"
	"encoding/json"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v5"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/echo/internal/routed"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
)

// Middleware puts a limiter in front of the handlers that it wraps.
type Middleware = echo.MiddlewareFunc

// These are the types of package guard.
type (
	Policy     = guard.Policy
	Options    = guard.Options
	ErrorMode  = guard.ErrorMode
	Event      = guard.Event
	Outcome    = guard.Outcome
	Unanswered = guard.Unanswered
	Refusal    = guard.Refusal
	Problem    = guard.Problem
	Served     = guard.Served
)

// ProblemType is the media type of a [Problem].
const ProblemType = guard.ProblemType

// What happens to a request when the store cannot answer; see package nethttp.
const (
	FailOpen   = guard.FailOpen
	FailClosed = guard.FailClosed
	Fallback   = guard.Fallback
)

// New returns a middleware that asks all policies about each request, in one
// round trip, and lets it through if all of them allow it; then all are charged,
// and otherwise none. It panics with the reason if a policy makes no sense.
//
// Limits with the same numbers, the same key and no name are one limit, whichever
// middlewares they are given to: see [core.Limit.Named].
func New(l *core.Limiter, options Options, policies ...Policy) Middleware {
	g := guard.Must(guard.New(l, options, policies...))
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error {
			request, refusal := g.Check(c.Response().Header(), c.Request(), matched{c})
			c.SetRequest(request)
			switch {
			case refusal == nil:
				return serve(c, g, request, next)
			case refusal.Returnable(request):
				return refused(c, refusal.Problem())
			default:
				refusal.ServeHTTP(c.Response(), request)
				return nil
			}
		}
	}
}

// serve runs a handler. An error that it returns is answered further out, which the writer
// notices that the handler is given, or, where an outer middleware has put its own writer
// back, echo's response.
func serve(c *echo.Context, g *guard.Guard, request *http.Request, next echo.HandlerFunc) (err error) {
	response, unwrapErr := echo.UnwrapResponse(c.Response())
	if unwrapErr != nil { // something else has been put in its place
		g.Serve(c.Response(), request, func(w http.ResponseWriter, _ *http.Request) (unanswered int) {
			c.SetResponse(w)
			err = next(c)
			return statusOf(err)
		})
		return err
	}
	g.Serve(response.ResponseWriter, request, func(w http.ResponseWriter, _ *http.Request) (unanswered int) {
		response.ResponseWriter = w
		defer func() {
			if !response.Committed {
				response.Before(func() { g.Answered(request, response.Status) })
			}
		}()
		err = next(c)
		return statusOf(err)
	})
	return err
}

// statusOf returns the status with which echo answers an error, or 0 if there is none.
func statusOf(err error) int {
	if err == nil {
		return 0
	}
	if status := echo.StatusCode(err); status != 0 {
		return status
	}
	return http.StatusInternalServerError
}

// ProblemError is the error that the middleware returns for a refused request.
// echo's error handler renders it as the problem document; one of your own finds it
// by [errors.As].
type ProblemError struct {
	// Problem is the problem document.
	Problem Problem

	rendered atomic.Bool // as JSON
}

// refused returns the error of a refused request. Where that is rendered as it is, the
// response has the media type of a problem.
func refused(c *echo.Context, problem Problem) error {
	err := &ProblemError{Problem: problem}
	response, unwrapErr := echo.UnwrapResponse(c.Response())
	if unwrapErr != nil { // something else has been put in its place, which tells of nothing
		c.Response().Header().Set(echo.HeaderContentType, ProblemType)
		return err
	}
	head := c.Request().Method == http.MethodHead
	response.Before(func() { routed.SetType(response.Header(), err.rendered.Load(), head, ProblemType) })
	return err
}

// Error implements error.
func (e *ProblemError) Error() string { return "ratelimit: " + e.Problem.Title }

// StatusCode makes it an [echo.HTTPStatusCoder].
func (e *ProblemError) StatusCode() int { return e.Problem.Status }

// MarshalJSON returns the problem document.
func (e *ProblemError) MarshalJSON() ([]byte, error) {
	e.rendered.Store(true)
	return json.Marshal(e.Problem)
}

// Leaky returns a middleware with a [core.Leaky] limit: capacity requests at once,
// then as many as drain.
//
// Without by, each peer address has a limit of its own: behind a proxy, that is the
// proxy's, so name your proxies to [keyfuncs.IP] there. Several functions are joined by
// [keyfuncs.Join].
//
// Two middlewares with the same numbers and the same key are one limit, and count for
// each other, on whichever routes they are. To keep them apart, add [keyfuncs.Route] to
// the key (keyfuncs.RemoteIP, keyfuncs.Route), or give their limits names: New(l,
// Options{}, PolicyFor(core.Leaky(10, core.PerSecond(1)).Named("search"))).
//
// A limit that makes no sense panics here, not when requests come. The functions below
// work alike.
func Leaky(l *core.Limiter, capacity int, drain core.Rate, by ...keyfuncs.Func) Middleware {
	return New(l, Options{}, PolicyFor(core.Leaky(capacity, drain), by...))
}

// Shaping returns a middleware with a [core.Shaping] limit: requests are held
// and released at an even pace, and refused when capacity of them are waiting or
// being served. A client that goes away while it waits frees its place: those behind it
// on this server move up. See [core.Reservation.Wait], [Policy] for Undelayed and
// [Options] for Draining.
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

// Layered returns a middleware with a limit for each address, and inside of it one
// for each user, API key or whatever else user.By reads, which the client may
// choose: he makes no more keys than his address may make requests. See package
// nethttp.
func Layered(l *core.Limiter, options Options, address, user Policy) Middleware {
	return New(l, options, guard.Layers(address, user)...)
}

// PolicyFor returns a policy for a limit by the join of some key functions, or by
// the peer's address if there are none.
func PolicyFor(limit core.Limit, by ...keyfuncs.Func) Policy {
	return guard.PolicyFor(limit, by...)
}

// DecisionFrom returns what the limiters in front of a handler have decided about
// its request, given the context of that request; see package nethttp.
func DecisionFrom(ctx context.Context) []Outcome { return guard.DecisionFrom(ctx) }

// Compare returns an Options.Observe that counts how the verdicts of a shadow policy
// compare with what is enforced; see package nethttp.
func Compare(c *core.Comparison, candidate string, next func(Event)) func(Event) {
	return guard.Compare(c, candidate, next)
}

// MergeUpstream makes one set of limit headers out of those of the limiters in front of a
// reverse proxy and those of the upstream server's response; see package nethttp. Wrap the
// proxy, or put it in front of echo's own, inside of the limiters:
//
//	e.Any("/*", echo.WrapHandler(ratelimit.MergeUpstream(proxy)))
//	e.Use(limit, echo.WrapMiddleware(ratelimit.MergeUpstream), middleware.Proxy(balancer))
//
// It panics if the proxy is nil.
func MergeUpstream(proxy http.Handler) http.Handler { return guard.MergeUpstream(proxy) }

// User names the requests of a user, "user:42", by what earlier middleware has
// put into the [echo.Context]: User("user_id") reads c.Get("user_id"), which must
// be a string, an integer or a [fmt.Stringer]; see [keyfuncs.UserValue]. A request
// without it is limited by its peer's address. The limiter must run after the
// authentication. It panics if key is empty.
func User(key string) keyfuncs.Func { return routed.User(key) }

// ClientIP names requests by what echo's IPExtractor takes for the client's address
// ([echo.Context.RealIP]), read again and brought into the notation of
// [keyfuncs.IP], whose options for the lengths of prefixes it takes. Where the
// extractor has no address to tell, the peer pays. It panics if an option is a trust
// model.
//
// echo's own extractors believe all private, link-local and loopback addresses,
// unless they are told otherwise, and LegacyIPExtractor believes everybody.
func ClientIP(options ...keyfuncs.Trust) keyfuncs.Func { return routed.ClientIP(options) }

// matched tells the key functions what echo knows.
type matched struct{ c *echo.Context }

func (m matched) Route() string {
	// Without a route there is no method: before routing, and for 404 and 405. A
	// group with middleware has a route of its own for what it does not find.
	method := m.c.RouteInfo().Method
	return routed.Route(m.c.Path(), method != "" && method != echo.RouteNotFound)
}

func (m matched) PathValue(name string) string {
	return routed.PathValue(m.c.Request(), m.c.Param(name))
}

func (m matched) Get(key string) any { return m.c.Get(key) }

func (m matched) RealIP() string { return m.c.RealIP() }
