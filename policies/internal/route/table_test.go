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
func drawTable(t *rapid.T) (table *Table, patterns []string) {
	table = new(Table)
	mux := http.NewServeMux()
	for range rapid.IntRange(1, 8).Draw(t, "patterns") {
		pattern := drawPattern(t)
		if strings.Contains(pattern, "//") { // net/http lets it stand, and nothing matches it
			if _, err := table.Add(pattern); err == nil {
				t.Fatalf("%q is added", pattern)
			}
			continue
		}
		func() {
			defer func() {
				refused := recover() != nil
				if _, err := table.Add(pattern); refused != (err != nil) {
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

// find returns the pattern that the path as it stands matches, without some patterns.
func find(table *Table, r *http.Request, but ...string) string {
	table.Accept = func(_ *http.Request, number int) bool { return !slices.Contains(but, table.Pattern(number)) }
	roots := table.roots(r)
	number := table.matching(roots[:], r, &Reading{Path: rooted(r.URL.EscapedPath()), decode: true})
	if number == none {
		return ""
	}
	return table.Pattern(number)
}

// met returns the patterns that a request meets, in the order of the table.
func met(table *Table, r *http.Request, known Known) string {
	numbers, _ := table.Met(nil, r, known)
	slices.Sort(numbers)
	patterns := make([]string, len(numbers))
	for i, number := range numbers {
		patterns[i] = table.Pattern(number)
	}
	return strings.Join(patterns, " ")
}

// tableOf returns a table of some patterns.
func tableOf(t *testing.T, patterns ...string) *Table {
	t.Helper()
	table := new(Table)
	for _, pattern := range patterns {
		if _, err := table.Add(pattern); err != nil {
			t.Fatal(err)
		}
	}
	return table
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

// Hosts are compared without their ports, dots at the end, and regard to case.
func TestFindsHosts(t *testing.T) {
	table := tableOf(t, "api.test/", "[2001:db8::1]/")
	for host, want := range map[string]string{
		"api.test": "api.test/", "API.test.:8080": "api.test/", "api.test:80": "api.test/", "other.test": "",
		"[2001:db8::1]": "[2001:db8::1]/", "[2001:DB8::1]:8080": "[2001:db8::1]/",
		"[api.test]:80": "api.test/", "[Api.Test.]:": "api.test/", "[api.test]": "api.test/",
	} {
		if got := met(table, &http.Request{Method: http.MethodGet, Host: host, URL: &url.URL{Path: "/"}}, Known{}); got != want {
			t.Errorf("host %q: %q, want %q", host, got, want)
		}
	}
}

// A target within a target, which a proxy passes on, is read as the next server reads it.
func TestTargetsWithinTargets(t *testing.T) {
	table := tableOf(t, "/login", "/files/{name}")
	for target, want := range map[string]string{
		"http:/login": "/login", "http:login": "/login", "http:http://a/login": "/login", "x:http://a/login?x": "/login", "http:http:http://a:80//login": "/login",
		"http:http://a/files/%6Cogin": "/files/{name}", "http:http://a/login%2F..%2Flogin": "/login", "http:http://a/other": "",
		"http:http://a/#/../login": "/login", "http:http://a/x/%2e%2e/login": "/login", "http:http://a/login.html": "/login",
	} {
		u, err := url.ParseRequestURI(target)
		if err != nil {
			t.Fatal(err)
		}
		if got := met(table, &http.Request{Method: http.MethodGet, Host: "a", URL: u}, Known{}); got != want {
			t.Errorf("%q: %q, want %q", target, got, want)
		}
	}
	u, err := url.ParseRequestURI(strings.Repeat("x:", 100) + "http://a/login")
	if err != nil {
		t.Fatal(err)
	}
	if _, readable := table.Met(nil, &http.Request{Method: http.MethodGet, Host: "a", URL: u}, Known{}); readable {
		t.Error("a target within a hundred others is read")
	}
}

// Where no route is known, a request meets what each reading of its path matches.
func TestEveryReadingIsMet(t *testing.T) {
	for _, test := range []struct{ patterns, path, want string }{
		{"/ /login", "/login", "/login"},
		{"/ /login", "/login/", "/ /login"},
		{"/ /login", "/login//", "/ /login"},
		{"/ /login", "/login%2F", "/ /login"},
		{"/ /login", "/login.x", "/ /login"},
		{"/ /login", "/static/../login", "/ /login"},
		{"/ /login", "/./login", "/ /login"},
		{"/ /login", "//login", "/ /login"},
		{"/ /login", "/%6cogin", "/ /login"},
		{"/ /login/", "/login", "/ /login/"},
		{"/ /login /login/", "/login", "/login /login/"},
		{"/ /users/{id}/reset", "/users//reset", "/ /users/{id}/reset"},
		{"/ /users/{id}/reset", "/users/%2F/reset", "/ /users/{id}/reset"},
		{"/ /users/{id}/reset", "/users/7/reset", "/users/{id}/reset"},
		{"/ /users/{id}/", "/users/%2F/reset", "/ /users/{id}/"},
		{"/ /t/{tenant}/login", "/t//login", "/ /t/{tenant}/login"},
		{"/ /t/{tenant}/login", "//t/./login", "/ /t/{tenant}/login"},
		{"/ /a/c", "/a%2Fb/../c", "/ /a/c"},
		{"/ /verify/{code}", "/verify/", "/ /verify/{code}"},
		{"/ /api/login", "/api%2Flogin", "/ /api/login"},
		{"/ /a/b/c", "/a/b%2Fc", "/ /a/b/c"},
		{"/ /private/", "/x/%2e%2e/private/s.txt", "/ /private/"},
		{"/ /private/", "/x/../private/s.txt", "/ /private/"},
		{"/ /private/", "/private%2Fs.txt", "/ /private/"},
		{"/ /files/ /files/private/", "/files/../private/s.txt", "/ /files/ /files/private/"},
		{"/ /v1/files/ /v1/files/private/", "/v1/files/x/../../private/", "/ /v1/files/ /v1/files/private/"},
		{"/ /private/", "/x%2F..%2Fprivate%2Fs.txt", "/ /private/"},
		// What a router hands on may be decoded, or clean, below a wildcard that is not.
		{"/ /t/{tenant}/files/ /t/{tenant}/files/private/", "/t/a%2Fb/files/private%2Fs.txt", "/ /t/{tenant}/files/ /t/{tenant}/files/private/"},
		{"/ /t/{tenant}/files/private/", "/t//files//private/../private/s.txt", "/ /t/{tenant}/files/private/"},
		{"/ /t/{tenant}/files/private/", "/t/./a%2Fb/files/%2e%2e/private/s.txt", "/ /t/{tenant}/files/private/"},
		{"/ /t/{tenant}/files/special", "/t/7/files/x%2F..%2Fspecial.b%2Fc", "/ /t/{tenant}/files/special"},
		{"/ /files/special", "/files%2Fspecial%2F..%2Fpecial", "/ /files/special"},
		{"/ /files/special", "/files/special%2F..%2Fpecial/", "/ /files/special"},
		// The last segment may be nothing but an extension, or have several slashes behind it.
		{"/ /shop/{$}", "/shop/.json", "/ /shop/{$}"},
		{"/ /login", "/login%2F.%20", "/ /login"},
		{"/ /t/{tenant}/names/{name}", "/t//names/x//", "/ /t/{tenant}/names/{name}"},
		{"/ /t/{id}/ /t/acme/", "/t/%2561cme/", "/t/{id}/ /t/acme/"}, // twice, as in echo v5
		{"/ /items/{id} /items/special", "/items/%73pecial", "/items/{id} /items/special"},
		{"/ /items/{id} /items/special", "/items/special", "/items/special"},
		{"/ /health", "/health/../orders", "/"},
		{"/ /health/", "/health/../orders", "/ /health/"},
		// An ordinary path meets one pattern, whatever else there is.
		{"/ /robots.txt", "/robots.txt", "/robots.txt"},
		{"/ /files/{name} /files/robots.txt", "/files/robots.txt", "/files/robots.txt"},
		{"/ /orders/ /orders/{$}", "/orders/", "/orders/{$}"},
		{"/ /orders/ /orders/{id}", "/orders/7", "/orders/{id}"},
		{"/{$}", "/", "/{$}"},
		{"/", "", "/"},
		{"/", "*", "/"},
	} {
		u := &url.URL{Path: test.path}
		if strings.HasPrefix(test.path, "/") {
			var err error
			if u, err = url.ParseRequestURI(test.path); err != nil {
				t.Fatal(err)
			}
		}
		if got := met(tableOf(t, strings.Fields(test.patterns)...), &http.Request{Method: http.MethodPost, URL: u}, Known{}); got != test.want {
			t.Errorf("%s of %s meets %q, want %q", test.path, test.patterns, got, test.want)
		}
	}
}

// values are those of wildcards.
type values map[string]string

func (v values) PathValue(name string) string { return v[name] }

// Where the route is known, a request meets the pattern that covers it, however its path is written.
func TestTheRouteDecides(t *testing.T) {
	const patterns = "/ /login /of/{a}/x/{b} /of/{a}/x/special /users/{id}/reset /users/me/reset /files/ /files/public/ /items/{id} /items/special"
	for _, test := range []struct {
		route, path string
		values      values
		whole       bool
		want        string
	}{
		{"/login", "//x/../y%2Fz", nil, true, "/login"},
		{"/users/{id}/reset", "/users//reset", nil, true, "/users/{id}/reset"},
		{"/users/{id}/reset", "/users/me/reset", values{"id": "me"}, true, "/users/me/reset"},
		{"/users/{id}/reset", "/users/%6de/reset", values{"id": "me"}, true, "/users/{id}/reset /users/me/reset"},
		{"/users/{name:[a-z]+}/reset", "/users/me/reset", values{"name": "me"}, true, "/users/me/reset"},
		{"/items/{id}", "/items/%73pecial", values{"id": "%73pecial"}, true, "/items/{id} /items/special"},
		{"/items/{id}", "/items/1/x/y", values{"id": "1/x/y"}, true, "/items/{id}"},
		{"/items/{id}", "/items/%2F", values{"id": "/"}, true, "/items/{id}"},
		{"/other/{x}", "/other/y", nil, true, "/"},
		{"/other/{x}", "/login", nil, true, "/ /login"}, // somebody has changed the path
		// Of two wildcards with one name the router tells one value.
		{"/of/{id}/x/{id}", "/of/special/x/7", values{"id": "special"}, true, "/of/{a}/x/{b}"},
		{"/of/{id}/x/{id}", "/of/7/x/special", values{"id": "7"}, true, "/of/{a}/x/special"},
		{"/of/{id}/x/{id}", "/of/7/x/special/y", values{"id": "7"}, true, "/of/{a}/x/{b}"},
		{"/of/{id}/x/{id}", "/of//x/..%2Fspecial", values{"id": "special"}, true, "/of/{a}/x/{b} /of/{a}/x/special"},
		// chi leaves out the slash that ends a route.
		{"/files", "/files/", nil, false, "/ /files/"},
		{"/files", "/files", nil, false, "/ /files/"},
		// Text in front of the rest of a path.
		{"/files*", "/filesprivate/x", nil, false, "/ /files/"},
		{"/files{...}", "/filespublic/x", nil, true, "/ /files/public/"},
		{"/files*", "/x/../filespublic%2Fx", nil, false, "/ /files/ /files/public/"},
		{"/files{...}", "/files../login", nil, true, "/ /login /files/"},
		{"/items/x-{id}", "/items/x-1/2", nil, true, "/items/{id}"},
		// What the handler may pass on counts, too, unless the route has a more specific pattern.
		{"/items/{id}", "/items/..%2Flogin", values{"id": "../login"}, true, "/login /items/{id}"},
		{"/users/{id}/reset", "/users/a%2Fb/reset", values{"id": "a/b"}, true, "/users/{id}/reset"},
		{"/items/{id}", "/items/x%2F..%2Fspecial", values{"id": "x/../special"}, true, "/items/{id} /items/special"},
		// What a wildcard stands for is for the handler to read.
		{"/files/{path...}", "/files/a", nil, true, "/files/"},
		{"/files/{path...}", "/files/public/a", nil, true, "/files/public/"},
		{"/files/{path...}", "/files/public/../a", nil, true, "/files/ /files/public/"},
		{"/files/{path...}", "/files/../login", nil, true, "/login /files/"},
		{"/files/*", "/login", nil, true, "/login /files/"},
		{"/{...}", "/x/../login", nil, true, "/ /login"},
		{"/x/{a}-{b}", "/x/1-2", nil, true, "/"},
		// A route that may be a part of another one decides only if the path has its segments.
		{"/login", "/login", nil, false, "/login"},
		{"/login", "/login/", nil, false, "/login"},
		{"/login", "/login.json", nil, false, "/login"},
		{"/login/", "/login/", nil, true, "/login"},
		{"/files/public", "/files/public", nil, true, "/files/"},
		{"/{id}", "/items/7", nil, false, "/ /items/{id}"},
		{"example.test/login", "/login", nil, true, "/login"},
	} {
		u, err := url.ParseRequestURI(test.path)
		if err != nil {
			t.Fatal(err)
		}
		r := &http.Request{Method: http.MethodPost, URL: u}
		if test.values == nil {
			test.values = values{}
		}
		got := met(tableOf(t, strings.Fields(patterns)...), r, Known{Route: test.route, Whole: test.whole, Values: test.values})
		if got != test.want {
			t.Errorf("%s by %s: %q, want %q", test.path, test.route, got, test.want)
		}
	}
}

// A handler of all hosts meets the policies of all hosts, whichever host the client asks for; so does one that nothing is known of, if net/http
// does not take the host for the one of the policy.
func TestAHostHidesNothing(t *testing.T) {
	const patterns = "a.test/ a.test/login / /login"
	for _, test := range []struct{ route, method, host, path, want string }{
		{"/{...}", "POST", "a.test", "/login", "a.test/login /login"},
		{"/login", "POST", "a.test", "/login", "a.test/login /login"},
		{"a.test/{...}", "POST", "a.test", "/login", "a.test/login"},
		{"a.test/login", "POST", "A.test", "/login", "a.test/login"},
		{"", "POST", "a.test", "/login", "a.test/login"},
		{"", "POST", "a.test:80", "/login", "a.test/login"},
		{"", "POST", "A.test", "/login", "a.test/login /login"},
		{"", "POST", "a.test.", "/login", "a.test/login /login"},
		{"", "CONNECT", "a.test:80", "/login", "a.test/login /login"},
		{"", "POST", "b.test", "/login", "/login"},
	} {
		r := &http.Request{Method: test.method, Host: test.host, URL: &url.URL{Path: test.path}}
		if got := met(tableOf(t, strings.Fields(patterns)...), r, Known{Route: test.route, Whole: true, Values: values{}}); got != test.want {
			t.Errorf("%s %s%s by %q: %q, want %q", test.method, test.host, test.path, test.route, got, test.want)
		}
	}
}

// A path that would have to be read in many ways is not read at all if it is long.
func TestLongPathsAreNotReadInManyWays(t *testing.T) {
	table := tableOf(t, "/", "/private/")
	for path, want := range map[string]bool{
		"/" + strings.Repeat("a", 1<<20): true, strings.Repeat("/x/..", 400): true, strings.Repeat("/x/..", 420): false, strings.Repeat("/%2e", 1<<18): false,
	} {
		u, err := url.ParseRequestURI(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, readable := table.Met(nil, &http.Request{URL: u}, Known{}); readable != want {
			t.Errorf("%.20q, %d bytes: readable is %v", path, len(path), readable)
		}
	}
}

// A path that the client writes in many ways is read in a bounded number of ways.
func TestReadingsAreFew(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		target := strings.Join(rapid.SliceOf(rapid.SampledFrom([]string{"/", ".", "%2F", "%2e", "a", "%61", "..", ";", "%25"})).Draw(t, "path"), "")
		u, err := url.ParseRequestURI("/" + target)
		if err != nil {
			t.Skip()
		}
		if n := len(appendReadings(nil, u, 3)); n > 800 {
			t.Fatalf("%q has %d readings", target, n)
		}
	})
}

func TestSaysWhatIsWrong(t *testing.T) {
	for _, test := range []struct{ first, second, want string }{
		{"", "POST", `the pattern "POST" has no path: write a slash, as in "POST /orders" or "api.example.com/"`},
		{"", "get /x", `no request matches the pattern "get /x": write the method as GET`},
		{"", "POST/x", `the pattern "POST/x" has post for its host: write a space behind the method, as in "POST /orders"`},
		{"", "http://a.test/x", `no request matches the pattern "http://a.test/x": leave the scheme out, as in "api.example.com/"`},
		{"", "/x?y=1", `no request matches the pattern "/x?y=1": leave ? and # and the text behind them out; the query does not count`},
		{"", "a.test:80/", `no request matches the pattern "a.test:80/": leave the port out, which does not count`},
		{"", "GET [::1]:80/", `no request matches the pattern "GET [::1]:80/": leave the port out, which does not count`},
		{"", "[::1/", `no request matches the pattern "[::1/": [::1 is no address`},
		{"", "[x]/", `no request matches the pattern "[x]/": [x] is no address`},
		{"", "*.a.test/", `no request matches the pattern "*.a.test/": '*' is no part of the name of a host`},
		{"", "bücher.test/", `no request matches the pattern "bücher.test/": write the host as browsers send it, in letters of ASCII: xn--…`},
		{"", "GET /{x", "at offset 5: bad wildcard segment (must end with '}')"},
		{"", "/orders/:id", `the pattern "/orders/:id" is in the syntax of another router: write "/orders/{id}"`},
		{"", "GET a.test/files/*path", `the pattern "GET a.test/files/*path" is in the syntax of another router: write "GET a.test/files/{path...}"`},
		{"", "/files/*", `the pattern "/files/*" is in the syntax of another router: write "/files/"`},
		{"", "/items/{id:[0-9]+}", `the pattern "/items/{id:[0-9]+}" is in the syntax of another router: write "/items/{id}"`},
		{"/files/", "/{a}/x", `pattern "/{a}/x" conflicts with pattern "/files/": /{a}/x and /files/ both match some paths, like "/files/x". ` +
			`But neither is more specific than the other. /{a}/x matches "/a/x", but /files/ doesn't. /files/ matches "/files/", but /{a}/x doesn't.`},
		{"POST /items/{id}", "/items/new", `pattern "/items/new" conflicts with pattern "POST /items/{id}": ` +
			"/items/new matches more methods than POST /items/{id}, but has a more specific path pattern"},
	} {
		var table Table
		if test.first != "" {
			if _, err := table.Add(test.first); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := table.Add(test.second); err == nil || err.Error() != test.want {
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
		var table Table
		if _, err := table.Add(pattern); err != nil {
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
