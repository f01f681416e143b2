package routertest

import (
	"net/http"
	"slices"
	"strings"

	ratelimit "github.com/weir-go/ratelimit/nethttp"
)

// hidden is a handler of which nothing is known.
func hidden(h http.Handler) http.Handler { return http.HandlerFunc(h.ServeHTTP) }

// inMux returns the routes in a mux, each in a middleware if one is given.
func (s *site) inMux(each ratelimit.Middleware) *http.ServeMux {
	mux := http.NewServeMux()
	for i := range s.routes {
		to := &s.routes[i]
		var names []string
		for _, found := range wildcard.FindAllStringSubmatch(to.pattern, -1) {
			names = append(names, found[1])
		}
		var h http.Handler = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			values := make([]string, len(names), len(names)+1)
			for i, name := range names {
				values[i] = r.PathValue(name)
			}
			s.run(r, to, s.placed(values)...)
		})
		if each != nil {
			h = each(h)
		}
		mux.Handle(to.pattern, h)
	}
	return mux
}

// placed returns the values of the wildcards of a route behind those of the prefix.
func (s *site) placed(values []string) []string {
	return append(make([]string, strings.Count(s.prefix, "{")), values...)
}

// behind returns a mux that strips a prefix and hands the rest on.
func behind(prefix string, h http.Handler) *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle(prefix+"/", http.StripPrefix(prefix, h))
	return mux
}

func muxKinds() []kind {
	hosts := []string{"a.test", "b.test", "c.test", "A.test", "a.test.", "a.test:8080", "B.TEST.:1", "[::1]:80", "[::1]", "[a.test]:80", "[b.test]"}
	const prefix = "/api/v1"
	return []kind{
		{name: "net/http, around the mux", build: func(s *site) { s.around(s.inMux(nil)) }},
		{name: "net/http, around a handler that hides the mux", build: func(s *site) { s.around(hidden(s.inMux(nil))) }, several: true},
		{name: "net/http, around each handler", build: func(s *site) { s.handler = s.inMux(s.middleware()) }, several: true},
		{name: "net/http, routes of hosts, around the mux", routes: ofHosts(table), hosts: hosts, build: func(s *site) { s.around(s.inMux(nil)) }, several: true},
		{
			name: "net/http, routes of hosts, around a handler that hides the mux", routes: ofHosts(table), hosts: hosts,
			build: func(s *site) { s.around(hidden(s.inMux(nil))) }, several: true, fixed: true,
		},
		{
			name: "net/http, routes of hosts, around each handler", routes: ofHosts(table), hosts: hosts,
			build: func(s *site) { s.handler = s.inMux(s.middleware()) }, several: true,
		},
		{name: "net/http, around a mux that strips a prefix", prefix: prefix, build: func(s *site) { s.around(behind(prefix, s.inMux(nil))) }, several: true},
		{
			name: "net/http, behind a mux that strips a prefix", prefix: prefix, stripped: true,
			build: func(s *site) { s.handler = behind(prefix, s.middleware()(s.inMux(nil))) }, several: true,
		},
		{
			name: "net/http, in each handler behind a mux that strips a prefix", prefix: prefix, stripped: true,
			build: func(s *site) { s.handler = behind(prefix, s.inMux(s.middleware())) }, several: true,
		},
		{
			name: "net/http, a prefix that is stripped", prefix: prefix, stripped: true,
			build: func(s *site) { s.handler = http.StripPrefix(prefix, s.middleware()(s.inMux(nil))) },
		},
		{name: "net/http, a mux in a mux", build: func(s *site) {
			outer := http.NewServeMux()
			outer.Handle("/", hidden(s.inMux(nil)))
			outer.Handle("/users/", s.inMux(nil))
			s.around(outer)
		}, several: true},
		{name: "net/http, a mux below a wildcard of another one", prefix: "/of/{prefix}", build: func(s *site) {
			outer := http.NewServeMux()
			inner := s.inMux(nil)
			outer.HandleFunc("/of/{prefix}/{rest...}", func(w http.ResponseWriter, r *http.Request) {
				http.StripPrefix("/of/"+r.PathValue("prefix"), inner).ServeHTTP(w, r)
			})
			s.around(outer)
		}, several: true},
		{name: "net/http, a handler that looks at the path", build: func(s *site) {
			s.around(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				at := slices.IndexFunc(s.routes, func(one route) bool { return one.pattern == strings.TrimSuffix(r.URL.Path, "/") })
				if at >= 0 && s.routes[at].pattern != "/calls" && s.routes[at].pattern != "/shop" {
					s.run(r, &s.routes[at])
				}
			}))
		}, several: true},
	}
}
