package keyfuncs

import (
	"context"
	"maps"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/weir-go/ratelimit/internal/given"
)

// Unmatched is the route of all requests that no pattern matched. They share it:
// the path itself is for the client to vary at will.
const Unmatched = "(unmatched)"

// Matched is the route that a router other than [http.ServeMux] has found for a request. An adapter puts it into the
// request's context by [WithMatched].
type Matched interface {
	// Route returns the matched pattern in brace form, "/items/{id}", as
	// [RouteFromColons] makes it, or "" if no pattern matched.
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
			route = Unmatched
		}
		return "route:" + encode(route), nil
	}
	return "route:" + encode(RouteFromPattern(r.Pattern)), nil
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

// RouteFromPattern returns the route that a pattern of [http.ServeMux] stands
// for: without the method, and with its end written out.
//
//	"GET /items/{id}"     "/items/{id}"
//	"example.com/items"   "example.com/items"
//	"/static/"            "/static/{...}", everything below
//	"/static/{$}"         "/static/", only this
//	"/files/{rest...}"    "/files/{rest...}"
//	""                    Unmatched
func RouteFromPattern(pattern string) string {
	if pattern == "" {
		return Unmatched
	}
	// A space in front of the path ends the method; one in the path is the path's.
	hostAt := 0
	if before, _, found := strings.Cut(pattern, "/"); found {
		hostAt = strings.LastIndexAny(before, " \t") + 1
	}
	route := pattern[hostAt:]
	if strings.HasSuffix(route, "/{$}") {
		return strings.TrimSuffix(route, "{$}")
	}
	if strings.HasSuffix(route, "/") {
		return ofSubtrees.of(route, func() string { return route + "{...}" })
	}
	return route
}

// RouteFromColons returns the route that a pattern of gin or echo stands for,
// with its wildcards in braces. An escaped colon is a colon, and braces, which
// mean nothing to those routers, are percent-encoded as [http.ServeMux] wants it.
//
//	"/items/:id"          "/items/{id}"
//	"/user/:id/*action"   "/user/{id}/{action...}"
//	"/user/:id/*"         "/user/{id}/{...}"
//	"/static/"            "/static/", only this
//	"/jobs\:cancel"       "/jobs:cancel"
//	""                    Unmatched
func RouteFromColons(pattern string) string {
	if pattern == "" {
		return Unmatched
	}
	if !strings.ContainsAny(pattern, ":*{}") {
		return pattern
	}
	return ofColons.of(pattern, func() string { return fromColons(pattern) })
}

func fromColons(pattern string) string {
	var route strings.Builder
	for rest := pattern; rest != ""; {
		start := strings.IndexAny(rest, `\:*`)
		if start < 0 {
			start = len(rest)
		}
		route.WriteString(encodeBraces(rest[:start]))
		rest = rest[start:]
		switch {
		case rest == "":
		case strings.HasPrefix(rest, `\:`):
			route.WriteByte(':')
			rest = rest[2:]
		case rest[0] == '\\':
			route.WriteByte('\\')
			rest = rest[1:]
		default:
			end := strings.IndexByte(rest, '/')
			if end < 0 {
				end = len(rest)
			}
			route.WriteString("{" + encodeBraces(rest[1:end]))
			if rest[0] == '*' {
				route.WriteString("...")
			}
			route.WriteByte('}')
			rest = rest[end:]
		}
	}
	return route.String()
}

func encodeBraces(text string) string {
	return braceEncoder.Replace(text)
}

var braceEncoder = strings.NewReplacer("{", "%7B", "}", "%7D")

// routeMemory remembers the routes of patterns: a router has few, and asks for one at each request.
type routeMemory struct {
	known atomic.Pointer[map[string]string]
}

var ofSubtrees, ofColons routeMemory

// mostRoutes is how many routes are remembered.
const mostRoutes = 10_000

// of returns the route of a pattern, which is made if it is not known.
func (m *routeMemory) of(pattern string, route func() string) string {
	known := m.known.Load()
	if known != nil {
		if route, found := (*known)[pattern]; found {
			return route
		}
	}
	made := route()
	next := make(map[string]string)
	if known != nil && len(*known) < mostRoutes {
		maps.Copy(next, *known)
	}
	next[pattern] = made
	m.known.CompareAndSwap(known, &next) // or another goroutine has added one
	return made
}
