package routertest

import (
	"regexp"
	"slices"
	"strings"
)

// route is one that a site has.
type route struct {
	// pattern covers the route, as a policy writes it. It names the route.
	pattern string
	// path is how routers register it: in braces, and with the expressions of chi. The default is that of the pattern.
	path string
	// narrower are patterns of policies for some values of the wildcards.
	narrower []string
}

// method returns the method of a route, or "" for any.
func (r *route) method() string {
	if method, _, found := strings.Cut(r.pattern, " "); found {
		return method
	}
	return ""
}

// registered returns the path of a route as routers other than net/http register it.
func (r *route) registered() string {
	if r.path != "" {
		return r.path
	}
	return pathOf(r.pattern)
}

// segments returns the segments of a request that have the wildcards of a route, given the values of these. In gin and echo, what stands behind
// a wildcard belongs to it.
func (r *route) segments(values []string, behind bool) []string {
	var all []string
	for segment := range strings.SplitSeq(r.registered(), "/") {
		found := wildcard.FindAllStringIndex(segment, -1)
		switch {
		case len(found) == 0 || len(values) == 0:
			continue
		case !behind:
			found, segment = found[:1], segment[:found[0][1]]
		}
		n := min(len(found), len(values))
		all = append(all, segment[:found[0][0]]+strings.Join(values[:n], "-")+segment[found[len(found)-1][1]:])
		values = values[n:]
	}
	return all
}

// pathOf returns the path of a pattern.
func pathOf(pattern string) string {
	_, path, _ := strings.Cut(pattern, "/")
	return "/" + strings.TrimSuffix(path, "{$}")
}

// below is the route whose handler cleans what is left of the path, as file servers do.
const below = "/files/{path...}"

// private is a part of it.
const private = "/files/private/"

// table has the routes of most sites. Some end in a slash, have a wildcard in a part of a segment or two of one name, or have a method beside
// routes that have none.
var table = []route{
	{pattern: "/login"},
	{pattern: "/orders"},
	{pattern: "/orders/new"},
	{pattern: "/users/{id}/reset"},
	{pattern: "/t/{tenant}/login"},
	{pattern: "/api/login"},
	{pattern: "/a/b/c"},
	{pattern: "/static/app.js"},
	{pattern: "/verify/{code}"},
	{pattern: "/oauth/v1/{app}"},
	{pattern: "/items/special"},
	{pattern: "/items/{id}"},
	{pattern: below, narrower: []string{private}},
	{pattern: "/carts/{$}"},
	{pattern: "/shop"},
	{pattern: "/shop/{$}"},
	{pattern: "/shop/{id}/{$}"},
	{pattern: "/mixed/{v}/status", path: "/mixed/v{n}/status", narrower: []string{"/mixed/v1/status"}},
	{pattern: "/mixed/{file}", path: "/mixed/a-{b}.json"},
	{pattern: "/pair/{pair}/x", path: "/pair/{a}-{b}/x"},
	{pattern: "/numbers/{id}", path: "/numbers/{id:[0-9]+}"},
	{pattern: "/names/{name}", path: "/names/{name:.+}.txt"},
	{pattern: "/double/{id}/users/{user}", path: "/double/{id}/users/{id}", narrower: []string{"/double/acme/users/{user}"}},
	{pattern: "/twice/{id}/users/{user}", path: "/twice/{id}/users/{id}", narrower: []string{"/twice/{id}/users/special"}},
	{pattern: "/calls"},
	{pattern: "POST /calls"},
	{pattern: "GET /calls/{id}"},
	{pattern: "POST /calls/{id}"},
}

// patterns returns those that policies have for routes.
func patterns(routes []route) []string {
	var all []string
	for i := range routes {
		all = append(all, routes[i].pattern)
		all = append(all, routes[i].narrower...)
	}
	return all
}

// targets returns the paths that requests are made of.
func targets(routes []route) []string {
	var all []string
	for i := range routes {
		all = append(all, routes[i].registered())
		for _, pattern := range routes[i].narrower {
			all = append(all, pathOf(pattern))
		}
	}
	return all
}

var wildcard = regexp.MustCompile(`\{([a-z]*)(\.\.\.|:[^}]*)?\}`)

// colons returns a path in the syntax of gin and echo, which have one wildcard in a segment. The rest of a path is written in their ways.
func colons(path, rest string) string {
	return wildcard.ReplaceAllStringFunc(strings.Replace(path, "{a}-{b}", "{pair}", 1), func(text string) string {
		if strings.HasSuffix(text, "...}") {
			return rest
		}
		return wildcard.ReplaceAllString(text, ":$1")
	})
}

// stars returns a path in the syntax of chi.
func stars(path string) string { return strings.Replace(path, "{path...}", "*", 1) }

// withPrefix puts a prefix in front of the path of a pattern.
func withPrefix(prefix, pattern string) string {
	at := strings.Index(pattern, "/")
	return pattern[:at] + prefix + pattern[at:]
}

// acrossSegments returns the routes where the limiter does not know which one chi has found: an expression may match several segments.
func acrossSegments(routes []route) []route {
	all := slices.Clone(routes)
	for i := range all {
		if strings.Contains(all[i].path, ":.+") {
			all[i].pattern = strings.Replace(all[i].pattern, "{name}", "{name...}", 1)
		}
	}
	return all
}

// takingRest returns a pattern around echo, whose last parameter takes the rest of the path.
func takingRest(pattern string) string {
	if strings.HasSuffix(pattern, "...}") || !strings.HasSuffix(pattern, "}") || strings.HasSuffix(pattern, "{$}") {
		return pattern
	}
	return strings.TrimSuffix(pattern, "}") + "...}"
}

// ofHosts returns routes of two hosts, and those of all others.
func ofHosts(routes []route) []route {
	all := slices.Clone(routes)
	for i, r := range routes {
		host := []string{"a.test", "b.test"}[i%2]
		if i%3 == 2 {
			continue
		}
		of := route{pattern: withHost(host, r.pattern), path: r.path}
		for _, pattern := range r.narrower {
			of.narrower = append(of.narrower, withHost(host, pattern))
		}
		all = append(all, of)
	}
	return all
}

func withHost(host, pattern string) string {
	at := strings.Index(pattern, "/")
	return pattern[:at] + host + pattern[at:]
}
