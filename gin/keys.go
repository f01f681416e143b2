package ratelimit

import (
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/internal/given"
	"github.com/weir-go/ratelimit/keyfuncs"
)

// User names the requests of a user, "user:42", by a value that earlier middleware has
// put into the [gin.Context]: User("user_id") reads c.Get("user_id"), which must
// be a string, an integer or a [fmt.Stringer]; see [keyfuncs.User]. A request
// without it is limited by its peer's address. The limiter must run after the
// authentication. It panics if key is empty.
func User(key string) keyfuncs.Func {
	if key == "" {
		panic("ratelimit: User: the key is empty")
	}
	return keyfuncs.User(With(func(c *gin.Context) any {
		value, _ := c.Get(key)
		return value
	}))
}

// With returns a function of a request that asks the [gin.Context]. It is for the functions
// of a [Policy]: LimitFor, Cost, Skip, or a key by [keyfuncs.User].
//
//	ratelimit.Policy{LimitFor: ratelimit.With(func(c *gin.Context) core.Limit { return plans[c.GetString("plan")] })}
//
// The policy has to belong to a middleware of this package. Elsewhere there is no
// [gin.Context], and the result is the zero T: LimitFor then answers with 500, but a Cost of
// 0 limits no request. With panics if f is nil.
func With[T any](f func(*gin.Context) T) func(*http.Request) T {
	if f == nil {
		panic("ratelimit: With: the function is nil")
	}
	return guard.With(func(m matched) T { return f(m.c) })
}

// ClientIP names requests by the client's address as gin finds it
// ([gin.Context.ClientIP]), in the notation of
// [keyfuncs.IP]. It takes IP's options for the lengths of prefixes. Where gin has
// no address to tell, the peer pays.
//
// Use it only after engine.SetTrustedProxies: an engine that has not been told its
// proxies believes each X-Forwarded-For, and a client can forge every address. gin
// also falls through from a malformed X-Forwarded-For to X-Real-IP, which
// [keyfuncs.TrustedProxies] never does. It panics if an option is a trust model.
func ClientIP(options ...keyfuncs.Trust) keyfuncs.Func {
	return keyfuncs.IP(append([]keyfuncs.Trust{given.FoundBy(With(clientIP))}, options...)...)
}

// clientIP asks gin for the client's address. Older versions read but the first line
// of a header, which is the client's own where a proxy adds a line, so it is shown
// all of them in one.
func clientIP(c *gin.Context) string {
	request := c.Request
	for name, lines := range request.Header {
		if len(lines) < 2 {
			continue
		}
		if c.Request == request {
			c.Request = request.Clone(request.Context())
			defer func() { c.Request = request }()
		}
		c.Request.Header[name] = []string{strings.Join(lines, ",")}
	}
	return c.ClientIP()
}

// matched tells the key functions the route that gin's router has found.
type matched struct{ c *gin.Context }

func (m matched) Route() string { return given.RouteFromColons(m.c.FullPath()) }

func (m matched) PathValue(name string) string {
	return strings.TrimPrefix(m.c.Param(name), "/") // gin keeps the slash of a catch-all
}

// WholePath tells package policies that the route stands for the whole path.
func (m matched) WholePath() bool { return true }
