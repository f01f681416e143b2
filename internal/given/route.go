package given

import (
	"maps"
	"strings"
	"sync/atomic"
)

// Unmatched is the route of all requests that no pattern matched. They share one route, since clients choose the path.
const Unmatched = "(unmatched)"

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
