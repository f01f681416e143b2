package routertest

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
	echov5 "github.com/labstack/echo/v5"
	middlewarev5 "github.com/labstack/echo/v5/middleware"

	ratelimitecho "github.com/weir-go/ratelimit/echo"
	ratelimitechov5 "github.com/weir-go/ratelimit/echo/v5"
)

func (s *site) echoMiddleware() echo.MiddlewareFunc {
	return ratelimitecho.FromPolicies(s.limiter, s.set, s.options)
}

func (s *site) echov5Middleware() echov5.MiddlewareFunc {
	return ratelimitechov5.FromPolicies(s.limiter, s.set, s.options)
}

// echoPath returns the path of a route in echo. A slash may be added to it, and the one in front of the rest of the path left out.
func echoPath(to *route, slash, glued bool) string {
	path := colons(to.registered(), "*")
	if slash && !strings.HasSuffix(to.registered(), "}") && !strings.HasSuffix(path, "/") {
		path += "/"
	}
	if glued {
		path = strings.Replace(path, "/*", "*", 1)
	}
	return path
}

// inEcho registers the routes in echo v4. A part of one may stand for all: those of a host, for example.
func (s *site) inEcho(host string, slash, glued bool, add func(method, path string, h echo.HandlerFunc)) {
	known := make(map[string]bool)
	for i := range s.routes {
		to := &s.routes[i]
		if hostOf(to.pattern) != host {
			continue
		}
		path := echoPath(to, slash, glued)
		if known[to.method()+path] {
			continue
		}
		known[to.method()+path] = true
		add(to.method(), path, func(c echo.Context) error {
			s.run(c.Request(), to, s.withPrefix(slices.Clone(c.ParamValues()), to, false)...)
			return nil
		})
	}
}

// hostOf returns the host of a pattern, or "".
func hostOf(pattern string) string {
	before, _, _ := strings.Cut(pattern, "/")
	return before[strings.LastIndexByte(before, ' ')+1:]
}

// toEcho adds a route to an echo or a group of one.
func toEcho(to interface {
	Any(path string, h echo.HandlerFunc, m ...echo.MiddlewareFunc) []*echo.Route
	Add(method, path string, h echo.HandlerFunc, m ...echo.MiddlewareFunc) *echo.Route
},
) func(method, path string, h echo.HandlerFunc) {
	return func(method, path string, h echo.HandlerFunc) {
		if method == "" {
			to.Any(path, h)
		} else {
			to.Add(method, path, h)
		}
	}
}

func echoKinds() []kind {
	var all []kind
	for _, one := range []struct {
		name   string
		before echo.MiddlewareFunc
		glued  bool
	}{
		{"", nil, false},
		{"RemoveTrailingSlash", middleware.RemoveTrailingSlash(), true},
		{"AddTrailingSlash", middleware.AddTrailingSlash(), false},
	} {
		slash := one.name == "AddTrailingSlash"
		routes := table
		if slash {
			routes = withoutTwins(table)
		}
		build := func(s *site) *echo.Echo {
			e := echo.New()
			if one.before != nil {
				e.Pre(one.before)
			}
			return e
		}
		all = append(all,
			kind{name: fmt.Sprintf("echo v4, %s, Use", one.name), routes: routes, slash: slash, several: slash, build: func(s *site) {
				e := build(s)
				e.Use(s.echoMiddleware())
				s.inEcho("", slash, one.glued, toEcho(e))
				s.handler = e
			}},
			kind{name: fmt.Sprintf("echo v4, %s, around", one.name), routes: routes, slash: slash, rest: true, several: true, build: func(s *site) {
				e := build(s)
				s.inEcho("", slash, false, toEcho(e))
				s.around(e)
			}},
			kind{name: fmt.Sprintf("echo v4, %s, Use in a Group", one.name), routes: routes, slash: slash, several: slash, prefix: "/of/{id}", build: func(s *site) {
				e := build(s)
				group := e.Group("/of/:id", s.echoMiddleware())
				s.inEcho("", slash, false, toEcho(group))
				s.handler = e
			}},
			kind{name: fmt.Sprintf("echo v4, %s, with each route", one.name), routes: routes, slash: slash, several: slash, prefix: "/api/v1", build: func(s *site) {
				e := build(s)
				group, limit := e.Group("/api/v1"), s.echoMiddleware()
				s.inEcho("", slash, one.glued, func(method, path string, h echo.HandlerFunc) { toEcho(group)(method, path, limit(h)) })
				s.handler = e
			}},
		)
	}
	return append(all,
		kind{name: "echo v4, a mux below a wildcard", prefix: "/api/v1", several: true, build: func(s *site) {
			e := echo.New()
			e.Use(s.echoMiddleware())
			e.Any("/api/v1/*", echo.WrapHandler(http.StripPrefix("/api/v1", s.inMux(nil))))
			s.handler = e
		}},
		kind{name: "echo v4, around a mux that strips a prefix", prefix: "/api/v1", rest: true, several: true, build: func(s *site) {
			e := echo.New()
			s.inEcho("", false, false, toEcho(e))
			s.around(behind("/api/v1", e))
		}},
		kind{name: "echo v4, hosts", routes: ofHosts(table), hosts: []string{"a.test", "b.test", "c.test", "A.test", "a.test:80"}, several: true, build: func(s *site) {
			e := echo.New()
			e.Use(s.echoMiddleware())
			s.inEcho("", false, false, toEcho(e))
			for _, host := range []string{"a.test", "b.test"} {
				s.inEcho(host, false, false, toEcho(e.Host(host)))
			}
			s.handler = e
		}},
	)
}

// withoutTwins returns the routes that differ by more than the slash at their ends.
func withoutTwins(routes []route) []route {
	var all []route
	for _, r := range routes {
		if r.pattern != "/shop/{$}" {
			all = append(all, r)
		}
	}
	return all
}

func (s *site) inEchov5(host string, glued bool, add func(method, path string, h echov5.HandlerFunc)) {
	for i := range s.routes {
		to := &s.routes[i]
		if hostOf(to.pattern) != host {
			continue
		}
		add(to.method(), echoPath(to, false, glued), func(c *echov5.Context) error {
			found := c.PathValues()
			values := make([]string, len(found))
			for i := range found {
				values[i] = found[i].Value
			}
			s.run(c.Request(), to, s.withPrefix(values, to, false)...)
			return nil
		})
	}
}

func toEchov5(to interface {
	Any(path string, h echov5.HandlerFunc, m ...echov5.MiddlewareFunc) echov5.RouteInfo
	Add(method, path string, h echov5.HandlerFunc, m ...echov5.MiddlewareFunc) echov5.RouteInfo
},
) func(method, path string, h echov5.HandlerFunc) {
	return func(method, path string, h echov5.HandlerFunc) {
		if method == "" {
			to.Any(path, h)
		} else {
			to.Add(method, path, h)
		}
	}
}

func echov5Kinds() []kind {
	var all []kind
	for flags := range 8 {
		config := echov5.RouterConfig{UnescapePathParamValues: flags&1 != 0, UseEscapedPathForMatching: flags&2 != 0, AutoHandleHEAD: flags&4 != 0}
		build := func() *echov5.Echo {
			e := echov5.NewWithConfig(echov5.Config{Router: echov5.NewRouter(config)})
			if flags&4 != 0 {
				e.Pre(middlewarev5.RemoveTrailingSlash())
			}
			return e
		}
		glued := flags&4 == 0
		name := fmt.Sprintf("echo v5, UnescapePathParamValues %v, UseEscapedPathForMatching %v, RemoveTrailingSlash %v",
			config.UnescapePathParamValues, config.UseEscapedPathForMatching, flags&4 != 0)
		all = append(all,
			kind{name: name + ", Use", build: func(s *site) {
				e := build()
				e.Use(s.echov5Middleware())
				s.inEchov5("", glued, toEchov5(e))
				s.handler = e
			}},
			kind{name: name + ", around", rest: true, several: true, build: func(s *site) {
				e := build()
				s.inEchov5("", false, toEchov5(e))
				s.around(e)
			}},
			kind{name: name + ", Use in a Group", prefix: "/of/{id}", build: func(s *site) {
				e := build()
				s.inEchov5("", glued, toEchov5(e.Group("/of/:id", s.echov5Middleware())))
				s.handler = e
			}},
		)
	}
	return append(all,
		kind{name: "echo v5, a mux below a wildcard", prefix: "/api/v1", several: true, build: func(s *site) {
			e := echov5.New()
			e.Use(s.echov5Middleware())
			e.Any("/api/v1/*", echov5.WrapHandler(http.StripPrefix("/api/v1", s.inMux(nil))))
			s.handler = e
		}},
		kind{name: "echo v5, hosts", routes: ofHosts(table), hosts: []string{"a.test", "b.test", "c.test", "A.test", "a.test:80"}, several: true, build: func(s *site) {
			hosts := make(map[string]*echov5.Echo)
			for _, host := range []string{"a.test", "b.test"} {
				hosts[host] = echov5.New()
				hosts[host].Use(s.echov5Middleware())
				s.inEchov5(host, false, toEchov5(hosts[host]))
			}
			e := echov5.NewVirtualHostHandler(hosts)
			e.Use(s.echov5Middleware())
			s.inEchov5("", false, toEchov5(e))
			s.handler = e
		}},
	)
}
