package ratelimit

import (
	"net/http"
	"strings"
	"sync"

	"github.com/labstack/echo/v4"

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
//	ratelimit.Policy{Skip: ratelimit.With(func(c echo.Context) bool { return c.Get("staff") == true })}
//
// The policy has to belong to a middleware of this package. Elsewhere there is no
// [echo.Context], and the result is the zero T: LimitFor then answers with 500, but a Cost of
// 0 limits no request. With panics if f is nil.
func With[T any](f func(echo.Context) T) func(*http.Request) T {
	if f == nil {
		panic("ratelimit: With: the function is nil")
	}
	return guard.With(func(m matched) T { return f(m.c) })
}

// ClientIP names requests by the client's address as echo's IPExtractor finds it
// ([echo.Context]'s RealIP), in the notation of
// [keyfuncs.IP]. It takes IP's options for the lengths of prefixes. Where the
// extractor has no address to tell, the peer pays. So it does in an echo
// without an extractor: there RealIP would believe each X-Forwarded-For. It
// panics if an option is a trust model.
//
// echo's own extractors believe all private, link-local and loopback addresses,
// unless they are told otherwise.
func ClientIP(options ...keyfuncs.Trust) keyfuncs.Func { return routed.ClientIP(options) }

// matched tells the key functions the route that echo has found.
type matched struct {
	c      echo.Context
	routes *routes
}

func (m matched) Route() string {
	path := m.c.Path()
	// Echo has a path also for a method without a handler. So has a group with
	// middleware, for paths that it does not find.
	found := m.c.Get(echo.ContextKeyHeaderAllow) == nil && (!strings.HasSuffix(path, "*") || m.routes.has(m.c, path))
	return routed.Route(path, found)
}

func (m matched) PathValue(name string) string {
	return routed.PathValue(m.c.Request(), m.c.Param(name))
}

// WholePath tells package policies that the route stands for the whole path.
func (m matched) WholePath() bool { return true }

func (m matched) Get(key string) any { return m.c.Get(key) }

func (m matched) RealIP() string {
	if m.c.Echo().IPExtractor == nil {
		return ""
	}
	return m.c.RealIP()
}

// routes are the methods and paths of the handlers of each echo that the middleware
// is used in, collected at its first request.
type routes struct{ of sync.Map } // map[method and path]bool by *echo.Echo

func (k *routes) has(c echo.Context, path string) bool {
	known, collected := k.of.Load(c.Echo())
	if !collected {
		registered := c.Echo().Routes()
		for _, router := range c.Echo().Routers() { // those of hosts
			registered = append(registered, router.Routes()...)
		}
		all := make(map[[2]string]bool, len(registered))
		for _, r := range registered {
			all[[2]string{r.Method, r.Path}] = true
		}
		known, _ = k.of.LoadOrStore(c.Echo(), all)
	}
	all, _ := known.(map[[2]string]bool)
	return all[[2]string{c.Request().Method, path}]
}
