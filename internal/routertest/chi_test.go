package routertest

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"
	chimiddleware "github.com/go-chi/chi/v5/middleware"
)

// inChi registers the routes in chi. Those below a path may be in a Route of its own, with the path itself as "/", and the slash in front of
// the rest of a path may be left out.
func (s *site) inChi(r chi.Router, inRoute, glued bool) {
	for i := range s.routes {
		to := &s.routes[i]
		h := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			all := chi.RouteContext(r.Context()).URLParams
			var values []string
			for i, key := range all.Keys {
				if key != "*" || i == len(all.Keys)-1 { // those in between are of mounted routers
					values = append(values, all.Values[i])
				}
			}
			s.run(r, to, s.withPrefix(values, to, true)...)
		})
		path := stars(to.registered())
		add := func(r chi.Router, path string) {
			if method := to.method(); method != "" {
				r.Method(method, path, h)
			} else {
				r.Handle(path, h)
			}
		}
		at := strings.LastIndex(path, "/users/{id}")
		switch {
		case at > 0: // two wildcards of one name
			r.Route(path[:at], func(r chi.Router) { add(r, path[at:]) })
		case inRoute && !strings.HasSuffix(path, "/") && !strings.HasSuffix(path, "*") && !strings.Contains(path, "calls") && path != "/shop":
			r.Route(path, func(r chi.Router) { add(r, "/") })
		case glued:
			add(r, strings.Replace(path, "/*", "*", 1))
		default:
			add(r, path)
		}
	}
}

func chiKinds() []kind {
	var all []kind
	for flags := range 16 {
		var names []string
		var rewrite []func(http.Handler) http.Handler
		for i, m := range []struct {
			name string
			use  func(http.Handler) http.Handler
		}{
			{"CleanPath", chimiddleware.CleanPath},
			{"StripSlashes", chimiddleware.StripSlashes},
			{"URLFormat", chimiddleware.URLFormat},
			{"GetHead", chimiddleware.GetHead},
		} {
			if flags&(1<<i) != 0 {
				names, rewrite = append(names, m.name), append(rewrite, m.use)
			}
		}
		if flags&8 != 0 && flags&2 == 0 {
			names, rewrite = append(names, "RedirectSlashes"), append(rewrite, chimiddleware.RedirectSlashes)
		}
		for number, place := range []string{
			"Use before", "Use behind", "Group", "With", "around", "Mount", "Mount below a prefix", "Use in a Mount", "Use in front of a Mount",
			"around a Mount", "a mux in a Mount", "around a mux that strips a prefix",
		} {
			if flags >= 8 && (flags+number)%4 != 0 {
				continue
			}
			inRoute, glued := (flags+number)%2 != 0, (flags+number)%3 == 0 && (place == "Group" || place == "With" || strings.HasPrefix(place, "Mount"))
			k := kind{name: fmt.Sprintf("chi, %v, %s, in a Route each %v, glued %v", names, place, inRoute, glued), several: true}
			switch number {
			case 6, 7, 8, 9:
				k.prefix = "/of/{id}"
			case 10, 11:
				k.prefix = "/api/v1"
			}
			if place != "Group" && place != "With" && place != "Mount" && place != "Mount below a prefix" {
				k.routes = acrossSegments(table)
			}
			k.build = func(s *site) {
				router := chi.NewRouter()
				s.handler = router
				if place == "Use before" || place == "Use in front of a Mount" {
					router.Use(s.middleware())
				}
				router.Use(rewrite...)
				inner := chi.NewRouter()
				switch place {
				case "Use before":
					s.inChi(router, inRoute, glued)
				case "Use behind":
					router.Use(s.middleware())
					s.inChi(router, inRoute, glued)
				case "Group":
					router.Group(func(r chi.Router) { r.Use(s.middleware()); s.inChi(r, inRoute, glued) })
				case "With":
					s.inChi(router.With(s.middleware()), inRoute, glued)
				case "around":
					s.inChi(router, inRoute, glued)
					s.around(router)
				case "Mount", "Mount below a prefix":
					inner.Group(func(r chi.Router) { r.Use(s.middleware()); s.inChi(r, inRoute, glued) })
					router.Mount(s.prefix+"/", inner)
				case "Use in a Mount":
					inner.Use(s.middleware())
					s.inChi(inner, inRoute, glued)
					router.Mount(s.prefix, inner)
				case "Use in front of a Mount":
					s.inChi(inner, inRoute, glued)
					router.Mount(s.prefix, inner)
				case "around a Mount":
					s.inChi(inner, inRoute, glued)
					router.Mount(s.prefix, inner)
					s.around(router)
				case "a mux in a Mount":
					router.With(s.middleware()).Mount(s.prefix, http.StripPrefix(s.prefix, s.inMux(nil)))
				case "around a mux that strips a prefix":
					s.inChi(router, inRoute, glued)
					s.around(behind(s.prefix, router))
				}
			}
			all = append(all, k)
		}
	}
	return all
}
