// Package route finds the patterns that a request meets. A pattern is one of net/http. If several match one path, the
// most specific one counts, as in [http.ServeMux].
//
// A router may read the path of a request in another way than this package does, and runs the handler of the route that
// it finds. So a request meets the pattern that covers its route, if the route is known, and otherwise the patterns of
// all readings of its path.
package route

import (
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Table holds patterns. The zero value is empty. One goroutine builds it, and many look at it.
type Table struct {
	// Accept reports whether a request meets a pattern with a matching path. If not, the next pattern counts that is less
	// specific. Nil accepts all.
	Accept func(r *http.Request, number int) bool
	// AnyCase says that letters of both cases are the same in paths. It is set before the first pattern is added.
	AnyCase bool

	mux      *http.ServeMux // parses patterns, and knows which of them conflict
	hosts    map[string]map[string]*node
	patterns []string
	deepest  int // how many segments the longest pattern has
}

// none is the number of no pattern. The first pattern has number 1.
const none = 0

// node is the part of the table behind some segments of a path.
type node struct {
	literals map[string]*node
	wildcard *node // {name}
	rest     int   // the number of the pattern that ends here with {name...} or a slash
	end      int   // the number of the pattern that ends here
}

// slash stands for the slash at the end of a path. No segment is called so.
const slash = "/"

// Add adds a pattern that is not there yet, and returns its number: 1 for the first one. It returns an error if the pattern is
// malformed, or if there is another pattern that matches some of the same requests while neither of the two is more specific.
func (t *Table) Add(pattern string) (number int, err error) {
	if t.mux == nil {
		t.mux, t.hosts = http.NewServeMux(), make(map[string]map[string]*node)
	}
	if t.AnyCase {
		pattern = lowerPattern(pattern)
	}
	method, host, rest := split(pattern)
	if err := t.register(method, host, rest, pattern); err != nil {
		return none, err
	}
	methods := t.hosts[host]
	if methods == nil {
		methods = make(map[string]*node)
		t.hosts[host] = methods
	}
	n := methods[method]
	if n == nil {
		n = new(node)
		methods[method] = n
	}
	t.patterns = append(t.patterns, pattern)
	t.deepest = max(t.deepest, strings.Count(rest, slash))
	n.add(rest, len(t.patterns))
	return len(t.patterns), nil
}

// Pattern returns the pattern that has a number.
func (t *Table) Pattern(number int) string { return t.patterns[number-1] }

// add adds the path of a pattern.
func (n *node) add(rest string, number int) {
	for rest != "" {
		var segment string
		segment, rest = cut(rest)
		switch {
		case segment == "" || isRest(segment):
			n.rest = number
			return
		case segment == "{$}":
			n = n.literal(slash)
		case strings.HasPrefix(segment, "{"):
			if n.wildcard == nil {
				n.wildcard = new(node)
			}
			n = n.wildcard
		default:
			n = n.literal(unescape(segment))
		}
	}
	n.end = number
}

// literal returns the node behind a segment.
func (n *node) literal(segment string) *node {
	if n.literals == nil {
		n.literals = make(map[string]*node)
	}
	if n.literals[segment] == nil {
		n.literals[segment] = new(node)
	}
	return n.literals[segment]
}

// cut returns the first segment of a path, and the path behind it. The segment is empty at the slash that ends a path.
func cut(path string) (segment, rest string) {
	segment = path[1:]
	if at := strings.IndexByte(segment, '/'); at >= 0 {
		return segment[:at], segment[at:]
	}
	return segment, ""
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

// Met appends to found the numbers of the patterns that a request meets, each once. It returns false if the path is too long to be read
// in all the ways that it could be.
func (t *Table) Met(found []int, r *http.Request, known Known) (all []int, readable bool) {
	r, known = t.lower(r, known)
	roots := t.roots(r)
	covers, reads := known.decides(r.URL)
	if covers {
		found = t.covering(found, &roots, r, known)
	}
	if reads && !isReadable(r.URL) {
		return found, false
	}
	if roots == [6]*node{} { // no pattern has the host and the method
		return found, true
	}
	var room [4]Reading
	readings := append(room[:0], Reading{Path: rooted(r.URL.Path)})
	if reads {
		readings = appendReadings(readings[:0], r.URL, t.deepest)
		readings = known.appendGlued(readings, r.URL, t.deepest)
	}
	byHost, others := roots[:], []*node(nil)
	if roots.ofHost() && !known.hasHost() && (known.Route != "" || !isAsWritten(r)) { // the handler may be one of all hosts
		byHost, others = roots[:3], roots[3:]
	}
	for i := range readings {
		for _, roots := range [...][]*node{byHost, others} {
			number := t.matching(roots, r, &readings[i])
			if covers && number != none && known.coveredBy(t.Pattern(number)) {
				continue // a more specific one covers the route
			}
			found = with(found, number)
		}
	}
	return found, true
}

// Own returns those numbers of the request's patterns that are certainly about the handler that has run: the patterns
// covering its route, or, if the route is not known or leaves the rest of the path open, the patterns that the path
// matches as it stands.
func (t *Table) Own(r *http.Request, known Known) []int {
	r, known = t.lower(r, known)
	roots, escaped := t.roots(r), r.URL.EscapedPath()
	if known.Route != "" {
		if fits, exact := known.fits(escaped); exact && (fits || known.Whole) {
			return t.covering(nil, &roots, r, known)
		}
	}
	if mayBeUnclean(escaped) {
		return nil
	}
	reading := Reading{Path: rooted(escaped), decode: true}
	return with(with(nil, t.matching(roots[:3], r, &reading)), t.matching(roots[3:], r, &reading))
}

// with returns found with one more number, unless it is there already or that of no pattern.
func with(found []int, number int) []int {
	if number == none || slices.Contains(found, number) {
		return found
	}
	return append(found, number)
}

// roots begin the paths of the patterns with the host and the method of a request, the more specific ones first. Some may
// be nil.
type roots [6]*node

// ofHost reports whether there are patterns with the host of the request.
func (r *roots) ofHost() bool { return r[0] != nil || r[1] != nil || r[2] != nil }

func (t *Table) roots(r *http.Request) (all roots) {
	if len(t.hosts) > 1 || t.hosts[""] == nil {
		if methods := t.hosts[hostOf(r)]; methods != nil {
			rootsOf(methods, r.Method, all[:3])
		}
	}
	rootsOf(t.hosts[""], r.Method, all[3:])
	return all
}

func rootsOf(methods map[string]*node, method string, of []*node) {
	if method != "" && method != http.MethodGet {
		of[0] = methods[method]
	}
	if method == "" || method == http.MethodGet || method == http.MethodHead {
		of[1] = methods[http.MethodGet]
	}
	of[2] = methods[""]
}

// matching returns the number of the most specific pattern that one reading of a path matches.
func (t *Table) matching(roots []*node, r *http.Request, reading *Reading) int {
	for _, root := range roots {
		if root == nil {
			continue
		}
		s := search{table: t, request: r, Reading: *reading}
		if found := s.below(root, reading.Path); found != none {
			return found
		}
	}
	return none
}

// hostOf returns the host that a request asks for, without the port, and without brackets around a text that is no IPv6
// address: net/http drops them with the port.
func hostOf(r *http.Request) string {
	host := withoutPort(r.Host)
	if name, inBrackets := strings.CutPrefix(host, "["); inBrackets && !strings.Contains(name, ":") {
		host = strings.TrimSuffix(name, "]")
	}
	return hostName(host)
}

// isAsWritten reports whether net/http takes the host of a request for the one that [hostOf] returns. It does not look for a host in other
// letters or with a dot at its end, and does for one with a port if the method is CONNECT.
func isAsWritten(r *http.Request) bool {
	host := r.Host
	if r.Method != http.MethodConnect && strings.Contains(host, ":") {
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
	}
	return host == hostOf(r)
}

func withoutPort(host string) string {
	if at := strings.LastIndexByte(host, ':'); at >= 0 && !strings.HasSuffix(host, "]") {
		return host[:at]
	}
	return host
}

// search looks for the pattern that a reading of a path matches.
type search struct {
	Reading

	table   *Table
	request *http.Request
}

// below looks behind a node, at the rest of the path.
func (s *search) below(n *node, p string) int {
	if n == nil {
		return none
	}
	if p == "" {
		return s.atEnd(n)
	}
	segment, rest := cut(p)
	closing := segment == "" && rest == "" // the slash at the end
	if s.decode {
		segment = unescape(segment)
	}
	if !closing {
		if found := s.below(n.literals[segment], rest); found != none {
			return found
		}
	}
	named := !closing && segment != slash || s.empty // net/http has no {name} for an escaped slash
	if named && (rest != "" || !s.literal) {
		if found := s.below(n.wildcard, rest); found != none {
			return found
		}
	}
	if closing {
		if found := s.below(n.literals[slash], rest); found != none {
			return found
		}
	}
	if s.alone {
		return none
	}
	return s.accepted(n.rest)
}

// atEnd returns the number of the pattern that ends where the path does.
func (s *search) atEnd(n *node) int {
	if !s.slash {
		return s.accepted(n.end)
	}
	if closed := n.literals[slash]; closed != nil {
		if found := s.accepted(closed.end); found != none {
			return found
		}
	}
	return s.accepted(n.rest)
}

func (s *search) accepted(number int) int { return s.table.accepted(s.request, number) }

func (t *Table) accepted(r *http.Request, number int) int {
	if number == none || t.Accept != nil && !t.Accept(r, number) {
		return none
	}
	return number
}
