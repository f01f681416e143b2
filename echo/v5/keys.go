package ratelimit

import (
	"net/http"

	"github.com/labstack/echo/v5"

	"github.com/weir-go/ratelimit/echo/internal/routed"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
)

// User names the requests of a user, "user:42", by a value that earlier middleware has
// put into the [echo.Context]: User("user_id") reads c.Get("user_id"), which must
// be a string, an integer or a [fmt.Stringer]; see [keyfuncs.User]. A request
// without it is limited by its peer's address. The limiter must run after the
// authentication. It panics if key is empty.
func User(key string) keyfuncs.Func { return routed.User(key) }

// With returns a function of a request that asks the [echo.Context]. It is for the functions
// of a [Policy]: LimitFor, Cost, Skip, or a key by [keyfuncs.User].
//
//	ratelimit.Policy{Skip: ratelimit.With(func(c *echo.Context) bool { return c.Get("staff") == true })}
//
// The policy has to belong to a middleware of this package. Elsewhere there is no
// [echo.Context], and the result is the zero T: LimitFor then answers with 500, but a Cost of
// 0 limits no request. With panics if f is nil.
func With[T any](f func(*echo.Context) T) func(*http.Request) T {
	if f == nil {
		panic("ratelimit: With: the function is nil")
	}
	return guard.With(func(m matched) T { return f(m.c) })
}

// ClientIP names requests by the client's address as echo's IPExtractor finds it
// ([echo.Context.RealIP]), in the notation of
// [keyfuncs.IP]. It takes IP's options for the lengths of prefixes. Where the
// extractor has no address to tell, the peer pays. It panics if an option is a trust
// model.
//
// echo's own extractors believe all private, link-local and loopback addresses,
// unless they are told otherwise, and LegacyIPExtractor believes every client.
func ClientIP(options ...keyfuncs.Trust) keyfuncs.Func { return routed.ClientIP(options) }

// matched tells the key functions the route that echo has found.
type matched struct{ c *echo.Context }

func (m matched) Route() string {
	// Without a route there is no method: before routing, and for 404 and 405. A
	// group with middleware has a route of its own for paths that it does not find.
	method := m.c.RouteInfo().Method
	return routed.Route(m.c.Path(), method != "" && method != echo.RouteNotFound)
}

func (m matched) PathValue(name string) string {
	return routed.PathValue(m.c.Request(), m.c.Param(name))
}

// WholePath tells package policies that the route stands for the whole path.
func (m matched) WholePath() bool { return true }

func (m matched) Get(key string) any { return m.c.Get(key) }

func (m matched) RealIP() string { return m.c.RealIP() }
