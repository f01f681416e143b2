package routertest

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/policies"

	ratelimit "github.com/weir-go/ratelimit/nethttp"
)

// kind is a way to build a site.
type kind struct {
	name string
	// build sets the handler of a site, with the limiter in it or around it.
	build func(s *site)

	// routes are those of the site. The default is table.
	routes []route
	// prefix is in front of the paths of all routes. A limiter that sees them without it has stripped set.
	prefix   string
	stripped bool
	// rest says that a last wildcard takes the rest of the path, and that the limiter has to be told.
	rest bool
	// methods and hosts are those of the requests. There are defaults.
	methods, hosts []string
	// slash says that routes are registered with a slash at their ends.
	slash bool
	// fixed says that each route has a policy of its own, always.
	fixed bool
	// several says that a request that is written in the ordinary way may meet several policies.
	several bool
}

// site is a handler with a limiter, which sees that whatever runs has met its policy.
type site struct {
	kind

	options  guard.Options
	set      *policies.Set
	limiter  *core.Limiter
	handler  http.Handler
	targets  []string
	policies []string       // the patterns of the policies
	numbers  map[string]int // of the policies by their names
	mux      *http.ServeMux // has the policies
	literals map[string]bool
	wanted   map[string]map[string][]int // by method and route, for values that are no literals

	served atomic.Int64 // requests that have run a handler
	missed atomic.Pointer[string]
}

// record is what happens to a request.
type record struct {
	target string // of the request, as it came

	mu     sync.Mutex
	ran    []string
	wanted [][]int // policies of which one has to be met, for each that has run
	met    []int
}

type recordKey struct{}

func recordOf(r *http.Request) *record {
	of, _ := r.Context().Value(recordKey{}).(*record)
	return of
}

// site builds one. Each route has a policy of its own, or the policies are drawn from those that cover it.
func (k *kind) site(t *testing.T, random *rand.Rand) *site {
	t.Helper()
	s := &site{kind: *k, limiter: core.New(core.NewMemory())}
	if s.routes == nil {
		s.routes = table
	}
	if s.methods == nil {
		s.methods = methods
	}
	if s.hosts == nil {
		s.hosts = []string{"a.test"}
	}
	for _, target := range targets(s.routes) {
		s.targets = append(s.targets, s.prefix+target)
	}
	s.decide(random)
	s.options.Observe = func(e guard.Event) {
		of := recordOf(e.Request)
		of.mu.Lock()
		defer of.mu.Unlock()
		for i := range e.Outcomes {
			of.met = append(of.met, s.numbers[e.Outcomes[i].Policy])
		}
	}
	var limits, all strings.Builder
	s.numbers = make(map[string]int)
	for i, pattern := range s.policies {
		fmt.Fprintf(&limits, "  p%d: fixed-window 1000000000000, 1d\n", i)
		fmt.Fprintf(&all, "  - {match: %q, limit: p%d, key: global}\n", pattern, i)
		s.numbers[fmt.Sprint("p", i)] = i
	}
	parse := policies.Parse
	if random == nil { // all sites of a kind have these policies
		parse = parsedOnce
	}
	document, err := parse([]byte("limits:\n" + limits.String() + "policies:\n" + all.String()))
	if err != nil {
		t.Fatal(err)
	}
	if s.set, err = document.Set(policies.Options{}); err != nil {
		t.Fatal(err)
	}
	s.build(s)
	return s
}

// documents are those that were parsed once, by their texts.
var documents sync.Map

// parsedOnce parses a document, or returns the one of the same text.
func parsedOnce(text []byte) (*policies.Document, error) {
	if known, ok := documents.Load(string(text)); ok {
		return known.(*policies.Document), nil
	}
	document, err := policies.Parse(text)
	if err == nil {
		documents.Store(string(text), document)
	}
	return document, err
}

// decide decides on the policies.
func (s *site) decide(random *rand.Rand) {
	s.mux, s.literals = http.NewServeMux(), make(map[string]bool)
	for _, name := range append([]string{"/"}, patterns(s.routes)...) {
		pattern := s.asPolicy(name)
		if random != nil && !s.fixed && name != "/" {
			if pattern = drawn(random, pattern); pattern == "" {
				continue
			}
		}
		func() {
			defer func() { _ = recover() }() // it is there, or in conflict with another one
			s.mux.Handle(pattern, http.NotFoundHandler())
			s.policies = append(s.policies, pattern)
			for segment := range strings.SplitSeq(pathOf(pattern), "/") {
				s.literals[segment] = true
			}
		}()
	}
	s.wanted = make(map[string]map[string][]int)
	of := append(slices.Clone(s.methods), http.MethodConnect)
	for _, method := range of {
		s.wanted[method] = make(map[string][]int)
	}
	for i := range s.routes {
		name := s.routes[i].pattern
		host, path := s.filled(name, nil)
		for _, method := range of {
			s.wanted[method][name] = s.covering(method, host, path)
		}
	}
}

// asPolicy returns the pattern of the policy of a route.
func (s *site) asPolicy(name string) string {
	if s.rest {
		name = takingRest(name)
	}
	if !s.stripped && name != "/" {
		name = withPrefix(wildcard.ReplaceAllString(s.prefix, "{prefix}"), name)
	}
	return name
}

// filled returns the host and the path of a route with some values of its wildcards, as policies see it.
func (s *site) filled(name string, values []string) (host, p string) {
	name = s.asPolicy(name)
	p = pathOf(name)
	for place := 0; ; place++ {
		found := wildcard.FindStringIndex(p)
		if found == nil {
			break
		}
		text := "zz"
		switch {
		case place >= len(values):
		case strings.HasSuffix(name, below) && found[1] == len(p):
			if text = strings.TrimPrefix(path.Clean("/"+values[place]), "/"); text == "private" || strings.HasSuffix(values[place], "/") {
				text += "/"
			}
		case s.literals[values[place]] && values[place] != "":
			text = values[place]
		case (s.rest || strings.HasSuffix(p, "...}")) && found[1] == len(p):
			segments := strings.Split(strings.TrimSuffix(values[place], "/"), "/")
			for i, segment := range segments {
				if segment == "" || !s.literals[segment] {
					segments[i] = "zz"
				}
			}
			text = strings.Join(segments, "/")
		}
		p = p[:found[0]] + withoutBraces.Replace(text) + p[found[1]:]
	}
	return hostOf(name), p
}

// covering returns the most specific policy of a path, which net/http knows. If the path ends in a slash, a pattern may leave that out.
func (s *site) covering(method, host, p string) []int {
	all := s.matching(method, host, p)
	if s.slash {
		all = append(all, s.matching(method, host, strings.TrimSuffix(p, "/")+"/")...)
	}
	if without := strings.TrimSuffix(p, "/"); without != p && without != "" {
		all = append(all, s.matching(method, host, without)...)
	}
	return all
}

// withoutBraces leaves out what would be a wildcard.
var withoutBraces = strings.NewReplacer("{", "", "}", "")

// matching returns the policy of a path.
func (s *site) matching(method, host, path string) []int {
	if method == http.MethodConnect { // which net/http reads in another way, and no policy has
		method = http.MethodTrace
	}
	handler, pattern := s.mux.Handler(&http.Request{Method: method, Host: host, URL: &url.URL{Path: path}})
	if _, found := handler.(http.HandlerFunc); !found { // it redirects to the path with a slash
		return nil
	}
	return []int{slices.Index(s.policies, pattern)}
}

// drawn returns a pattern that covers what another one does, and maybe more, or "".
func drawn(random *rand.Rand, pattern string) string {
	at := strings.Index(pattern, "/")
	before, segments := pattern[:at], strings.Split(pattern[at+1:], "/")
	place := random.IntN(len(segments))
	switch random.IntN(10) {
	case 0:
		return ""
	case 1:
		return before + "/" + strings.Join(append(segments[:place:place], ""), "/")
	case 2:
		return before + "/" + strings.Join(append(segments[:place:place], "{drawn...}"), "/")
	case 3, 4:
		if segments[place] != "{$}" && !strings.HasSuffix(segments[place], "...}") && segments[place] != "" {
			segments[place] = "{drawn}"
		}
		return before + "/" + strings.Join(segments, "/")
	case 5:
		return strings.TrimSuffix(pattern, "{$}")
	default:
		return pattern
	}
}

func (s *site) middleware() ratelimit.Middleware {
	return ratelimit.FromPolicies(s.limiter, s.set, s.options)
}

// around puts the limiter around a handler.
func (s *site) around(h http.Handler) { s.handler = s.middleware()(h) }

// run remembers that the handler of a route has run. The values are those of the segments with wildcards, as the router tells them.
func (s *site) run(r *http.Request, to *route, values ...string) {
	if s.stripped {
		values = values[min(strings.Count(s.prefix, "{"), len(values)):]
	}
	of := recordOf(r)
	of.mu.Lock()
	defer of.mu.Unlock()
	of.ran = append(of.ran, to.pattern)
	if !strings.HasSuffix(to.pattern, below) && !slices.ContainsFunc(values, s.mayBeLiteral) {
		of.wanted = append(of.wanted, s.wanted[r.Method][to.pattern])
		return
	}
	host, path := s.filled(to.pattern, values)
	of.wanted = append(of.wanted, s.covering(r.Method, host, path))
	if strings.Contains(of.target, "%25") { // whoever takes two layers of escapes off is another matter
		return
	}
	plain := slices.Clone(values)
	for i, text := range values {
		if unescaped, err := url.PathUnescape(text); err == nil && strings.Contains(of.target, text) { // the handler may take it for that
			plain[i] = unescaped
		}
	}
	if !slices.Equal(plain, values) {
		of.ran = append(of.ran, to.pattern)
		host, path = s.filled(to.pattern, plain)
		of.wanted = append(of.wanted, s.covering(r.Method, host, path))
	}
}

// withPrefix returns the segments of a request that have the wildcards of the prefix and of a route.
func (s *site) withPrefix(values []string, to *route, behind bool) []string {
	n := min(strings.Count(s.prefix, "{"), len(values))
	if s.stripped {
		n = 0
	}
	return append(slices.Clone(values[:n]), to.segments(values[n:], behind)...)
}

// mayBeLiteral reports whether some policy may have a value in place of a wildcard.
func (s *site) mayBeLiteral(text string) bool {
	return s.literals[text] || strings.ContainsAny(text, "%/")
}

// serve serves a request, and sees whether its policies were met.
func (s *site) serve(w http.ResponseWriter, r *http.Request) { s.record(w, r) }

// record serves a request, and returns what has happened to it.
func (s *site) record(w http.ResponseWriter, r *http.Request) *record {
	of := &record{target: r.RequestURI}
	method, host := r.Method, r.Host
	s.handle(w, r.WithContext(context.WithValue(r.Context(), recordKey{}, of)))
	of.mu.Lock()
	defer of.mu.Unlock()
	if len(of.ran) > 0 {
		s.served.Add(1)
	}
	for i, name := range of.ran {
		want := of.wanted[i]
		if len(want) > 0 && !slices.ContainsFunc(want, func(number int) bool { return slices.Contains(of.met, number) }) {
			text := fmt.Sprintf("%s %s of %s runs %s and meets %v, not %v, its policy", method, of.target, host, name, s.patterns(of.met), s.patterns(want))
			s.missed.CompareAndSwap(nil, &text)
		}
	}
	return of
}

// handle serves a request. What a router or a handler panics with is not the limiter's.
func (s *site) handle(w http.ResponseWriter, r *http.Request) {
	defer func() { _ = recover() }()
	s.handler.ServeHTTP(w, r)
}

// patterns returns the patterns of policies.
func (s *site) patterns(numbers []int) []string {
	var all []string
	for _, number := range numbers {
		if number >= 0 && number < len(s.policies) {
			all = append(all, s.policies[number])
		}
	}
	return all
}

// send sends a request in this process. It follows a redirect once, as browsers do.
func (s *site) send(method, target, host string) {
	for range 2 {
		text := method + " " + target + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n"
		r, err := http.ReadRequest(bufio.NewReaderSize(strings.NewReader(text), 256))
		if err != nil {
			return
		}
		w := &answer{header: make(http.Header)}
		s.serve(w, r)
		if target = w.header.Get("Location"); target == "" {
			return
		}
	}
}

// answer is a response of which the text is kept.
type answer struct {
	header http.Header
	body   bytes.Buffer
}

func (w *answer) Header() http.Header            { return w.header }
func (w *answer) WriteHeader(int)                {}
func (w *answer) Write(text []byte) (int, error) { return w.body.Write(text) }

// asked sends a request to a path that is written as it is.
func (s *site) asked(t *testing.T, method, path string) *record {
	t.Helper()
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(method + " " + ordinary(path) + " HTTP/1.1\r\nHost: a.test\r\n\r\n")))
	if err != nil {
		t.Fatal(err)
	}
	return s.record(&answer{header: make(http.Header)}, r)
}

// ordinary returns the path of a route, written as it is.
func ordinary(path string) string {
	return wildcard.ReplaceAllStringFunc(path, func(text string) string {
		if strings.HasSuffix(text, "...}") {
			return "a/b.txt"
		}
		return "7"
	})
}
