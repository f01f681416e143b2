package route

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// split returns the parts of a pattern.
func split(pattern string) (method, host, path string) {
	if end := strings.IndexAny(pattern, " \t"); end >= 0 && !strings.Contains(pattern[:end], slash) {
		method, pattern = pattern[:end], strings.TrimLeft(pattern[end:], " \t")
	}
	if at := strings.IndexByte(pattern, '/'); at > 0 {
		host, pattern = hostName(pattern[:at]), pattern[at:]
	}
	return method, host, pattern
}

// hostName returns a host in one notation.
func hostName(host string) string { return strings.TrimSuffix(strings.ToLower(host), ".") }

// registeredAt matches the part of an error of net/http that names the place where a pattern was registered.
var registeredAt = regexp.MustCompile(` \(registered at [^)]*\)`)

// lineEnds matches line ends, which become spaces in one line.
var lineEnds = regexp.MustCompile(`\s*\n\s*`)

// register has net/http look at a pattern, which panics if it makes no sense.
func (t *Table) register(method, host, path, pattern string) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			text := registeredAt.ReplaceAllString(fmt.Sprint(reason), "")
			text = strings.TrimPrefix(text, fmt.Sprintf("parsing %q: ", pattern))
			err = errors.New(lineEnds.ReplaceAllString(text, " "))
		}
	}()
	if err := unmatched(method, host, path, pattern); err != nil {
		return err
	}
	if own := translated(path); own != path {
		return fmt.Errorf("the pattern %q is in the syntax of another router: write %q", pattern, strings.TrimSuffix(pattern, path)+own)
	}
	if method != "" {
		method += " "
	}
	t.mux.Handle(method+host+path, http.NotFoundHandler())
	return nil
}

// unmatched returns an error for a pattern that net/http accepts, although no request matches it.
func unmatched(method, host, path, pattern string) error {
	switch upper := strings.ToUpper(method); {
	case !strings.HasPrefix(path, slash):
		return fmt.Errorf(`the pattern %q has no path: write a slash, as in "POST /orders" or "api.example.com/"`, pattern)
	case strings.Contains(pattern, "://"):
		return fmt.Errorf(`no request matches the pattern %q: leave the scheme out, as in "api.example.com/"`, pattern)
	case clean(path) != path:
		return fmt.Errorf("no request matches the pattern %q: write the path as %s", pattern, clean(path))
	case method != upper && slices.Contains(knownMethods, upper):
		return fmt.Errorf("no request matches the pattern %q: write the method as %s", pattern, upper)
	case slices.Contains(knownMethods, strings.ToUpper(host)):
		return fmt.Errorf(`the pattern %q has %s for its host: write a space behind the method, as in "POST /orders"`, pattern, host)
	case strings.Contains(path, "*") && !strings.Contains(translated(path), "{") && translated(path) == path:
		return fmt.Errorf(`no request matches the pattern %q: write {name} for a segment, {name...} for the rest of the path, or %%2A for a star`, pattern)
	case strings.ContainsAny(path, "?#"):
		return fmt.Errorf("no request matches the pattern %q: leave ? and # and the text behind them out; the query does not count", pattern)
	}
	name := withoutPort(host)
	if strings.HasPrefix(name, "[") {
		if _, err := netip.ParseAddr(strings.Trim(name, "[]")); err != nil {
			return fmt.Errorf("no request matches the pattern %q: %s is no address", pattern, host)
		}
		name = strings.Trim(name, "[]")
	}
	if host != name && host != "["+name+"]" {
		return fmt.Errorf("no request matches the pattern %q: leave the port out, which does not count", pattern)
	}
	for _, r := range name {
		if r > unicode.MaxASCII {
			return fmt.Errorf("no request matches the pattern %q: write the host as browsers send it, in letters of ASCII: xn--…", pattern)
		}
		if letterOrDigit := 'a' <= r && r <= 'z' || '0' <= r && r <= '9'; !letterOrDigit && !strings.ContainsRune("-._:", r) {
			return fmt.Errorf("no request matches the pattern %q: %q is no part of the name of a host", pattern, r)
		}
	}
	return nil
}

// knownMethods are the methods that net/http knows.
var knownMethods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodConnect, http.MethodOptions,
	http.MethodTrace,
}

// translated returns the path of a pattern with the wildcards of gin, echo and chi as net/http writes them. A colon or a star that is
// meant as such is written %3A or %2A.
func translated(path string) string {
	segments := strings.Split(path, slash)
	for i, segment := range segments {
		last := i == len(segments)-1
		switch {
		case len(segment) > 1 && segment[0] == ':':
			segments[i] = "{" + segment[1:] + "}"
		case segment == "*" && last:
			segments[i] = ""
		case len(segment) > 1 && segment[0] == '*' && last:
			segments[i] = "{" + segment[1:] + "...}"
		case strings.HasPrefix(segment, "{") && strings.HasSuffix(segment, "}") && strings.Contains(segment, ":"):
			name, _, _ := strings.Cut(segment[1:], ":")
			segments[i] = "{" + name + "}"
		}
	}
	return strings.Join(segments, slash)
}
