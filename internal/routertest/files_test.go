package routertest

import (
	"bufio"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/labstack/echo/v4"
	echov5 "github.com/labstack/echo/v5"

	"github.com/weir-go/ratelimit/internal/repeatable"
	"github.com/weir-go/ratelimit/internal/servertest"

	ratelimitecho "github.com/weir-go/ratelimit/echo"
	ratelimitechov5 "github.com/weir-go/ratelimit/echo/v5"
	ratelimitgin "github.com/weir-go/ratelimit/gin"
)

// filePaths are those of the files: what is below private is limited, and so is the login of nginx.
var filePaths = []string{"/private/s.txt", "/open/o.txt", "/private/deep/s.txt", "/login"}

// secret is what files below private say.
const secret = "secret"

// directory returns a directory with the files.
func directory(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range filePaths[:3] {
		text := "open"
		if strings.HasPrefix(name, "/private/") {
			text = secret
		}
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// fileSite is a site with the files below a prefix.
type fileSite struct {
	*site

	prefix string
}

func fileSites(t *testing.T) []fileSite {
	dir := directory(t)
	limited := []string{"/private/", "/login"}
	files := func() http.Handler { return http.FileServer(http.Dir(dir)) }

	server := newSite(t, "http.FileServer", limited, nil).around(files())
	mux := http.NewServeMux()
	mux.Handle("/", files())
	inMux := newSite(t, "http.FileServer in a mux", limited, nil).around(mux)
	below := map[string]string{"/private/": "/static/private/"}
	stripped := http.NewServeMux()
	stripped.Handle("/static/", http.StripPrefix("/static", files()))
	inStripped := newSite(t, "http.FileServer below a prefix", limited, below).around(stripped)

	ofGin := newSite(t, "gin's StaticFS", limited, below)
	engine := gin.New()
	engine.Use(ratelimitgin.FromPolicies(ofGin.limiter, ofGin.set, ofGin.options))
	engine.StaticFS("/static", http.Dir(dir))
	ofGin.handler = engine
	aroundGin := newSite(t, "around gin's StaticFS", limited, below).around(engine)

	ofEcho := newSite(t, "echo v4's Static", limited, below)
	e := echo.New()
	e.Use(ratelimitecho.FromPolicies(ofEcho.limiter, ofEcho.set, ofEcho.options))
	e.Static("/static", dir)
	ofEcho.handler = e

	ofEchov5 := newSite(t, "echo v5's Static", limited, below)
	e5 := echov5.New()
	e5.Use(ratelimitechov5.FromPolicies(ofEchov5.limiter, ofEchov5.set, ofEchov5.options))
	e5.StaticFS("/static", os.DirFS(dir))
	ofEchov5.handler = e5

	address := nginx(t, dir)
	toNginx := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: address}) }}
	proxied := newSite(t, "nginx behind a reverse proxy", limited, nil).around(toNginx)
	return []fileSite{
		{server, ""}, {inMux, ""}, {inStripped, "/static"}, {ofGin, "/static"}, {aroundGin, "/static"}, {ofEcho, "/static"}, {ofEchov5, "/static"}, {proxied, ""},
	}
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
    location = /login { return 200 "login"; }
  }
}`
	return servertest.Start(t, t.TempDir(), configuration, func(file string) *exec.Cmd {
		return exec.Command(program, "-c", file)
	}, "{files}", dir)
}

// Whenever a file below a limited prefix is served, or what is limited of an upstream server, the policy of that prefix was met.
func TestNoFileIsServedWithoutItsPolicy(t *testing.T) {
	random := repeatable.Random(t)
	for _, s := range fileSites(t) {
		random := repeatable.Split(random)
		t.Run(s.name, func(t *testing.T) {
			served := 0
			for range *paths {
				path := target(random, filePaths)
				if !strings.HasPrefix(path, "http:") {
					path = s.prefix + path
				}
				text := "GET " + path + " HTTP/1.1\r\nHost: a.test\r\n\r\n"
				r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text)))
				if err != nil {
					continue
				}
				w := httptest.NewRecorder()
				s.serve(w, r)
				switch w.Body.String() {
				case secret:
					s.run("/private/")
				case "login":
					s.run("/login")
				}
				route, met, ran := s.missed()
				if route != "" {
					t.Fatalf("%s: %q serves what is below %s and meets %v, not %s, its policy", s.name, text, route, met, s.policyOf(route))
				}
				if ran {
					served++
				}
			}
			if served < *paths/50 {
				t.Errorf("%d of %d requests were served", served, *paths)
			}
		})
	}
}
