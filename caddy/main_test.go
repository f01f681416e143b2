package caddyratelimit

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddytest"
)

// patience is how long a test waits for an event that is certain to come.
const patience = 3 * time.Minute

// adminPort is where the Caddy of this process is configured.
var adminPort int

// Caddy keeps its files in a directory of the tests. It runs before the first of them: caddytest would wait ten seconds for it, and leave the tests out.
func TestMain(m *testing.M) {
	directory, err := os.MkdirTemp("", "caddy")
	if err != nil {
		panic(err)
	}
	for _, name := range []string{"HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"} {
		if err := os.Setenv(name, directory); err != nil {
			panic(err)
		}
	}
	adminPort = freePort()
	if err := caddy.Load(fmt.Appendf(nil, `{"admin": {"listen": "localhost:%d"}}`, adminPort), true); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(directory)
	os.Exit(code)
}

// freePort returns a port that nobody listens on, below those that systems give to connections: none takes it before Caddy listens.
func freePort() int {
	for {
		port := 20_000 + rand.IntN(12_000)
		if listener, err := net.Listen("tcp", fmt.Sprintf(":%d", port)); err == nil {
			_ = listener.Close()
			return port
		}
	}
}

// site is what the Caddy of this process serves.
type site struct {
	t      *testing.T
	tester *caddytest.Tester
	port   int
}

// serve has Caddy serve a site, the directives of which are given, until the test ends.
func serve(t *testing.T, directives string) *site {
	t.Helper()
	s := &site{t: t, port: freePort()}
	s.tester = caddytest.NewTester(t).WithDefaultOverrides(caddytest.Config{AdminPort: adminPort, TestRequestTimeout: patience, LoadRequestTimeout: patience})
	s.reload(directives)
	t.Cleanup(func() {
		s.tester.Client.CloseIdleConnections()
		s.load("")
	})
	return s
}

// reload replaces the directives of the site.
func (s *site) reload(directives string) {
	s.t.Helper()
	s.load(fmt.Sprintf("http://127.0.0.1:%d, http://*.test:%d {\n%s\n}", s.port, s.port, directives))
}

// load replaces the configuration.
func (s *site) load(sites string) {
	s.t.Helper()
	s.tester.InitServer(global()+sites, "caddyfile")
}

// extra are global options of a server.
var extra string

func global() string {
	return fmt.Sprintf("{\n\tadmin localhost:%d\n\tservers {\n\t\tprotocols h1 h2c\n%s\n\t}\n}\n", adminPort, extra)
}

// get asks for a path with some lines of a header.
func (s *site) get(path string, lines ...string) (int, string, http.Header) {
	s.t.Helper()
	return s.ask(s.tester.Client, path, lines...)
}

func (s *site) ask(client *http.Client, path string, lines ...string) (int, string, http.Header) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d", s.port), http.NoBody)
	if err != nil {
		s.t.Fatal(err)
	}
	r.URL.Opaque = path // as it is written
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	response, err := client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	return s.read(response)
}

func (s *site) read(response *http.Response) (int, string, http.Header) {
	s.t.Helper()
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return response.StatusCode, string(body), response.Header
}

// raw sends a request for a target and a host that clients of net/http do not send, with a line of its header.
func (s *site) raw(target, host, line string) (int, string, http.Header) {
	s.t.Helper()
	return s.rawBy(http.MethodGet, target, host, line)
}

func (s *site) rawBy(method, target, host, line string) (int, string, http.Header) {
	s.t.Helper()
	conn, err := (&net.Dialer{}).DialContext(s.t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", s.port))
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		s.t.Fatal(err)
	}
	if _, err := fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost:%s\r\n%s\r\nConnection: close\r\n\r\n", method, target, host, line); err != nil {
		s.t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return s.read(response)
}

// want asks for a path, and wants a status.
func (s *site) want(status int, path string, lines ...string) {
	s.t.Helper()
	if got, body, _ := s.get(path, lines...); got != status {
		s.t.Errorf("%s with %q: %d, want %d: %s", path, lines, got, status, body)
	}
}

// adapted returns the JSON of a Caddyfile.
func adapted(caddyfile string) ([]byte, error) {
	text, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(caddyfile), nil)
	return text, err
}

// eventually waits until something is so.
func eventually(t *testing.T, name string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not after %v", name, patience)
		}
	}
}
