//go:build !race

// A site is sent one request after the other: make test runs it without the race detector, which takes five times as long.

package routertest

import (
	"bytes"
	"math/rand/v2"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/labstack/echo/v4"
	echov5 "github.com/labstack/echo/v5"

	"github.com/weir-go/ratelimit/internal/repeatable"
	"github.com/weir-go/ratelimit/internal/servertest"
)

// files are routes that files and an upstream server stand for: what is below private is limited, and so is the login of nginx.
var files = []route{{pattern: "/private/", path: "/private/s.txt"}, {pattern: "/private/deep/", path: "/private/deep/d.txt"}, {pattern: "/open/", path: "/open/o.txt"}, {pattern: "/login"}}

// directory returns a directory with the files. Each says of which route it is.
func directory(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, of := range files[:3] {
		file := filepath.Join(dir, filepath.FromSlash(of.path))
		if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(of.pattern), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// reading is a response of which it is seen what it has read.
type reading struct {
	http.ResponseWriter

	text bytes.Buffer
}

func (w *reading) Write(text []byte) (int, error) {
	w.text.Write(text)
	return w.ResponseWriter.Write(text)
}

// serving has the site see which files are served.
func (s *site) serving() {
	next := s.handler
	s.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		of := &reading{ResponseWriter: w}
		next.ServeHTTP(of, r)
		for i := range s.routes {
			if of.text.String() == s.routes[i].pattern {
				s.run(r, &s.routes[i])
			}
		}
	})
}

func fileKinds(t *testing.T) []kind {
	dir := directory(t)
	below := func() http.Handler { return http.StripPrefix("/static", http.FileServer(http.Dir(dir))) }
	address := nginx(t, dir)
	toNginx := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: address}) }}
	all := []kind{
		{name: "http.FileServer", build: func(s *site) { s.around(http.FileServer(http.Dir(dir))) }},
		{name: "http.FileServer in a mux", build: func(s *site) {
			mux := http.NewServeMux()
			mux.Handle("/", http.FileServer(http.Dir(dir)))
			s.around(mux)
		}},
		{name: "http.FileServer below a prefix", prefix: "/static", build: func(s *site) {
			mux := http.NewServeMux()
			mux.Handle("/static/", below())
			s.around(mux)
		}},
		{name: "http.FileServer below a wildcard", prefix: "/of/{id}/static", build: func(s *site) {
			mux := http.NewServeMux()
			mux.HandleFunc("/of/{id}/static/{path...}", func(w http.ResponseWriter, r *http.Request) {
				http.ServeFileFS(w, r, os.DirFS(dir), r.PathValue("path"))
			})
			s.around(mux)
		}},
		{name: "gin's StaticFS", prefix: "/static", build: func(s *site) {
			engine := gin.New()
			engine.Use(s.ginMiddleware())
			engine.StaticFS("/static", http.Dir(dir))
			s.handler = engine
		}},
		{name: "around gin's StaticFS", prefix: "/static", build: func(s *site) {
			engine := gin.New()
			engine.StaticFS("/static", http.Dir(dir))
			s.around(engine)
		}},
		{name: "gin's StaticFS in a Group", prefix: "/of/{id}/static", build: func(s *site) {
			engine := gin.New()
			group := engine.Group("/of/:id")
			group.Use(s.ginMiddleware())
			group.GET("/static/*path", func(c *gin.Context) { c.FileFromFS(c.Param("path"), http.Dir(dir)) })
			s.handler = engine
		}},
		{name: "echo v4's Static", prefix: "/static", build: func(s *site) {
			e := echo.New()
			e.Use(s.echoMiddleware())
			e.Static("/static", dir)
			s.handler = e
		}},
		{name: "echo v4, /static*", prefix: "/static", build: func(s *site) {
			e := echo.New()
			e.Use(s.echoMiddleware())
			e.GET("/static*", echo.WrapHandler(below()))
			s.handler = e
		}},
		{name: "echo v4's Static in a Group", prefix: "/of/{id}/static", build: func(s *site) {
			e := echo.New()
			e.Group("/of/:id", s.echoMiddleware()).Static("/static", dir)
			s.handler = e
		}},
		{name: "echo v5's StaticFS", prefix: "/static", build: func(s *site) {
			e := echov5.New()
			e.Use(s.echov5Middleware())
			e.StaticFS("/static", os.DirFS(dir))
			s.handler = e
		}},
		{name: "echo v5, /static*", prefix: "/static", build: func(s *site) {
			e := echov5.New()
			e.Use(s.echov5Middleware())
			e.GET("/static*", echov5.WrapHandler(below()))
			s.handler = e
		}},
		{name: "nginx behind a reverse proxy", build: func(s *site) { s.around(toNginx) }},
		{name: "nginx behind a mux that strips a prefix", prefix: "/api", build: func(s *site) { s.around(behind("/api", toNginx)) }},
	}
	for _, path := range []string{"/static*", "/static/*"} {
		for _, place := range []string{"Group", "With", "Mount"} {
			all = append(all, kind{name: "chi, " + path + ", " + place, prefix: "/static", build: func(s *site) {
				router := chi.NewRouter()
				s.handler = router
				switch place {
				case "Group":
					router.Group(func(r chi.Router) { r.Use(s.middleware()); r.Handle(path, below()) })
				case "With":
					router.With(s.middleware()).Handle(path, below())
				case "Mount":
					router.With(s.middleware()).Mount(strings.TrimSuffix(path, "*"), below())
				}
			}})
		}
	}
	for i := range all {
		build := all[i].build
		all[i].routes, all[i].methods = files, []string{http.MethodGet}
		all[i].build = func(s *site) { build(s); s.serving() }
	}
	return all
}

// nginx starts an nginx that serves a directory, and says who asks for /login.
func nginx(t *testing.T, dir string) (address string) {
	t.Helper()
	program := servertest.Program(t, "nginx")
	const configuration = `daemon off; master_process off; error_log /dev/null; pid {dir}/nginx.pid;
events {}
http {
  access_log off; keepalive_requests 100000000;
  client_body_temp_path {dir}/b; proxy_temp_path {dir}/p; fastcgi_temp_path {dir}/f; uwsgi_temp_path {dir}/u; scgi_temp_path {dir}/s;
  server {
    listen {address};
    root {files};
    location = /login { return 200 "/login"; }
  }
}`
	return servertest.Start(t, t.TempDir(), configuration, func(file string) *exec.Cmd {
		return exec.Command(program, "-c", file)
	}, "{files}", dir)
}

// Whenever a file below a limited prefix is served, or what is limited of an upstream server, the policy of that prefix was met.
func TestNoFileIsServedWithoutItsPolicy(t *testing.T) {
	random := repeatable.Random(t)
	for _, k := range fileKinds(t) {
		random := repeatable.Split(random)
		t.Run(k.name, func(t *testing.T) {
			k.rounds(t, random, func(s *site, requests int) { s.sendAll(random, requests) })
		})
	}
}

// sendAll sends requests in this process.
func (s *site) sendAll(random *rand.Rand, requests int) {
	for range requests {
		method, path, host := s.request(random)
		s.send(method, inForm(random, path, host), host)
	}
}
