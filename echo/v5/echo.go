package ratelimit

import (
	"net/http"

	"github.com/labstack/echo/v5"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
)

// Middleware puts a limiter in front of the handlers that it wraps.
type Middleware = echo.MiddlewareFunc

// New returns a middleware that asks all policies about each request, in one
// round trip, and lets it through if all of them allow it; then all are charged,
// and otherwise none. It panics with the reason if a policy makes no sense.
//
// Limits with the same numbers, the same key and no name are one limit, whichever
// middlewares they are given to: see [core.Limit.Named].
func New(l *core.Limiter, options Options, policies ...Policy) Middleware {
	return FromGuard(guard.Must(guard.New(l, options, policies...)))
}

// FromGuard returns the middleware of a [guard.Guard], such as that of [guard.Adaptive], or one with limits that change while
// the server runs ([guard.Guard.Swap]). It panics if the Guard is nil.
func FromGuard(g *guard.Guard) Middleware {
	if g == nil {
		panic("ratelimit: FromGuard: the Guard is nil")
	}
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error {
			verdict := g.Decide(c.Request(), matched{c})
			verdict.WriteHeader(c.Response().Header())
			c.SetRequest(verdict.Request)
			denial := verdict.Denial
			switch {
			case denial == nil:
				return serve(c, verdict, next)
			case denial.Returnable(verdict.Request):
				return denied(c, denial.Problem())
			default:
				denial.ServeHTTP(c.Response(), verdict.Request)
				return nil
			}
		}
	}
}

// serve runs a handler. An error that it returns is answered further out, which the writer
// notices that the handler is given, or, where an outer middleware has put its own writer
// back, echo's response.
func serve(c *echo.Context, verdict guard.Verdict, next echo.HandlerFunc) (err error) {
	response, unwrapErr := echo.UnwrapResponse(c.Response())
	if unwrapErr != nil { // something else has been put in its place
		verdict.Serve(c.Response(), func(w http.ResponseWriter, _ *http.Request) (unanswered int) {
			defer func() { verdict.Replaced(c.Request()) }()
			c.SetResponse(w)
			err = next(c)
			return statusOf(err)
		})
		return err
	}
	verdict.Serve(response.ResponseWriter, func(w http.ResponseWriter, _ *http.Request) (unanswered int) {
		defer func() { verdict.Replaced(c.Request()) }()
		response.ResponseWriter = w
		defer func() {
			if !response.Committed {
				response.Before(func() { verdict.Answered(response.Status) })
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
