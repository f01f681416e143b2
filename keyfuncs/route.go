package keyfuncs

import (
	"context"
	"net/http"

	"github.com/weir-go/ratelimit/internal/given"
)

// Matched is the route that a router other than [http.ServeMux] has found for a request. An adapter puts it into the
// request's context by [WithMatched].
type Matched interface {
	// Route returns the matched pattern with its wildcards in braces, "/items/{id}" or "/files/{path...}", or "" if no
	// pattern matched. A wildcard without a name is "{...}".
	Route() string
	// PathValue returns the part of the path that a wildcard matched, or "" if there is no such wildcard. The value of a
	// catch-all wildcard has no leading slash.
	PathValue(name string) string
}

// WithMatched returns a context in which [Route] and [PathValue] ask matched
// instead of the request. A nil Matched changes nothing.
func WithMatched(ctx context.Context, matched Matched) context.Context {
	if matched == nil {
		return ctx
	}
	return context.WithValue(ctx, given.MatchedKey{}, matched)
}

// Route names requests by the pattern that their path matched, without the
// method: "route:/items/{id}". It is the same text under net/http, gin and echo,
// and never the path itself. Requests that match no pattern share
// "route:(unmatched)". It never fails.
//
// Under net/http, the pattern is known only after the router has found the handler. A
// limiter must wrap each handler, or the [http.ServeMux] itself, which it asks:
//
//	mux.Handle("GET /items/{id}", limit(item))      // each handler
//	http.ListenAndServe(":8080", limit(mux))        // the mux itself, not a wrapper of it
//
// Under chi, it goes where chi knows the route: to With, or to Use in a Group. The Use of
// a router runs before its routes are looked up, at the root as in a Route or a Mount;
// there all its routes would be one. It takes chi 5.3: from 5.2.3 on, chi tells only the
// innermost router's part of the pattern, and before, nothing.
//
//	r.With(limit).Get("/items/{id}", item)
//	r.Group(func(r chi.Router) { r.Use(limit); r.Get("/items/{id}", item) })
//
// Under echo it goes to Use, not to Pre. Behind a router that tells nothing, neither by
// [http.Request.Pattern] nor by [WithMatched], all requests are unmatched. The
// middleware's logger is warned when a limiter stands where it cannot know the route.
//
// "GET /items" and "POST /items" are one route; join [Method] to part them.
func Route(r *http.Request) (string, error) {
	if matched := given.MatchedFrom(r.Context()); matched != nil {
		route := matched.Route()
		if route == "" {
			route = given.Unmatched
		}
		return "route:" + encode(route), nil
	}
	return "route:" + encode(given.RouteFromPattern(r.Pattern)), nil
}

// PathValue names requests by the value of a wildcard in the matched pattern: with "/items/{id}", PathValue("id") gives
// "path:id=7". A request with a pattern without this wildcard, or with an empty value for it, gives [ErrNoKey].
//
// A limiter must stand where the route is known, as for [Route].
//
// The client chooses the value. The limit protects the thing that the value names, such
// as one account from many clients. PathValue panics if name is empty.
func PathValue(name string) Func {
	if name == "" {
		panic("keyfuncs: PathValue: the name is empty")
	}
	prefix := "path:" + encodeName(name) + "="
	return func(r *http.Request) (string, error) {
		var value string
		if matched := given.MatchedFrom(r.Context()); matched != nil {
			value = matched.PathValue(name)
		} else {
			value = r.PathValue(name)
		}
		if value == "" {
			return "", ErrNoKey
		}
		return prefix + encode(value), nil
	}
}
