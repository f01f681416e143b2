package route

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
)

// lowerPattern returns a pattern, or the route of a router, in small letters, but for its method and the names of its wildcards.
func lowerPattern(pattern string) string {
	at := max(strings.IndexByte(pattern, '/'), 0)
	return pattern[:at] + outsideOfWildcards.ReplaceAllStringFunc(pattern[at:], func(part string) string {
		if strings.HasPrefix(part, "{") {
			return part
		}
		return lowerEscaped(part)
	})
}

// outsideOfWildcards matches a wildcard, or the text up to the next one.
var outsideOfWildcards = regexp.MustCompile(`\{[^}]*\}|[^{]+`)

// lowerEscaped returns an escaped text in small letters: those in escapes, too, which stay escapes.
func lowerEscaped(text string) string {
	return runOfEscapes.ReplaceAllStringFunc(strings.ToLower(text), func(run string) string {
		var b strings.Builder
		for _, c := range []byte(strings.ToLower(unescape(run))) {
			fmt.Fprintf(&b, "%%%02x", c)
		}
		return b.String()
	})
}

// runOfEscapes matches several escapes, which may be one letter.
var runOfEscapes = regexp.MustCompile(`(?:%[0-9a-f]{2})+`)

// lower returns a request, and the knowledge about it, with the path in small letters if letters of both cases are the same to the table.
func (t *Table) lower(r *http.Request, known Known) (*http.Request, Known) {
	if !t.AnyCase {
		return r, known
	}
	other := *r
	other.URL = &url.URL{Path: strings.ToLower(r.URL.Path), RawPath: lowerEscaped(r.URL.RawPath), Opaque: lowerEscaped(r.URL.Opaque)}
	known.Route = lowerPattern(known.Route)
	if known.Values != nil {
		known.Values = lowerValues{known.Values}
	}
	return &other, known
}

// lowerValues are values of wildcards in small letters.
type lowerValues struct{ of wildcardValues }

func (l lowerValues) PathValue(name string) string { return strings.ToLower(l.of.PathValue(name)) }
