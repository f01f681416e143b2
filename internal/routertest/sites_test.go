package routertest

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	chimiddleware "github.com/go-chi/chi/v5/middleware"
	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
	echov5 "github.com/labstack/echo/v5"
	middlewarev5 "github.com/labstack/echo/v5/middleware"

	ratelimitecho "github.com/weir-go/ratelimit/echo"
	ratelimitechov5 "github.com/weir-go/ratelimit/echo/v5"
	ratelimitgin "github.com/weir-go/ratelimit/gin"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
)

// sites returns all sites whose routes count.
func sites(t *testing.T) []*site {
	var all []*site
	all = append(all, muxSites(t)...)
	all = append(all, ginSites(t)...)
	all = append(all, echoSites(t)...)
	all = append(all, echov5Sites(t)...)
	return append(all, chiSites(t)...)
}

// limited are the routes, and what the handler of one of them has to itself.
func limited() []string { return append(slices.Clone(routes), private) }

func (s *site) middleware() ratelimit.Middleware {
	return ratelimit.FromPolicies(s.limiter, s.set, s.options)
}

// around puts the limiter around a handler.
func (s *site) around(h http.Handler) *site {
	s.handler = s.middleware()(h)
	return s
}

// hidden is a handler of which nothing is known.
func hidden(h http.Handler) http.Handler { return http.HandlerFunc(h.ServeHTTP) }

func muxSites(t *testing.T) []*site {
	around := newSite(t, "net/http, around the mux", limited(), nil)
	around.around(around.mux(nil))
	unknown := newSite(t, "net/http, around a handler that hides the mux", limited(), nil)
	unknown.around(hidden(unknown.mux(nil)))
	inside := newSite(t, "net/http, around each handler", limited(), nil)
	inside.handler = inside.mux(inside.middleware())
	stripped := newSite(t, "net/http, a prefix that is stripped", limited(), nil)
	stripped.handler = http.StripPrefix("/v1", stripped.middleware()(stripped.mux(nil)))
	stripped.handler = prefixed("/v1", stripped.handler)
	nested := newSite(t, "net/http, a mux in a mux", limited(), nil)
	outer := http.NewServeMux()
	outer.Handle("/", hidden(nested.mux(nil)))
	outer.Handle("/users/", nested.mux(nil))
	nested.around(outer)
	switched := newSite(t, "net/http, a handler that looks at the path", limited(), nil)
	switched.around(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if route := strings.TrimSuffix(r.URL.Path, "/"); slices.Contains(switched.limited, route) {
			switched.run(route)
		}
	}))
	return []*site{around, unknown, inside, stripped, nested, switched}
}

// prefixed puts a prefix in front of the path of each request.
func prefixed(prefix string, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.URL.Path = prefix + r.URL.Path
		if r.URL.RawPath != "" {
			r.URL.RawPath = prefix + r.URL.RawPath
		}
		h.ServeHTTP(w, r)
	})
}

// mux returns the routes in a mux, each in a middleware if one is given.
func (s *site) mux(each ratelimit.Middleware) *http.ServeMux {
	mux := http.NewServeMux()
	for _, route := range routes {
		h := s.handlerOf(route, func(r *http.Request) string { return r.PathValue("path") })
		if each != nil {
			h = each(h)
		}
		mux.Handle(route, h)
	}
	return mux
}

func ginSites(t *testing.T) []*site {
	gin.SetMode(gin.ReleaseMode)
	var all []*site
	for flags := range 16 {
		for _, around := range []bool{false, true} {
			engine := gin.New()
			engine.UseRawPath, engine.UnescapePathValues = flags&1 != 0, flags&2 != 0
			engine.RemoveExtraSlash, engine.UseEscapedPath = flags&4 != 0, flags&8 != 0
			engine.RedirectTrailingSlash = false
			name := fmt.Sprintf("gin, UseRawPath %v, UnescapePathValues %v, RemoveExtraSlash %v, UseEscapedPath %v, around %v",
				engine.UseRawPath, engine.UnescapePathValues, engine.RemoveExtraSlash, engine.UseEscapedPath, around)
			s := newSite(t, name, limited(), nil)
			if s.handler = engine; !around {
				engine.Use(ratelimitgin.FromPolicies(s.limiter, s.set, s.options))
			}
			for _, route := range routes {
				engine.Any(colons(route, "*path"), func(c *gin.Context) {
					if route == "/files/{path...}" {
						s.runBelowFiles(c.Param("path"))
					} else {
						s.run(route)
					}
				})
			}
			if around {
				s.around(engine)
			}
			all = append(all, s)
		}
	}
	return all
}

// taking are the policies of routes around echo, whose last parameter takes the rest of the path.
var taking = map[string]string{"/verify/{code}": "/verify/{code...}", "/oauth/v1/{app}": "/oauth/v1/{app...}", "/items/{id}": "/items/{id...}"}

func echoSites(t *testing.T) []*site {
	var all []*site
	for name, before := range map[string]echo.MiddlewareFunc{
		"": nil, "RemoveTrailingSlash": middleware.RemoveTrailingSlash(), "AddTrailingSlash": middleware.AddTrailingSlash(),
	} {
		for _, around := range []bool{false, true} {
			var patterns map[string]string
			if around {
				patterns = taking
			}
			s := newSite(t, fmt.Sprintf("echo v4, %s, around %v", name, around), limited(), patterns)
			e := echo.New()
			if before != nil {
				e.Pre(before)
			}
			if s.handler = e; !around {
				e.Use(ratelimitecho.FromPolicies(s.limiter, s.set, s.options))
			}
			for _, route := range routes {
				end := ""
				if name == "AddTrailingSlash" && !strings.HasSuffix(route, "}") {
					end = "/"
				}
				e.Any(colons(route, "*")+end, func(c echo.Context) error {
					if route == "/files/{path...}" {
						s.runBelowFiles(c.Param("*"))
					} else {
						s.run(route)
					}
					return nil
				})
			}
			if around {
				s.around(e)
			}
			all = append(all, s)
		}
	}
	return all
}

func echov5Sites(t *testing.T) []*site {
	var all []*site
	for flags := range 8 {
		around := flags&4 != 0
		config := echov5.RouterConfig{UnescapePathParamValues: flags&1 != 0, UseEscapedPathForMatching: flags&2 != 0}
		var patterns map[string]string
		if around {
			patterns = taking
		}
		s := newSite(t, fmt.Sprintf("echo v5, UnescapePathParamValues %v, UseEscapedPathForMatching %v, around %v",
			config.UnescapePathParamValues, config.UseEscapedPathForMatching, around), limited(), patterns)
		e := echov5.NewWithConfig(echov5.Config{Router: echov5.NewRouter(config)})
		e.Pre(middlewarev5.RemoveTrailingSlash())
		if s.handler = e; !around {
			e.Use(ratelimitechov5.FromPolicies(s.limiter, s.set, s.options))
		}
		for _, route := range routes {
			e.Any(colons(route, "*"), func(c *echov5.Context) error {
				if route == "/files/{path...}" {
					s.runBelowFiles(c.Param("*"))
				} else {
					s.run(route)
				}
				return nil
			})
		}
		if around {
			s.around(e)
		}
		all = append(all, s)
	}
	return all
}

func chiSites(t *testing.T) []*site {
	var all []*site
	for flags := range 8 {
		for _, place := range []string{"Use before", "Use behind", "Group", "With", "around", "Mount"} {
			var names []string
			var rewrite []func(http.Handler) http.Handler
			for i, m := range []struct {
				name string
				use  func(http.Handler) http.Handler
			}{{"CleanPath", chimiddleware.CleanPath}, {"StripSlashes", chimiddleware.StripSlashes}, {"URLFormat", chimiddleware.URLFormat}} {
				if flags&(1<<i) != 0 {
					names, rewrite = append(names, m.name), append(rewrite, m.use)
				}
			}
			s := newSite(t, fmt.Sprintf("chi, %v, %s", names, place), limited(), nil)
			router := chi.NewRouter()
			if place == "Use before" {
				router.Use(s.middleware())
			}
			router.Use(rewrite...)
			if place == "Use behind" {
				router.Use(s.middleware())
			}
			register := func(r chi.Router) {
				for _, route := range routes {
					h := s.handlerOf(route, func(r *http.Request) string { return chi.URLParam(r, "*") })
					if place == "With" {
						r.With(s.middleware()).Handle(strings.Replace(route, "{path...}", "*", 1), h)
					} else {
						r.Handle(strings.Replace(route, "{path...}", "*", 1), h)
					}
				}
			}
			switch place {
			case "Group":
				router.Group(func(r chi.Router) { r.Use(s.middleware()); register(r) })
			case "Mount":
				inner := chi.NewRouter()
				inner.Group(func(r chi.Router) { r.Use(s.middleware()); register(r) })
				router.Mount("/", inner)
			default:
				register(router)
			}
			if s.handler = router; place == "around" {
				s.around(router)
			}
			all = append(all, s)
		}
	}
	return all
}
