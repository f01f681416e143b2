// Package route finds what belongs to the patterns that a request matches, in the order of net/http: the most specific first.
package route

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// Table holds a value for each of some patterns of [http.ServeMux]. The zero value is empty. It is built by one goroutine, and
// looked at by many.
type Table[T any] struct {
	mux   *http.ServeMux // knows what a pattern is, and which of them conflict
	hosts map[string]map[string]*node[T]
}

// node is what is known behind some segments of a path.
type node[T any] struct {
	literals map[string]*node[T]
	wildcard *node[T] // {name}
	rest     *T       // {name...}, or a slash at the end
	end      *T       // nothing follows
}

// slash stands for the slash at the end of a path. No segment is called so.
const slash = "/"

// Add adds a pattern that is not there yet. It returns an error if that is malformed, or if there is another pattern that matches
// some of the same requests while neither of the two is more specific.
func (t *Table[T]) Add(pattern string, value T) error {
	if t.mux == nil {
		t.mux, t.hosts = http.NewServeMux(), make(map[string]map[string]*node[T])
	}
	method, host, rest := split(pattern)
	if err := t.register(method, host, rest, pattern); err != nil {
		return err
	}
	methods := t.hosts[host]
	if methods == nil {
		methods = make(map[string]*node[T])
		t.hosts[host] = methods
	}
	n := methods[method]
	if n == nil {
		n = new(node[T])
		methods[method] = n
	}
	n.add(rest, &value)
	return nil
}

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

// registeredAt is what net/http says of where in this program a pattern was registered.
var registeredAt = regexp.MustCompile(` \(registered at [^)]*\)`)

// lineEnds are what one line has spaces for.
var lineEnds = regexp.MustCompile(`\s*\n\s*`)

// register has net/http look at a pattern, which panics if it makes no sense.
func (t *Table[T]) register(method, host, path, pattern string) (err error) {
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
	if method != "" {
		method += " "
	}
	t.mux.Handle(method+host+path, http.NotFoundHandler())
	return nil
}

// unmatched returns an error for what net/http takes for a pattern, although no request matches it.
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
	case strings.ContainsAny(path, "?#"):
		return fmt.Errorf("no request matches the pattern %q: leave ? and # and what follows out; the query does not count", pattern)
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

// knownMethods are those that net/http knows.
var knownMethods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodConnect, http.MethodOptions,
	http.MethodTrace,
}

// add adds what follows in a pattern that is known to be one.
func (n *node[T]) add(rest string, value *T) {
	for rest != "" {
		segment, after, more := strings.Cut(rest[1:], slash)
		if more {
			after = slash + after
		}
		switch {
		case segment == "" || strings.HasPrefix(segment, "{") && strings.HasSuffix(segment, "...}"):
			n.rest = value
			return
		case segment == "{$}":
			n = n.literal(slash)
		case strings.HasPrefix(segment, "{"):
			if n.wildcard == nil {
				n.wildcard = new(node[T])
			}
			n = n.wildcard
		default:
			n = n.literal(unescape(segment))
		}
		rest = after
	}
	n.end = value
}

// literal returns the node behind a segment.
func (n *node[T]) literal(segment string) *node[T] {
	if n.literals == nil {
		n.literals = make(map[string]*node[T])
	}
	if n.literals[segment] == nil {
		n.literals[segment] = new(node[T])
	}
	return n.literals[segment]
}

func unescape(text string) string {
	if !strings.Contains(text, "%") {
		return text
	}
	plain, err := url.PathUnescape(text)
	if err != nil {
		return text
	}
	return plain
}

// Reading is how a router has read the path of a request. The zero value is how net/http does.
type Reading struct {
	Decoded   bool // an escaped slash is a slash
	KeepsDots bool // /a/../b begins with /a: dots are names of segments
}

// Find returns the value of the most specific pattern that a request matches, of those that accept says yes to, or nil. The path
// is looked at as if it was clean, but for what the router has read in another way.
func (t *Table[T]) Find(r *http.Request, by Reading, accept func(*http.Request, *T) bool) *T {
	if t.hosts == nil {
		return nil
	}
	s := search[T]{r: r, accept: accept}
	p := r.URL.Path
	if r.URL.RawPath != "" && !by.Decoded {
		p, s.escaped = r.URL.EscapedPath(), true
	}
	if by.KeepsDots {
		p = slashes.ReplaceAllLiteralString(slash+p, slash)
	} else {
		p = clean(p)
	}
	if len(t.hosts) > 1 || t.hosts[""] == nil {
		if methods := t.hosts[hostOf(r)]; methods != nil {
			if found := s.methods(methods, p); found != nil {
				return found
			}
		}
	}
	return s.methods(t.hosts[""], p)
}

// hostOf returns the host that a request asks for, without the port.
func hostOf(r *http.Request) string { return hostName(withoutPort(r.Host)) }

func withoutPort(host string) string {
	if at := strings.LastIndexByte(host, ':'); at >= 0 && !strings.HasSuffix(host, "]") {
		return host[:at]
	}
	return host
}

// slashes are what stands for one.
var slashes = regexp.MustCompile("/+")

// clean returns a path as net/http wants it: without empty segments and dots.
func clean(p string) string {
	if p == "" {
		return slash
	}
	if p[0] != '/' {
		p = slash + p
	}
	if !mayBeUnclean(p) {
		return p
	}
	cleaned := path.Clean(p)
	if p[len(p)-1] != '/' || cleaned == slash {
		return cleaned
	}
	if len(p) == len(cleaned)+1 && strings.HasPrefix(p, cleaned) {
		return p
	}
	return cleaned + slash
}

// mayBeUnclean reports whether a path has two slashes, or a segment that begins with a dot.
func mayBeUnclean(p string) bool {
	for i := 1; i < len(p); i++ {
		if p[i-1] == '/' && (p[i] == '/' || p[i] == '.') {
			return true
		}
	}
	return false
}

// search looks for the pattern of a request.
type search[T any] struct {
	r       *http.Request
	accept  func(*http.Request, *T) bool
	escaped bool // whether segments are
}

func (s *search[T]) methods(methods map[string]*node[T], p string) *T {
	method := s.r.Method
	if method != "" && method != http.MethodGet {
		if found := s.below(methods[method], p); found != nil {
			return found
		}
	}
	if method == "" || method == http.MethodGet || method == http.MethodHead {
		if found := s.below(methods[http.MethodGet], p); found != nil {
			return found
		}
	}
	return s.below(methods[""], p)
}

// below looks behind a node, at what is left of the path.
func (s *search[T]) below(n *node[T], p string) *T {
	if n == nil {
		return nil
	}
	if p == "" {
		return s.accepted(n.end)
	}
	segment, rest := p[1:], ""
	if segment == "" {
		segment = slash
	} else if at := strings.IndexByte(segment, '/'); at >= 0 {
		segment, rest = segment[:at], segment[at:]
	}
	if s.escaped {
		segment = unescape(segment)
	}
	if found := s.below(n.literals[segment], rest); found != nil {
		return found
	}
	if segment != slash { // also an escaped one, as net/http has it
		if found := s.below(n.wildcard, rest); found != nil {
			return found
		}
	}
	return s.accepted(n.rest)
}

func (s *search[T]) accepted(value *T) *T {
	if value == nil || !s.accept(s.r, value) {
		return nil
	}
	return value
}
