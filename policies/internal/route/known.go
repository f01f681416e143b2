package route

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Known is the knowledge of a router about a request. The zero value is none.
type Known struct {
	// Route is the pattern of the route with its wildcards in braces, such as "/items/{id}", or "" if none was found.
	Route string
	// Whole says that the route stands for the whole path. A router inside of another one may tell its own part alone.
	Whole bool
	// Values tells the part of the path that a wildcard stands for.
	Values wildcardValues
}

// wildcardValues tells the part of a path that each wildcard of a route stands for.
type wildcardValues interface{ PathValue(name string) string }

// decides reports whether the patterns that cover the route count, and whether those count that the path matches: as it stands, or in all
// its readings. The handler may look at the path, pass it on, or have another one than the router has found.
func (k *Known) decides(u *url.URL) (covers, all bool) {
	if k.Route == "" {
		return false, true
	}
	path := u.EscapedPath()
	fits, exact := k.fits(path)
	if exact {
		return true, !k.Whole || !fits || !isOrdinary(u, path)
	}
	if !fits && path != u.Path {
		fits, _ = k.fits(u.Path)
	}
	return !fits || !strings.HasSuffix(k.Route, "...}") && !strings.HasSuffix(k.Route, "*"), true
}

// appendGlued appends the readings of a path that the route knows with text in front of the rest.
func (k *Known) appendGlued(all []Reading, u *url.URL, prefix int) []Reading {
	if k.Route == "" || !strings.HasSuffix(k.Route, "*") && !strings.HasSuffix(k.Route, "...}") {
		return all
	}
	var known []string
	for i, path := range append([]string{u.Path}, escapedTexts(u)...) {
		for _, path := range [...]string{path, collapsed(path), clean(path)} {
			glued := k.glued(path)
			if glued == "" || slices.Contains(known, glued) {
				continue
			}
			known = append(known, glued)
			of := url.URL{Path: glued}
			if i > 0 {
				of = url.URL{Path: unescape(glued), RawPath: glued}
			}
			all = appendReadings(all, &of, prefix)
		}
	}
	return all
}

// glued returns the path with a slash behind the text that the route has in front of the rest of the path, if it has such a text: a handler
// below /static* is given "/a" for /statica, too.
func (k *Known) glued(path string) string {
	route, at := k.path(), 0
	for rest := rooted(path); route != "" && rest != ""; {
		var segment, own string
		segment, route = cut(route)
		own, rest = cut(rest)
		if isMixed(segment) {
			text := segment[:strings.IndexAny(segment, "{*")]
			if len(own) > len(text) && strings.HasPrefix(own, text) && text != "" {
				at += len(slash + text)
				return rooted(path)[:at] + slash + rooted(path)[at:]
			}
			return ""
		}
		at += len(slash + own)
	}
	return ""
}

// fits reports whether a path has the segments of the route, but for a slash or an extension at its end. It is not exact if the
// route leaves the rest of the path to its handler.
func (k *Known) fits(path string) (fits, exact bool) {
	route := k.path()
	fits, exact = match(route, path)
	if !fits && exact {
		fits, _ = match(strings.TrimSuffix(route, slash), strings.TrimSuffix(path, slash))
	}
	if dot := extension(path); !fits && exact && dot >= 0 {
		fits, _ = match(route, path[:dot])
	}
	return fits, exact
}

// hasHost reports whether the route is one of a host.
func (k *Known) hasHost() bool { return k.Route != "" && !strings.HasPrefix(k.Route, slash) }

// path returns the route without its host.
func (k *Known) path() string {
	if at := strings.IndexByte(k.Route, '/'); at > 0 {
		return k.Route[at:]
	}
	return rooted(k.Route)
}

// coveredBy reports whether a pattern covers all of the route.
func (k *Known) coveredBy(pattern string) bool {
	_, _, pattern = split(pattern)
	route := k.path()
	for route != "" && pattern != "" {
		var wanted, segment string
		wanted, pattern = cut(pattern)
		if wanted == "" && pattern == "" || isRest(wanted) {
			return true
		}
		if wanted == "{$}" {
			return route == slash
		}
		segment, route = cut(route)
		if isRest(segment) || isMixed(segment) || !isWildcard(wanted) && (isWildcard(segment) || unescape(wanted) != unescape(segment)) {
			return false
		}
	}
	return route == pattern
}

// match reports whether a path has the segments of a route. It is not exact if the route leaves some of them open.
func match(route, path string) (matches, exact bool) {
	matches = true
	path = rooted(path)
	for route != "" {
		var segment, own string
		segment, route = cut(route)
		if isRest(segment) || isMixed(segment) {
			return matches, false
		}
		if path == "" {
			matches = false
			continue
		}
		own, path = cut(path)
		if !isWildcard(segment) && segment != own && unescape(segment) != unescape(own) {
			matches = false
		}
	}
	return matches && path == "", true
}

// isRest reports whether a segment of a pattern stands for the rest of the path: in net/http or in chi.
func isRest(segment string) bool {
	return strings.HasPrefix(segment, "{") && strings.HasSuffix(segment, "...}") || segment == "*"
}

// isWildcard reports whether a segment of a route stands for any segment of a path, or, as in chi, for those of an expression.
func isWildcard(segment string) bool {
	return strings.HasPrefix(segment, "{") && strings.IndexByte(segment, '}') == len(segment)-1
}

// isMixed reports whether a segment of a route has wildcards in a way that only its router knows.
func isMixed(segment string) bool {
	return !isRest(segment) && (strings.Contains(segment, "{") && !isWildcard(segment) || strings.HasSuffix(segment, "*"))
}

// leavesRest reports whether a segment of a route leaves the rest of the path to the handler.
func leavesRest(segment string) bool {
	return strings.HasSuffix(segment, "...}") || strings.HasSuffix(segment, "*")
}

// covering appends the number of the most specific pattern that covers the route of a request. A literal segment of the
// pattern covers a wildcard of the route where the wildcard stands for that segment. A pattern with a host that the route does not
// have does not hide the others: the client may have chosen it.
func (t *Table) covering(found []int, roots *roots, r *http.Request, known Known) []int {
	escaped := r.URL.EscapedPath()
	byHost, others := roots[:], []*node(nil)
	if !known.hasHost() {
		byHost, others = roots[:3], roots[3:]
	}
	a := along{table: t, request: r, values: known.Values}
	unsure := r.URL.RawPath != "" || strings.Contains(escaped, "%") // the handler may take an escaped value for another one
	if known.hasTwins() {
		told := false
		for _, path := range append(escapedTexts(r.URL), r.URL.Path) {
			if route, values := known.numbered(path); route != "" {
				told, a.values = true, values
				found = with(with(found, a.from(byHost, route)), a.from(others, route))
			}
		}
		if told && isOrdinary(r.URL, escaped) {
			return found
		}
		unsure, a.values = true, known.Values
	}
	for {
		found = with(with(found, a.from(byHost, known.path())), a.from(others, known.path()))
		if !unsure || a.values == nil {
			return found
		}
		a.values = nil
	}
}

// along looks for the pattern that covers a route.
type along struct {
	table   *Table
	request *http.Request
	values  wildcardValues // nil: the literals of patterns stand for no wildcard
}

// from returns the number of the most specific pattern that covers a route.
func (a *along) from(roots []*node, route string) int {
	for _, root := range roots {
		if found := a.below(root, route); found != none {
			return found
		}
	}
	return none
}

// below looks behind a node, at the rest of the route.
func (a *along) below(n *node, route string) int {
	switch {
	case n == nil:
		return none
	case route == "":
		return a.accepted(n.end)
	}
	segment, rest := cut(route)
	if leavesRest(segment) {
		return a.accepted(n.rest)
	}
	if isMixed(segment) {
		return cmp.Or(a.below(n.wildcard, rest), a.accepted(n.rest))
	}
	if segment == "" && rest == "" { // the slash that ends a route, which a pattern may leave out
		return cmp.Or(a.below(n.literals[slash], ""), a.accepted(n.rest), a.accepted(n.end))
	}
	if found := a.below(n.literals[a.literal(n, segment)], rest); found != none {
		return found
	}
	if found := a.below(n.wildcard, rest); found != none {
		return found
	}
	return a.accepted(n.rest)
}

// literal returns the literal that a segment of the route stands for.
func (a *along) literal(n *node, segment string) string {
	switch {
	case !isWildcard(segment):
		return unescape(segment)
	case len(n.literals) == 0 || a.values == nil:
		return ""
	}
	if value := unescape(a.values.PathValue(nameOf(segment))); value != slash {
		return value
	}
	return ""
}

// nameOf returns the name of a wildcard.
func nameOf(segment string) string {
	name, _, _ := strings.Cut(segment[1:len(segment)-1], ":")
	return name
}

// hasTwins reports whether two wildcards of the route have one name, as gin, echo and mounted routers of chi let them have. Of these, a router
// tells one value.
func (k *Known) hasTwins() bool {
	for route := k.path(); route != ""; {
		var segment string
		segment, route = cut(route)
		if !isWildcard(segment) || isRest(segment) {
			continue
		}
		for others := route; others != ""; {
			var other string
			if other, others = cut(others); isWildcard(other) && !isRest(other) && nameOf(other) == nameOf(segment) {
				return true
			}
		}
	}
	return false
}

// numbered returns the path of the route with numbers for the names of its wildcards, and their values in a path. The last one may take the
// rest, as in echo. It returns "" if the path is another one.
func (k *Known) numbered(path string) (numbered string, values inPlace) {
	var route strings.Builder
	for pattern := k.path(); pattern != ""; {
		if path == "" {
			return "", nil
		}
		var segment, own string
		segment, pattern = cut(pattern)
		own, path = cut(path)
		switch {
		case isRest(segment) || isMixed(segment):
			return "", nil
		case isWildcard(segment):
			if pattern == "" {
				own += path
			}
			segment = "{" + strconv.Itoa(len(values)) + "}"
			values = append(values, own)
		case unescape(segment) != own:
			return "", nil
		}
		route.WriteString(slash + segment)
	}
	return route.String(), values
}

// inPlace are values of wildcards with numbers for names.
type inPlace []string

func (v inPlace) PathValue(name string) string {
	place, err := strconv.Atoi(name)
	if err != nil {
		return ""
	}
	return v[place]
}

func (a *along) accepted(number int) int { return a.table.accepted(a.request, number) }
