// Package routed is the common part of the adapters for the versions of echo: the route,
// the user and the address that echo tells the key functions.
package routed

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/internal/given"
	"github.com/weir-go/ratelimit/keyfuncs"
)

// Request is a request on its way through echo, which an adapter puts into the
// request's context.
type Request interface {
	keyfuncs.Matched

	// Get returns a value that earlier middleware has put into echo's context.
	Get(key string) any
	// RealIP returns the client's address as echo finds it, or ""
	// if echo has not been told how.
	RealIP() string
}

// Route returns the pattern of a path in brace form. An echo without a route for
// the request, or with one for other methods alone, may have a path nevertheless.
func Route(path string, found bool) string {
	if !found {
		return given.Unmatched
	}
	return given.RouteFromColons(path)
}

// PathValue returns the value of a parameter of echo's, decoded. Echo leaves it as it came
// if the path could be written otherwise.
func PathValue(r *http.Request, parameter string) string {
	if r.URL.RawPath == "" {
		return parameter
	}
	if decoded, err := url.PathUnescape(parameter); err == nil {
		return decoded
	}
	return parameter
}

// User is the adapters' function of that name.
func User(key string) keyfuncs.Func {
	if key == "" {
		panic("ratelimit: User: the key is empty")
	}
	return keyfuncs.User(guard.With(func(r Request) any { return r.Get(key) }))
}

// ClientIP is the adapters' function of that name.
func ClientIP(options []keyfuncs.Trust) keyfuncs.Func {
	found := given.FoundBy(guard.With(Request.RealIP))
	return keyfuncs.IP(append([]keyfuncs.Trust{found}, options...)...)
}

// SetType sets the media type of the response to a denied request, just before it begins:
// where its document was rendered as JSON, and for a HEAD, which has no body. The answer of an error
// handler of the program's own has its own type.
func SetType(h http.Header, rendered, head bool, mediaType string) {
	set := h.Get("Content-Type")
	if rendered && strings.HasPrefix(set, "application/json") || head && set == "" {
		h.Set("Content-Type", mediaType)
	}
}
