// Package routed is what the adapters for the versions of echo have in common: what echo's
// router and context tell the key functions about a request.
package routed

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
)

// Request is a request on its way through echo, which an adapter puts into the
// request's context.
type Request interface {
	keyfuncs.Matched

	// Get returns what earlier middleware has put into echo's context.
	Get(key string) any
	// RealIP returns what echo has been told to take for the client's address, or ""
	// if it has not been told.
	RealIP() string
}

// Route returns the pattern of a path in brace form. An echo without a route for
// the request, or with one for other methods alone, may have a path nevertheless.
func Route(path string, found bool) string {
	if !found {
		return keyfuncs.Unmatched
	}
	return keyfuncs.RouteFromColons(path)
}

// PathValue returns what a parameter of echo's stands for. Echo leaves it as it came
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
	return keyfuncs.UserValue(guard.With(func(r Request) any { return r.Get(key) }))
}

// ClientIP is the adapters' function of that name.
func ClientIP(options []keyfuncs.Trust) keyfuncs.Func {
	resolve := keyfuncs.Resolver(guard.With(Request.RealIP))
	return keyfuncs.IP(append([]keyfuncs.Trust{resolve}, options...)...)
}

// SetType sets the media type of the response to a denied request, just before it begins:
// where its document was rendered as JSON, and for a HEAD, where nothing was. What an error
// handler of the program's own renders has a type of its own.
func SetType(h http.Header, rendered, head bool, mediaType string) {
	set := h.Get("Content-Type")
	if rendered && strings.HasPrefix(set, "application/json") || head && set == "" {
		h.Set("Content-Type", mediaType)
	}
}
