package forward

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// parseTarget reads the target of a request as a server of net/http does: a path, an absolute URI, or a star.
func parseTarget(text string) (*url.URL, error) {
	u, err := url.ParseRequestURI(text)
	if err != nil {
		return nil, fmt.Errorf("%s is no target of a request: %w", fieldURI, err)
	}
	return u, nil
}

// otherReadings returns the targets that a service may read in place of one, beyond the readings that the policies themselves know: without a fragment, as
// nginx reads it, with plain slashes for escaped ones, as nginx passes them on, with slashes for backslashes, as servers on Windows do, without the
// parameters of its segments, as Java servers do, and all combinations of these. An ordinary target has none.
func otherReadings(u *url.URL) (all []*url.URL) {
	for _, changed := range [...]func(string) string{withoutFragment, withPlainSlashes, withSlashes, withoutParameters} {
		for _, of := range append(slices.Clip(all), u) {
			if other := changedTarget(of, changed); other != nil {
				all = append(all, other)
			}
		}
	}
	return all
}

// changedTarget returns a target with a change of its escaped path, or nil if that changes nothing.
func changedTarget(u *url.URL, change func(string) string) *url.URL {
	other := *u
	escaped := u.EscapedPath()
	if changed := change(escaped); changed != escaped {
		plain, err := url.PathUnescape(changed)
		if err != nil {
			return nil
		}
		other.Path, other.RawPath = plain, changed
	}
	if other.Opaque = change(u.Opaque); other == *u {
		return nil
	}
	return &other
}

// withoutFragment returns an escaped path without all that stands behind a number sign. Whether the client has escaped it cannot be told any more.
func withoutFragment(path string) string {
	if at := strings.IndexByte(path, '#'); at >= 0 {
		path = path[:at]
	}
	path, _, _ = strings.Cut(path, "%23")
	return path
}

// withSlashes returns an escaped path with slashes for its backslashes.
func withSlashes(path string) string { return backslashes.Replace(path) }

var backslashes = strings.NewReplacer(`\`, "/", "%5C", "/", "%5c", "/")

// withPlainSlashes returns an escaped path with slashes for the escaped ones.
func withPlainSlashes(path string) string { return escapedSlashes.Replace(path) }

var escapedSlashes = strings.NewReplacer("%2F", "/", "%2f", "/")

// withoutParameters returns an escaped path without all that stands behind a semicolon in each of its segments. The semicolon may be escaped: nginx passes
// it on without the escape if its proxy_pass has a path.
func withoutParameters(path string) string {
	path = escapedSemicolons.Replace(path)
	if !strings.Contains(path, ";") {
		return path
	}
	segments := strings.Split(path, "/")
	for i := range segments {
		segments[i], _, _ = strings.Cut(segments[i], ";")
	}
	return strings.Join(segments, "/")
}

var escapedSemicolons = strings.NewReplacer("%3B", ";", "%3b", ";")
