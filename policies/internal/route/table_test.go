package route

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var (
	methods  = []string{"", "GET", "POST", "HEAD"}
	hosts    = []string{"", "a.test", "b.test"}
	segments = []string{"/a", "/b", "/{x}", "/{x...}", "/", "/{$}", "/%2F", "/c%20d"}
)

// drawPattern draws a pattern that may make no sense.
func drawPattern(t *rapid.T) string {
	var text strings.Builder
	if method := rapid.SampledFrom(methods).Draw(t, "method"); method != "" {
		text.WriteString(method + " ")
	}
	text.WriteString(rapid.SampledFrom(hosts).Draw(t, "host"))
	for _, segment := range rapid.SliceOfN(rapid.SampledFrom(segments), 1, 4).Draw(t, "segments") {
		text.WriteString(strings.Replace(segment, "x", "x"+string(rune('a'+text.Len()%26)), 1))
	}
	return text.String()
}

func drawRequest(t *rapid.T) *http.Request {
	path := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"/a", "/b", "/c", "/c%20d", "/%61", "/%2F", "/"}), 1, 5).Draw(t, "path"), "")
	r := httptest.NewRequest(rapid.SampledFrom([]string{"GET", "POST", "HEAD", "PUT"}).Draw(t, "method"), "http://"+
		rapid.SampledFrom([]string{"a.test", "b.test:81", "c.test"}).Draw(t, "host")+path, nil)
	return r
}

// drawTable draws a table, and the patterns that net/http has let into it.
func drawTable(t *rapid.T) (table *Table[string], patterns []string) {
	table = new(Table[string])
	mux := http.NewServeMux()
	for range rapid.IntRange(1, 8).Draw(t, "patterns") {
		pattern := drawPattern(t)
		if strings.Contains(pattern, "//") { // net/http lets it stand, and nothing matches it
			if table.Add(pattern, pattern) == nil {
				t.Fatalf("%q is added", pattern)
			}
			continue
		}
		func() {
			defer func() {
				refused := recover() != nil
				if err := table.Add(pattern, pattern); refused != (err != nil) {
					t.Fatalf("%q: net/http refuses %v, the table says %v", pattern, refused, err)
				}
				if !refused {
					patterns = append(patterns, pattern)
				}
			}()
			mux.Handle(pattern, http.NotFoundHandler())
		}()
	}
	return table, patterns
}

func find(table *Table[string], r *http.Request, but ...string) string {
	found := table.Find(r, Reading{}, func(_ *http.Request, pattern *string) bool {
		return !slices.Contains(but, *pattern)
	})
	return deref(found)
}

// A clean path has the pattern that net/http finds; the next one is what net/http finds without the first.
func TestFindsWhatNetHTTPFinds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table, patterns := drawTable(t)
		r := drawRequest(t)
		if p := r.URL.EscapedPath(); clean(p) != p {
			r.URL.Path, r.URL.RawPath = clean(r.URL.Path), ""
		}
		var seen []string
		for range len(patterns) + 1 {
			mux := http.NewServeMux()
			for _, pattern := range patterns {
				if !slices.Contains(seen, pattern) {
					mux.Handle(pattern, http.NotFoundHandler())
				}
			}
			handler, want := mux.Handler(r)
			if fmt.Sprintf("%T", handler) == "*http.redirectHandler" { // to the same with a slash at its end, which a Table does not do
				return
			}
			got := find(table, r, seen...)
			if got != want {
				t.Fatalf("%s %s of %q without %q: %q, want %q", r.Method, r.URL, patterns, seen, got, want)
			}
			if got == "" {
				return
			}
			seen = append(seen, got)
		}
	})
}

// Each pattern of a few segments matches the paths that it matches in net/http, and no other.
func TestEachPatternMatchesWhatItMatchesInNetHTTP(t *testing.T) {
	var paths []string
	for _, path := range combined([]string{"/a", "/c d", "/c%20d", "/%2F", "/%61", "/b%2Fc", "/...%7D", "/"}, 3) {
		if u, err := url.ParseRequestURI(path); err == nil && clean(u.EscapedPath()) == u.EscapedPath() {
			paths = append(paths, path)
		}
	}
	for _, pattern := range combined([]string{"/a", "/c d", "/c%20d", "/%2F", "/b%2Fc", "/{x}", "/{y...}", "/...}", "/", "/{$}"}, 3) {
		var table Table[string]
		if table.Add(pattern, pattern) != nil {
			continue
		}
		mux := http.NewServeMux()
		mux.Handle(pattern, http.NotFoundHandler())
		for _, path := range paths {
			u, err := url.ParseRequestURI(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodOptions} {
				r := &http.Request{Method: method, Host: "a.test", URL: u}
				handler, want := mux.Handler(r)
				if _, ours := handler.(http.HandlerFunc); want != "" && !ours { // it redirects to the path with a slash
					want = ""
				}
				if got := find(&table, r); got != want {
					t.Fatalf("%q, %s %q: %q, want %q", pattern, method, path, got, want)
				}
			}
		}
	}
}

// combined returns all texts of one to n parts.
func combined(parts []string, n int) []string {
	all := slices.Clone(parts)
	for last := parts; n > 1; n-- {
		var longer []string
		for _, text := range last {
			for _, part := range parts {
				longer = append(longer, text+part)
			}
		}
		last = longer
		all = append(all, longer...)
	}
	return all
}

// A path that a router would clean is looked at as if it had been.
func TestFindsUncleanPaths(t *testing.T) {
	var table Table[string]
	for _, pattern := range []string{"/api/orders", "api.test/", "[2001:db8::1]/"} {
		if err := table.Add(pattern, pattern); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{
		"/api/orders": "/api/orders", "//api/orders": "/api/orders", "/api/./orders": "/api/orders", "/x/../api//orders": "/api/orders",
		"/api/orders/": "", "": "", "/api": "", "api/orders": "/api/orders",
	} {
		if got := find(&table, &http.Request{Method: http.MethodGet, Host: "x", URL: &url.URL{Path: path}}); got != want {
			t.Errorf("%q: %q, want %q", path, got, want)
		}
	}
	for _, host := range []string{"api.test", "API.test.:8080", "api.test:80"} {
		if got := find(&table, &http.Request{Method: http.MethodGet, Host: host, URL: &url.URL{Path: "/"}}); got != "api.test/" {
			t.Errorf("host %q: %q", host, got)
		}
	}
	for _, host := range []string{"[2001:db8::1]", "[2001:DB8::1]:8080"} {
		if got := find(&table, &http.Request{Method: http.MethodGet, Host: host, URL: &url.URL{Path: "/"}}); got != "[2001:db8::1]/" {
			t.Errorf("host %q: %q", host, got)
		}
	}
}

// A router that decodes paths takes an escaped slash for a slash, and one that keeps dots takes them for names.
func TestFindsAsTheRouterHasRead(t *testing.T) {
	var table Table[string]
	for _, pattern := range []string{"/api/orders", "/files/", "/a/{b}/x"} {
		if err := table.Add(pattern, pattern); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		path string
		by   Reading
		want string
	}{
		{"/api%2Forders", Reading{}, ""},
		{"/api%2Forders", Reading{Decoded: true}, "/api/orders"},
		{"/files/../api/orders", Reading{}, "/api/orders"},
		{"/files/../api/orders", Reading{KeepsDots: true}, "/files/"},
		{"/files/%2e%2e/api/orders", Reading{Decoded: true, KeepsDots: true}, "/files/"},
		{"//files//../x", Reading{KeepsDots: true}, "/files/"},
		{"/a/../x", Reading{KeepsDots: true}, "/a/{b}/x"},
		{"/a/../x", Reading{}, ""},
		{"/api/./orders", Reading{KeepsDots: true}, ""},
	} {
		found := table.Find(httptest.NewRequest(http.MethodPost, test.path, nil), test.by, func(*http.Request, *string) bool { return true })
		if got := deref(found); got != test.want {
			t.Errorf("%s read by %+v: %q, want %q", test.path, test.by, got, test.want)
		}
	}
}

func deref(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

func TestSaysWhatIsWrong(t *testing.T) {
	for _, test := range []struct{ first, second, want string }{
		{"", "POST", `the pattern "POST" has no path: write a slash, as in "POST /orders" or "api.example.com/"`},
		{"", "get /x", `no request matches the pattern "get /x": write the method as GET`},
		{"", "POST/x", `the pattern "POST/x" has post for its host: write a space behind the method, as in "POST /orders"`},
		{"", "http://a.test/x", `no request matches the pattern "http://a.test/x": leave the scheme out, as in "api.example.com/"`},
		{"", "/x?y=1", `no request matches the pattern "/x?y=1": leave ? and # and what follows out; the query does not count`},
		{"", "a.test:80/", `no request matches the pattern "a.test:80/": leave the port out, which does not count`},
		{"", "GET [::1]:80/", `no request matches the pattern "GET [::1]:80/": leave the port out, which does not count`},
		{"", "[::1/", `no request matches the pattern "[::1/": [::1 is no address`},
		{"", "[x]/", `no request matches the pattern "[x]/": [x] is no address`},
		{"", "*.a.test/", `no request matches the pattern "*.a.test/": '*' is no part of the name of a host`},
		{"", "bücher.test/", `no request matches the pattern "bücher.test/": write the host as browsers send it, in letters of ASCII: xn--…`},
		{"", "GET /{x", "at offset 5: bad wildcard segment (must end with '}')"},
		{"/files/", "/{a}/x", `pattern "/{a}/x" conflicts with pattern "/files/": /{a}/x and /files/ both match some paths, like "/files/x". ` +
			`But neither is more specific than the other. /{a}/x matches "/a/x", but /files/ doesn't. /files/ matches "/files/", but /{a}/x doesn't.`},
		{"POST /items/{id}", "/items/new", `pattern "/items/new" conflicts with pattern "POST /items/{id}": ` +
			"/items/new matches more methods than POST /items/{id}, but has a more specific path pattern"},
	} {
		var table Table[string]
		if test.first != "" {
			if err := table.Add(test.first, ""); err != nil {
				t.Fatal(err)
			}
		}
		if err := table.Add(test.second, ""); err == nil || err.Error() != test.want {
			t.Errorf("%q: %v, want %s", test.second, err, test.want)
		}
	}
}

// FuzzFind holds that a path has the pattern that it has in net/http, unless that cleans it.
func FuzzFind(f *testing.F) {
	f.Add("GET /a/{x}", "/a/b")
	f.Add("/{x...}", "/%2F")
	f.Add("A.test/%7Bx%7D/{$}", "/{x}/")
	f.Fuzz(func(t *testing.T, pattern, target string) {
		var table Table[string]
		if table.Add(pattern, pattern) != nil {
			return
		}
		u, err := url.ParseRequestURI(target)
		if err != nil {
			return
		}
		r := &http.Request{Method: http.MethodGet, Host: "a.test", URL: u}
		got := find(&table, r)
		if clean(u.EscapedPath()) != u.EscapedPath() {
			return
		}
		mux := http.NewServeMux()
		method, host, path := split(pattern)
		mux.Handle(strings.TrimLeft(method+" "+host+path, " "), http.NotFoundHandler())
		handler, found := mux.Handler(r)
		if _, ours := handler.(http.HandlerFunc); (found != "" && ours) != (got != "") {
			t.Errorf("%q, %q: %q, and net/http finds %q", pattern, target, got, found)
		}
	})
}
