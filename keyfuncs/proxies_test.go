package keyfuncs_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-go/ratelimit/internal/servertest"
	"github.com/weir-go/ratelimit/keyfuncs"
)

// The addresses of this machine that play in these tests. The proxy itself is 127.0.0.1.
const (
	client = "127.0.0.2" // who asks the proxy
	edge   = "127.0.0.3" // Cloudflare or another proxy, where it stands in front of the proxy
)

// proxy is a program with the least configuration that makes a proxy of it: "{line}" stands for what docs/keys-and-proxies.md says to write,
// "{upstream}" for the server behind it. That of Traefik is the file of its routers.
type proxy struct {
	programs      []string
	configuration string
	command       func(program, dir, file string) *exec.Cmd
	refuses       string // a line of clients that it answers itself, with 400
}

var realProxies = map[string]proxy{
	"nginx": {
		programs: []string{"nginx"},
		configuration: `daemon off; master_process off; error_log /dev/null; pid {dir}/nginx.pid;
events {}
http {
  access_log off;
  client_body_temp_path {dir}/b; proxy_temp_path {dir}/p; fastcgi_temp_path {dir}/f; uwsgi_temp_path {dir}/u; scgi_temp_path {dir}/s;
  server {
    listen {address};
    {line}
    location / { proxy_pass http://{upstream}; }
  }
}
`,
		command: func(program, dir, file string) *exec.Cmd { return exec.Command(program, "-p", dir, "-c", file) },
	},
	"HAProxy": {
		programs: []string{"haproxy"},
		configuration: `defaults
  mode http
  timeout connect 5s
  timeout client 5s
  timeout server 5s
  {line}
frontend public
  bind {address}
  default_backend api
backend api
  server api {upstream}
`,
		command: func(program, _, file string) *exec.Cmd { return exec.Command(program, "-f", file) },
	},
	"Apache": {
		programs: []string{"apache2", "httpd"},
		configuration: `ServerRoot {dir}
ServerName localhost
Listen {address}
PidFile {dir}/apache.pid
ErrorLog {dir}/error.log
LoadModule mpm_event_module {modules}/mod_mpm_event.so
LoadModule authz_core_module {modules}/mod_authz_core.so
LoadModule proxy_module {modules}/mod_proxy.so
LoadModule proxy_http_module {modules}/mod_proxy_http.so
{line}
`,
		command: func(program, _, file string) *exec.Cmd { return exec.Command(program, "-X", "-f", file) },
	},
	"Caddy": {
		programs: []string{"caddy"},
		configuration: `{
	admin off
	auto_https off
}
http://{address} {
	{line}
}
`,
		command: func(program, dir, file string) *exec.Cmd {
			cmd := exec.Command(program, "run", "--adapter", "caddyfile", "--config", file)
			cmd.Env = append(os.Environ(), "HOME="+dir)
			return cmd
		},
	},
	"Envoy": {
		programs: []string{"envoy"},
		configuration: `static_resources:
  listeners:
  - address: {socket_address: {address: 127.0.0.1, port_value: {port}}}
    filter_chains:
    - filters:
      - name: http
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: http
          {line}
          http_filters:
          - name: router
            typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
          route_config:
            virtual_hosts: [{name: all, domains: ["*"], routes: [{match: {prefix: /}, route: {cluster: api}}]}]
  clusters:
  - name: api
    type: STATIC
    load_assignment:
      cluster_name: api
      endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: {upstream port}}}}}]}]
`,
		command: func(program, _, file string) *exec.Cmd {
			return exec.Command(program, "-c", file, "--concurrency", "1", "--use-dynamic-base-id", "-l", "off")
		},
		refuses: "Connection: X-Forwarded-For",
	},
	"Traefik": {configuration: `http:
  routers: {all: {rule: "PathPrefix(` + "`/`" + `)", service: api}}
  services: {api: {loadBalancer: {servers: [{url: "http://{upstream}"}]}}}
`},
}

// Behind each proxy with the line that the documentation says, the key is the address of who asked the proxy, whatever they have forged.
func TestProxiesAsDocumented(t *testing.T) {
	lines := documented(t)
	for name := range realProxies {
		t.Run(name, func(t *testing.T) {
			line, found := lines[name]
			if !found {
				t.Fatal("docs/keys-and-proxies.md has no line for it")
			}
			upstream := serve(t, keyfuncs.WhoAmI(keyfuncs.IP(keyfuncs.TrustedProxies("127.0.0.1"))))
			address := start(t, name, line, upstream)
			for _, forged := range forgeries {
				want := "key: ip:" + client + "\n"
				if len(forged) == 1 && forged[0] == realProxies[name].refuses {
					want = "Bad Request"
				}
				if got := ask(t, client, address, forged); !strings.HasPrefix(got, want) {
					t.Errorf("with %q the server sees\n%s", forged, got)
				}
			}
		})
	}
}

// nginx behind Cloudflare believes CF-Connecting-IP from Cloudflare alone.
func TestNginxBehindCloudflareAsDocumented(t *testing.T) {
	line := strings.NewReplacer("173.245.48.0/20", edge, "\n", "\n    ").Replace(documented(t)["Cloudflare in front of nginx"])
	if !strings.Contains(line, edge) {
		t.Fatalf("docs/keys-and-proxies.md says %q", line)
	}
	upstream := serve(t, keyfuncs.WhoAmI(keyfuncs.IP(keyfuncs.TrustedProxies("127.0.0.1"))))
	address := start(t, "nginx", line, upstream)
	forged := append([]string{"CF-Connecting-IP: 203.0.113.9"}, forgeries[0]...)
	for from, want := range map[string]string{edge: "203.0.113.9", client: client} {
		if got := ask(t, from, address, forged); !strings.HasPrefix(got, "key: ip:"+want+"\n") {
			t.Errorf("asked by %s, the server sees\n%s", from, got)
		}
	}
}

// Traefik behind another proxy passes on what that one says, and drops what clients say.
func TestTraefikBehindAProxyAsDocumented(t *testing.T) {
	line := strings.NewReplacer("192.0.2.7", edge).Replace(documented(t)["Traefik"])
	upstream := serve(t, keyfuncs.WhoAmI(keyfuncs.IP(keyfuncs.TrustedProxies("127.0.0.1", edge))))
	address := start(t, "Traefik", line, upstream)
	for from, want := range map[string]string{edge: "203.0.113.9", client: client} {
		got := ask(t, from, address, []string{"X-Forwarded-For: 203.0.113.9"})
		if !strings.HasPrefix(got, "key: ip:"+want+"\n") || strings.Contains(got, "203.0.113.9") != (from == edge) {
			t.Errorf("asked by %s, the server sees\n%s", from, got)
		}
	}
}

// Without that line, nginx, HAProxy and Envoy pass on what the client has forged: this is why the line is there.
func TestProxiesThatPassOnWhatClientsSay(t *testing.T) {
	for _, name := range []string{"nginx", "HAProxy", "Envoy"} {
		t.Run(name, func(t *testing.T) {
			upstream := serve(t, keyfuncs.WhoAmI(keyfuncs.IP(keyfuncs.TrustedProxies("127.0.0.1"))))
			address := start(t, name, "", upstream)
			if got := ask(t, client, address, []string{"X-Forwarded-For: 192.0.2.1"}); !strings.HasPrefix(got, "key: ip:192.0.2.1\n") {
				t.Errorf("the server sees\n%s", got)
			}
		})
	}
}

// forgeries are header lines that a client may send.
var forgeries = [][]string{
	{"X-Forwarded-For: 192.0.2.1", "X-Real-IP: 192.0.2.1", "Forwarded: for=192.0.2.1"},
	{"X-Forwarded-For: 192.0.2.1", "X-Forwarded-For: 192.0.2.2, 127.0.0.1"},
	{"X-Forwarded-For: 127.0.0.1"},
	{"X-Forwarded-For: "},
	{"Connection: X-Forwarded-For"},
	nil,
}

// documented returns the first code block below each heading of docs/keys-and-proxies.md's section about proxies.
func documented(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../docs/keys-and-proxies.md")
	if err != nil {
		t.Fatal(err)
	}
	lines := make(map[string]string)
	for part := range strings.SplitSeq(string(text), "\n### ") {
		name, rest, _ := strings.Cut(part, "\n")
		_, rest, found := strings.Cut(rest, "```")
		block, _, _ := strings.Cut(rest, "\n```")
		_, block, _ = strings.Cut(block, "\n") // behind the language
		if found {
			lines[name] = block
		}
	}
	return lines
}

// start starts a proxy in front of a server, and returns its address.
func start(t *testing.T, name, line, upstream string) (address string) {
	t.Helper()
	p := realProxies[name]
	if name == "Traefik" {
		return servertest.Traefik(t, strings.NewReplacer(":80", "{address}").Replace(line), p.configuration, "{upstream}", upstream)
	}
	path := servertest.Program(t, p.programs...)
	_, port, _ := net.SplitHostPort(upstream)
	dir := t.TempDir()
	fill := []string{"{line}", strings.NewReplacer("127.0.0.1:8080", upstream).Replace(line), "{upstream}", upstream, "{upstream port}", port}
	if strings.Contains(p.configuration, "{modules}") {
		fill = append(fill, "{modules}", modules(t, path))
	}
	return servertest.Start(t, dir, p.configuration, func(file string) *exec.Cmd { return p.command(path, dir, file) }, fill...)
}

// modules returns the directory of Apache's modules.
func modules(t *testing.T, program string) string {
	t.Helper()
	for _, place := range []string{"../lib/apache2/modules", "../modules", "../lib/httpd/modules"} {
		dir := filepath.Join(filepath.Dir(program), place)
		if _, err := os.Stat(filepath.Join(dir, "mod_proxy_http.so")); err == nil {
			return dir
		}
	}
	servertest.Missing(t, "Apache's modules are in none of the usual places")
	return ""
}

// serve starts a server until the test ends, and returns its address.
func serve(t *testing.T, handler http.Handler) (address string) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// ask sends a request with some header lines from an address of this machine, and returns the answer.
func ask(t *testing.T, from, address string, lines []string) string {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	transport := &http.Transport{DisableKeepAlives: true, DialContext: dialer.DialContext}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/whoami", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		request.Header.Add(name, value)
	}
	response, err := transport.RoundTrip(request)
	if refused := (*net.OpError)(nil); errors.As(err, &refused) && refused.Op == "dial" && refused.Addr == nil {
		servertest.Missing(t, "this machine has no address "+from+" of its own")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
