package routertest

import (
	"fmt"
	"net/http"

	"github.com/gin-gonic/gin"

	ratelimitgin "github.com/weir-go/ratelimit/gin"
)

func (s *site) ginMiddleware() gin.HandlerFunc {
	return ratelimitgin.FromPolicies(s.limiter, s.set, s.options)
}

// inGin registers the routes in gin, which wants each method of a path once.
func (s *site) inGin(group gin.IRoutes) {
	taken := make(map[string]bool)
	for i := range s.routes {
		if to := &s.routes[i]; to.method() != "" {
			taken[to.method()+to.registered()] = true
		}
	}
	for i := range s.routes {
		to := &s.routes[i]
		h := func(c *gin.Context) {
			values := make([]string, len(c.Params))
			for i := range c.Params {
				values[i] = c.Params[i].Value
			}
			s.run(c.Request, to, s.withPrefix(values, to, false)...)
		}
		path := colons(to.registered(), "*path")
		if to.method() != "" {
			group.Handle(to.method(), path, h)
			continue
		}
		for _, method := range methods {
			if !taken[method+to.registered()] {
				group.Handle(method, path, h)
			}
		}
	}
}

func ginKinds() []kind {
	gin.SetMode(gin.ReleaseMode)
	var all []kind
	for flags := range 16 {
		engine := func() *gin.Engine {
			e := gin.New()
			e.UseRawPath, e.UnescapePathValues = flags&1 != 0, flags&2 != 0
			e.RemoveExtraSlash, e.UseEscapedPath = flags&4 != 0, flags&8 != 0
			// One half of the sites redirects to what it has, and one half answers with 405.
			odd := (flags^flags>>1^flags>>2^flags>>3)&1 != 0
			e.RedirectTrailingSlash, e.RedirectFixedPath, e.HandleMethodNotAllowed = odd, odd, !odd
			return e
		}
		e := engine()
		name := fmt.Sprintf("gin, UseRawPath %v, UnescapePathValues %v, RemoveExtraSlash %v, UseEscapedPath %v, RedirectFixedPath %v",
			e.UseRawPath, e.UnescapePathValues, e.RemoveExtraSlash, e.UseEscapedPath, e.RedirectFixedPath)
		all = append(all, kind{name: name + ", Use", build: func(s *site) {
			e := engine()
			e.Use(s.ginMiddleware())
			s.inGin(e)
			s.handler = e
		}}, kind{name: name + ", around", several: true, build: func(s *site) {
			e := engine()
			s.inGin(e)
			s.around(e)
		}})
		switch flags % 4 {
		case 0:
			all = append(all, kind{name: name + ", Use in a Group", prefix: "/of/{id}", build: func(s *site) {
				e := engine()
				group := e.Group("/of/:id")
				group.Use(s.ginMiddleware())
				s.inGin(group)
				s.handler = e
			}})
		case 1:
			all = append(all, kind{name: name + ", around a Group", prefix: "/api/v1", several: true, build: func(s *site) {
				e := engine()
				s.inGin(e.Group("/api/v1"))
				s.around(e)
			}})
		case 2:
			all = append(all, kind{name: name + ", a mux below a wildcard", prefix: "/api/v1", several: true, build: func(s *site) {
				e := engine()
				e.Use(s.ginMiddleware())
				e.Any("/api/v1/*rest", gin.WrapH(http.StripPrefix("/api/v1", s.inMux(nil))))
				s.handler = e
			}})
		case 3:
			all = append(all, kind{name: name + ", behind a mux that strips a prefix", prefix: "/api/v1", stripped: true, build: func(s *site) {
				e := engine()
				e.Use(s.ginMiddleware())
				s.inGin(e)
				s.handler = behind("/api/v1", e)
			}}, kind{name: name + ", around a mux that strips a prefix", prefix: "/api/v1", several: true, build: func(s *site) {
				e := engine()
				s.inGin(e)
				s.around(behind("/api/v1", e))
			}})
		}
	}
	return all
}
