package forward_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/cmd/weir/internal/forward"
	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/internal/redistest"
	"github.com/weir-go/ratelimit/internal/servertest"
)

// The addresses of this machine that play in these tests. The proxies are 127.0.0.1.
const (
	local  = "127.0.0.1"
	client = "127.0.0.2" // who asks the proxies
)

// blocks returns the blocks of docs/forward-auth.md in a language that stand below a heading, or, for "", above the first one.
func blocks(t *testing.T, heading, language string) (found []string) {
	t.Helper()
	text, err := os.ReadFile("../../../../docs/forward-auth.md")
	if err != nil {
		t.Fatal(err)
	}
	for i, part := range strings.Split(string(text), "\n## ") {
		title, body, _ := strings.Cut(part, "\n")
		if i == 0 {
			title = ""
		}
		if title != heading {
			continue
		}
		for _, block := range strings.Split(body, "\n```"+language+"\n")[1:] {
			block, _, _ = strings.Cut(block, "\n```\n")
			found = append(found, block+"\n")
		}
	}
	if len(found) == 0 {
		t.Fatalf("docs/forward-auth.md has no block of %s below %q", language, heading)
	}
	return found
}

// service starts the service behind the proxies, which says which target it has read.
func service(t *testing.T) (address string) {
	t.Helper()
	return listen(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Read", r.RequestURI)
		if r.URL.Path == "/forbidden" {
			w.WriteHeader(http.StatusForbidden)
		}
		_, _ = fmt.Fprintln(w, "served")
	}))
}

// decider starts a server that proxies ask, with the policies of a text, as weir serve does.
func decider(t *testing.T, limiter *core.Limiter, text string) (address string) {
	t.Helper()
	h, err := forward.New(limiter, quiet(nil), setOf(t, text), local)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/check", h)
	mux.Handle("/check/nginx", h.AuthRequest())
	return listen(t, mux)
}

func listen(t *testing.T, h http.Handler) (address string) {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// nginx starts nginx with the documented configuration, and with more of it in the server.
func nginx(t *testing.T, weir, service string, more ...string) (address string) {
	t.Helper()
	program, dir := servertest.Program(t, "nginx"), t.TempDir()
	documented := strings.NewReplacer("listen 80;", "listen {address};", "127.0.0.1:8080", weir, "127.0.0.1:3000", service,
		"\n  location / {", "\n  "+strings.Join(more, "\n  ")+"\n  location / {").Replace(blocks(t, "nginx", "nginx")[0])
	return servertest.Start(t, dir, `daemon off; master_process off; error_log {dir}/error.log; pid {dir}/nginx.pid;
events {}
http {
  access_log off;
  client_body_temp_path {dir}/b; proxy_temp_path {dir}/p; fastcgi_temp_path {dir}/f; uwsgi_temp_path {dir}/u; scgi_temp_path {dir}/s;
`+documented+"}\n", func(file string) *exec.Cmd { return exec.Command(program, "-p", dir, "-c", file) })
}

// caddy starts Caddy with one of the documented configurations.
func caddy(t *testing.T, which int, weir, service string) (address string) {
	t.Helper()
	program, dir := servertest.Program(t, "caddy"), t.TempDir()
	documented := strings.NewReplacer("http://:80 {", "http://:{port} {\n\tbind 127.0.0.1", "127.0.0.1:8080", weir, "127.0.0.1:3000", service).Replace(blocks(t, "Caddy", "caddy")[which])
	return servertest.Start(t, dir, "{\n\tadmin off\n\tauto_https off\n}\n"+documented, func(file string) *exec.Cmd {
		cmd := exec.Command(program, "run", "--adapter", "caddyfile", "--config", file)
		cmd.Env = append(os.Environ(), "HOME="+dir)
		return cmd
	})
}

// traefik starts Traefik with the documented configuration.
func traefik(t *testing.T, weir, service string) (address string) {
	t.Helper()
	documented := strings.NewReplacer("127.0.0.1:8080", weir, "127.0.0.1:3000", service).Replace(blocks(t, "Traefik", "yaml")[0])
	return servertest.Traefik(t, `entryPoints: {web: {address: "{address}"}}`, documented)
}

// send writes a request to a proxy from the client's address, as it stands, and returns the answer.
func send(t *testing.T, proxy, method, uri string, lines ...string) *http.Response {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(client)}, Timeout: time.Minute}
	conn, err := dialer.DialContext(t.Context(), "tcp", proxy)
	if err != nil {
		servertest.Missing(t, "this machine has no address "+client+" of its own: "+err.Error())
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	lines = append([]string{method + " " + uri + " HTTP/1.1", "Host: example.com", "Connection: close"}, lines...)
	_, _ = fmt.Fprintf(conn, "%s\r\n\r\n", strings.Join(lines, "\r\n"))
	response, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		t.Fatalf("%s %s: %v", method, uri, err)
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, uri, err)
	}
	response.Body = io.NopCloser(strings.NewReader(string(body)))
	return response
}

// roomy is the documented file with limits that no test here reaches.
func roomy(t *testing.T) string {
	return strings.NewReplacer("leaky 20, 5/s", "leaky 2000, 5/s", "fixed-window 5, 1m", "fixed-window 2000, 1m").Replace(blocks(t, "", "yaml")[0])
}

// forgeries are fields by which a client might choose what is checked.
var forgeries = []string{
	"X-Forwarded-Method: GET", "X-Forwarded-Uri: /", "X-Forwarded-Host: elsewhere.example", "X-Forwarded-For: 192.0.2.1", "X_Forwarded_Uri: /", "X_Forwarded_For: 192.0.2.1",
	"Forwarded: for=192.0.2.1", "X-Real-IP: 192.0.2.1", "Connection: X-Forwarded-For, X-Forwarded-Uri, X-Forwarded-Method, X-Forwarded-Host",
	"X-Original-URI: /", "X-Original-Method: GET", "Cache-Control: only-if-cached",
}

// Three proxies with two servers that they ask, and one Redis: there is one counter, and each proxy gives the client the whole denial.
func TestOneCounterBehindAllProxies(t *testing.T) {
	redis, text, service := redistest.Start(t), blocks(t, "", "yaml")[0], service(t)
	open := func() *core.Limiter {
		limiter, err := core.Open(redis.URL(), core.WithBudget(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = limiter.Close() })
		return limiter
	}
	first, second := decider(t, open(), text), decider(t, open(), text)
	proxies := map[string]string{
		"nginx": nginx(t, first, service), "Caddy": caddy(t, 0, second, service), "Caddy's short form": caddy(t, 1, first, service), "Traefik": traefik(t, second, service),
	}
	passed := 0
	for range 3 {
		for name, proxy := range proxies {
			response := send(t, proxy, "POST", "/login", append([]string{"Content-Length: 3"}, append(forgeries, "", "a=1")...)...)
			switch response.StatusCode {
			case http.StatusOK:
				passed++
				tells := name == "nginx" || name == "Caddy"
				if got := met(response); tells && !slices.Equal(got, []string{"everybody", "logins"}) {
					t.Errorf("%s tells of %q: %v", name, got, response.Header)
				}
			case http.StatusTooManyRequests:
				var problem guard.Problem
				if err := json.NewDecoder(response.Body).Decode(&problem); err != nil || !slices.Equal(problem.ViolatedPolicies, []string{"logins"}) {
					t.Errorf("%s: the problem is %+v, %v", name, problem, err)
				}
				h := response.Header
				if h.Get("Retry-After") == "" || h.Get("RateLimit-Policy") == "" || h.Get("Content-Type") != guard.ProblemType || h.Get("Cache-Control") != "no-store" ||
					!slices.Contains(met(response), "logins") {
					t.Errorf("%s: the fields are %v", name, h)
				}
			default:
				t.Errorf("%s answers %d: %v", name, response.StatusCode, response.Header)
			}
		}
	}
	if passed != 5 {
		t.Errorf("%d logins passed, want 5", passed)
	}
	limiter := open()
	decision, err := limiter.Peek(t.Context(), "ip:"+client, core.FixedWindow(5, time.Minute).Named("logins"))
	if err != nil || decision.Remaining != 0 {
		t.Errorf("the counter of %s has %d left, %v", client, decision.Remaining, err)
	}
}

// However a client writes the target, no real proxy passes it on without the policy that it may mean.
func TestNoSpellingLeadsAroundAPolicyBehindProxies(t *testing.T) {
	weir, service := decider(t, memory(t), roomy(t)), service(t)
	for name, proxy := range map[string]string{"nginx": nginx(t, weir, service), "Caddy": caddy(t, 0, weir, service)} {
		served := 0
		for _, uri := range tricks {
			for _, lines := range [][]string{nil, forgeries} {
				response := send(t, proxy, "POST", uri, append(slices.Clone(lines), "Content-Length: 0")...)
				if response.Header.Get("X-Read") == "" {
					continue
				}
				served++
				if !slices.Contains(met(response), "logins") {
					t.Errorf("%s passes %q on as %s, and tells of %q", name, uri, response.Header.Get("X-Read"), met(response))
				}
			}
		}
		if served < len(tricks) {
			t.Errorf("%s has passed on %d requests only", name, served)
		}
	}
}

// Traefik tells the client nothing of a request that passes. So the logins are used up here, and no spelling of their path is served.
func TestNoSpellingLeadsAroundAPolicyBehindTraefik(t *testing.T) {
	text := strings.NewReplacer("leaky 20, 5/s", "leaky 2000, 5/s", "fixed-window 5, 1m", "fixed-window 1, 1000h").Replace(blocks(t, "", "yaml")[0])
	proxy := traefik(t, decider(t, memory(t), text), service(t))
	if response := send(t, proxy, "POST", "/login", "Content-Length: 0"); response.Header.Get("X-Read") != "/login" {
		t.Fatalf("the first login is answered with %d", response.StatusCode)
	}
	denied := 0
	for _, uri := range tricks {
		for _, lines := range [][]string{nil, forgeries} {
			response := send(t, proxy, "POST", uri, append(slices.Clone(lines), "Content-Length: 0")...)
			if read := response.Header.Get("X-Read"); read != "" {
				t.Errorf("%q is passed on as %s", uri, read)
			}
			if response.StatusCode == http.StatusTooManyRequests {
				denied++
			}
		}
	}
	if denied < len(tricks) {
		t.Errorf("%d requests have been denied only", denied)
	}
}

// steady is a file of which the usage does not drain while a test runs.
const steady = `
limits:
  everybody: fixed-window 1000, 1h
policies:
  - limit: everybody
    key: ip
`

// The service's own 403 is no denial, the check has no address of its own for clients, and a request that nginx redirects within itself is charged once.
func TestNginxAsDocumented(t *testing.T) {
	limiter, dir := memory(t), t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "index.html"), []byte("static\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	address := nginx(t, decider(t, limiter, steady), service(t), "location /static/ { alias "+dir+"/; index index.html; }")
	used := func() int {
		t.Helper()
		decision, err := limiter.Peek(t.Context(), "ip:"+client, core.FixedWindow(1000, time.Hour).Named("everybody"))
		if err != nil {
			t.Fatal(err)
		}
		return 1000 - decision.Remaining
	}
	if response := send(t, address, "GET", "/forbidden"); response.StatusCode != http.StatusForbidden || response.Header.Get("X-Read") == "" {
		t.Errorf("the service's 403 comes as %d, %v", response.StatusCode, response.Header)
	}
	if response := send(t, address, "GET", "/weir"); response.StatusCode != http.StatusNotFound || response.Header.Get("X-Read") != "" {
		t.Errorf("the check answers clients with %d", response.StatusCode)
	}
	before := used()
	response := send(t, address, "GET", "/static/")
	if body, _ := io.ReadAll(response.Body); string(body) != "static\n" || used() != before+1 {
		t.Errorf("a request for a directory is answered with %d %s, and charged %d times", response.StatusCode, body, used()-before)
	}
	before = used()
	response = send(t, address, "POST", "/", "Transfer-Encoding: chunked", "Content-Type: application/grpc", "", "3\r\na=1\r\n0")
	if response.StatusCode != http.StatusOK || used() != before+1 {
		t.Errorf("a chunked request is answered with %d, and charged %d times", response.StatusCode, used()-before)
	}
}

// Lists, bans and stores that do not answer have their own answers, and nginx gives them to the client as the others do.
func TestOtherDenialsBehindProxies(t *testing.T) {
	redis := redistest.Start(t)
	limiter, err := core.Open(redis.URL(), core.WithBudget(20*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = limiter.Close() })
	redis.Stop(t)
	for text, want := range map[string]struct {
		status int
		title  string
	}{
		"lists:\n  deny: [" + client + "]\n" + steady[1:]:               {http.StatusForbidden, "Forbidden"},
		strings.TrimRight(steady[1:], "\n") + "\n    onError: closed\n": {http.StatusServiceUnavailable, "temporary server capacity"},
		steady[1:]: {http.StatusOK, "served"},
	} {
		weir, service := decider(t, limiter, text), service(t)
		for name, proxy := range map[string]string{"nginx": nginx(t, weir, service), "Caddy": caddy(t, 0, weir, service), "Traefik": traefik(t, weir, service)} {
			response := send(t, proxy, "GET", "/")
			body, _ := io.ReadAll(response.Body)
			if response.StatusCode != want.status || !strings.Contains(string(body), want.title) || (want.status == 503) != (response.Header.Get("Retry-After") != "") {
				t.Errorf("%s answers %d %s %v, want %d", name, response.StatusCode, body, response.Header, want.status)
			}
		}
	}
}

// While nobody decides, each proxy does as the documentation says.
func TestProxiesWithoutWeir(t *testing.T) {
	weir, service := "127.0.0.1:1", service(t)
	for proxy, want := range map[string]int{nginx(t, weir, service): 200, caddy(t, 0, weir, service): 502, caddy(t, 1, weir, service): 502, traefik(t, weir, service): 500} {
		if response := send(t, proxy, "GET", "/"); response.StatusCode != want {
			t.Errorf("%d, want %d", response.StatusCode, want)
		}
	}
}
