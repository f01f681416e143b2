package ratelimit

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
)

// Middleware puts a limiter in front of the handlers that follow it.
type Middleware = gin.HandlerFunc

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
	return func(c *gin.Context) {
		verdict := g.Decide(c.Request, matched{c})
		verdict.WriteHeader(c.Writer.Header())
		c.Request = verdict.Request
		if verdict.Denial != nil {
			c.Abort()
			verdict.Denial.ServeHTTP(c.Writer, verdict.Request)
			return
		}
		verdict.Serve(c.Writer, func(w http.ResponseWriter, _ *http.Request) (unanswered int) {
			defer func() { verdict.Replaced(c.Request) }()
			return serve(c, w)
		})
	}
}

// serve runs the handlers that follow, with a writer that may notice the response. If they
// leave an error behind and no answer, it returns the status that they have set, or 500:
// outer middleware may answer it.
func serve(c *gin.Context, w http.ResponseWriter) (unanswered int) {
	if _, same := w.(gin.ResponseWriter); same { // there is nothing to notice
		c.Next()
		return 0
	}
	outside, before := c.Writer, len(c.Errors)
	noticed := &noticed{ResponseWriter: outside, below: w}
	c.Writer = noticed
	defer func() { noticed.left = true }()
	c.Next()
	switch set := outside.Status() != http.StatusOK; { // gin itself sends a status that handlers have set
	case len(c.Errors) == before && set:
		noticed.begin()
	case len(c.Errors) == before:
	case set:
		return outside.Status()
	default:
		return http.StatusInternalServerError
	}
	return 0
}
