package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/cmd/weir/internal/descriptors"
	"github.com/weir-go/ratelimit/internal/redistest"
	"github.com/weir-go/ratelimit/internal/servertest"
)

// envoyPatience is how long a test waits for an event that is certain to come.
const envoyPatience = time.Minute

// envoyConfig is that of a proxy with two listeners, which differ in what happens while the rate limit service does not answer.
var envoyConfig = `
static_resources:
  listeners:
` + listener + `
` + denying + clusters

// clusters are the service behind the proxy, and weir serve.
const clusters = `
  clusters:
    - name: shop
      type: STATIC
      load_assignment:
        cluster_name: shop
        endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: {shop}}}}}]}]
    - name: weir
      type: STATIC
      connect_timeout: 1s
      typed_extension_protocol_options:
        envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
          "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
          explicit_http_config: {http2_protocol_options: {}}
      load_assignment:
        cluster_name: weir
        endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: {weir}}}}}]}]
`

const listener = `
    - address: {socket_address: {address: 127.0.0.1, port_value: {port}}}
      filter_chains:
        - filters:
            - name: envoy.filters.network.http_connection_manager
              typed_config:
                "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
                stat_prefix: shop
                local_reply_config:
                  mappers:
                    - filter: {status_code_filter: {comparison: {op: EQ, value: {default_value: 429, runtime_key: unused}}}}
                      headers_to_add: [{header: {key: x-reason, value: slow-down}}]
                      body: {inline_string: slow down}
                route_config:
                  virtual_hosts:
                    - name: shop
                      domains: ["*"]
                      routes: [{match: {prefix: /}, route: {cluster: shop}}]
                      rate_limits:
                        - actions: [{request_headers: {header_name: x-tenant, descriptor_key: tenant}}]
                        - actions: [{request_headers: {header_name: x-banned, descriptor_key: banned}}]
                        - actions: [{request_headers: {header_name: x-shadow, descriptor_key: shadow}}]
                        - actions: [{request_headers: {header_name: x-quota, descriptor_key: small}}]
                        - actions: [{request_headers: {header_name: x-quota, descriptor_key: large}}]
                        - actions: [{request_headers: {header_name: x-leaky, descriptor_key: leaky}}]
                http_filters:
                  - name: envoy.filters.http.ratelimit
                    typed_config:
                      "@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit
                      domain: shop
                      timeout: 30s
                      failure_mode_deny: false
                      enable_x_ratelimit_headers: DRAFT_VERSION_03
                      rate_limit_service:
                        transport_api_version: V3
                        grpc_service: {envoy_grpc: {cluster_name: weir}}
                  - name: envoy.filters.http.router
                    typed_config:
                      "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
`

const envoyLimits = `
domain: shop
descriptors:
  - {key: tenant, rate_limit: {unit: day, requests_per_unit: 2}}
  - {key: banned, rate_limit: {unit: day, requests_per_unit: 0}}
  - {key: shadow, shadow_mode: yes, rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: small, quota_mode: true, rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: large, quota_mode: true, rate_limit: {unit: day, requests_per_unit: 2}}
  - {key: leaky, rate_limit: {unit: day, requests_per_unit: 1, algorithm: leaky, burst: 3}}
`

// denying is the listener whose requests are denied while the service does not answer.
var denying = strings.NewReplacer("{port}", "{denying}", "failure_mode_deny: false", "failure_mode_deny: true").Replace(listener)

// served is a process of weir serve.
type served struct {
	args      []string
	http      string
	command   *exec.Cmd
	variables []string
}

// serveProcess starts weir serve, and returns when it is healthy.
func (s *served) start(t *testing.T) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s.command = exec.Command(program, append([]string{"serve"}, s.args...)...)
	s.command.Env = append(append(os.Environ(), asProgram+"=1"), s.variables...)
	s.command.Stderr = t.Output()
	if err := s.command.Start(); err != nil {
		t.Fatal(err)
	}
	s.await(t, http.StatusOK)
}

// await waits until the health is a status.
func (s *served) await(t *testing.T, status int) {
	t.Helper()
	for deadline := time.Now().Add(envoyPatience); ; time.Sleep(10 * time.Millisecond) {
		response, err := http.Get("http://" + s.http + "/healthcheck")
		if err == nil {
			_ = response.Body.Close()
			if response.StatusCode == status {
				return
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("weir serve does not come to the health %d: %v", status, err)
		}
	}
}

// kill ends the process without warning.
func (s *served) kill() {
	_ = s.command.Process.Kill()
	_ = s.command.Wait()
}

// proxied is an Envoy that asks weir serve about the requests to a shop.
type proxied struct {
	address string
	weir    *served
	redis   *redistest.Server
	config  string // the file of its limits
}

// behindEnvoy starts all that by a configuration of Envoy, limits, and more arguments and variables of weir serve. In the configuration fill is replaced, too.
func behindEnvoy(t *testing.T, shop http.Handler, configuration, limits string, more served, fill ...string) proxied {
	t.Helper()
	program, redis, dir := servertest.Program(t, "envoy"), redistest.Start(t), t.TempDir()
	server := httptest.NewServer(shop)
	t.Cleanup(server.Close)
	config := filepath.Join(dir, "limits.yaml")
	if err := os.WriteFile(config, []byte(limits), 0o600); err != nil {
		t.Fatal(err)
	}
	port, web := servertest.FreePort(t), "127.0.0.1:"+servertest.FreePort(t)
	weir := &served{http: web, variables: more.variables, args: append([]string{
		"-config", config, "-redis", redis.URL(), "-grpc", "127.0.0.1:" + port, "-http", web, "-debug", "127.0.0.1:0", "-timeout", "5s",
	}, more.args...)}
	weir.start(t)
	t.Cleanup(func() { weir.kill() })
	_, shopPort, _ := net.SplitHostPort(server.Listener.Addr().String())
	address := servertest.Start(t, dir, configuration, func(file string) *exec.Cmd {
		return exec.Command(program, "-c", file, "--disable-hot-restart", "--concurrency", "2", "--log-level", "warn")
	}, append(fill, "{shop}", shopPort, "{weir}", port)...)
	return proxied{address, weir, redis, config}
}

// serves is the shop.
func serves(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "served") }

// TestEnvoy sends requests through a real Envoy that asks weir serve: within limits, over them, with the service killed and started again, and with a Redis
// that hangs.
func TestEnvoy(t *testing.T) {
	closed := servertest.FreePort(t)
	p := behindEnvoy(t, http.HandlerFunc(serves), envoyConfig, envoyLimits, served{variables: []string{"LIMIT_RESPONSE_HEADERS_ENABLED=true"}}, "{denying}", closed)
	address, weir, redis, config := p.address, p.weir, p.redis, p.config
	closed = "127.0.0.1:" + closed

	send := func(to, name, value string, more ...string) *http.Response {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+to+"/", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set(name, value)
		for i := 0; i < len(more); i += 2 {
			request.Header.Set(more[i], more[i+1])
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		return response
	}
	// wants sends a request for each status.
	wants := func(name, value string, statuses ...int) {
		t.Helper()
		for i, want := range statuses {
			if got := send(address, name, value).StatusCode; got != want {
				t.Errorf("request %d with %s: %s is answered %d, want %d", i+1, name, value, got, want)
			}
		}
	}
	comes := func(to string, status int) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), envoyPatience)
		defer cancel()
		for send(to, "X-Tenant", "used-up").StatusCode != status {
			if ctx.Err() != nil {
				t.Fatalf("%s does not answer %d", to, status)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}

	first := send(address, "X-Tenant", "one")
	for name, want := range map[string]string{
		"Ratelimit-Limit": "2", "Ratelimit-Remaining": "1", "X-Ratelimit-Limit": "2, 2;w=86400", "X-Ratelimit-Remaining": "1",
	} {
		if got := first.Header.Get(name); first.StatusCode != http.StatusOK || got != want {
			t.Errorf("%d with %s: %q, want %q", first.StatusCode, name, got, want)
		}
	}
	wants("X-Tenant", "one", 200, 429, 429)
	over := send(address, "X-Tenant", "one")
	if over.Header.Get("X-Envoy-Ratelimited") != "true" || over.Header.Get("Ratelimit-Remaining") != "0" || over.Header.Get("Ratelimit-Reset") == "" {
		t.Errorf("the fields of a denial are %v", over.Header)
	}
	if over.ContentLength != int64(len("slow down")) || over.Header.Get("X-Reason") != "slow-down" || first.Header.Get("X-Reason") != "" {
		t.Errorf("a denial is not answered as local_reply_config says: %d bytes with %v", over.ContentLength, over.Header)
	}
	if got := send(address, "X-Tenant", "two", "X-Banned", "yes").StatusCode; got != http.StatusTooManyRequests {
		t.Errorf("a banned request is answered %d", got)
	}
	wants("X-Tenant", "two", 200, 200, 429) // the banned request was not charged to its tenant
	wants("X-Shadow", "any", 200, 200, 200)
	wants("X-Quota", "any", 200, 200, 429) // the small quota is over in the second request
	wants("X-Leaky", "any", 200, 200, 200, 429)
	wants("X-Tenant", "used-up", 200, 200, 429)

	weir.kill()
	comes(address, http.StatusOK)                 // failure_mode_deny: false
	comes(closed, http.StatusInternalServerError) // failure_mode_deny: true
	weir.start(t)
	comes(address, http.StatusTooManyRequests) // what was used is in Redis
	comes(closed, http.StatusTooManyRequests)

	redis.Pause(t)
	weir.await(t, http.StatusInternalServerError)
	comes(address, http.StatusOK)
	comes(closed, http.StatusInternalServerError)
	redis.Resume(t)
	weir.await(t, http.StatusOK)
	comes(address, http.StatusTooManyRequests)

	if err := os.WriteFile(config, []byte(strings.Replace(envoyLimits, "requests_per_unit: 2", "requests_per_unit: 4", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	for send(address, "X-Tenant", "new").Header.Get("Ratelimit-Limit") != "4" {
		time.Sleep(10 * time.Millisecond) // until the deadline of all tests
	}
	wants("X-Tenant", "one", 200, 200, 429) // two of four were used
}

// TestEnvoyPage wants the files of the page to be ones that weir serve and Envoy read.
func TestEnvoyPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/envoy.md")
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string]string)
	for _, part := range strings.Split(string(page), "```yaml\n# ")[1:] {
		name, rest, _ := strings.Cut(part, "\n")
		files[name], _, _ = strings.Cut(rest, "```")
	}
	limits := files["limits/shop.yaml"]
	config, err := descriptors.Parse([]descriptors.File{{Name: "limits/shop.yaml", Text: []byte(limits)}}, descriptors.Options{})
	if err != nil {
		t.Fatal(err)
	}
	login := []descriptors.Entry{{Key: "path", Value: "/login"}, {Key: "remote_address", Value: "192.0.2.1"}}
	if limit, _ := config.Find("shop", login); limit == nil || limit.Counts.String() != "per-minute: leaky 3, 6/m" {
		t.Errorf("the limit of a login is %+v", limit)
	}
	output, err := exec.CommandContext(t.Context(), servertest.Program(t, "envoy"), "--mode", "validate", "--config-yaml", files["envoy.yaml"]).CombinedOutput()
	if err != nil {
		t.Errorf("Envoy does not read envoy.yaml: %v\n%s", err, output)
	}
}

// TestCheckOfDescriptors: weir check reads the files of weir serve, too.
func TestCheckOfDescriptors(t *testing.T) {
	const file = `
domain: shop
descriptors:
  - {key: tenant, rate_limit: {unit: minute, requests_per_unit: 600, name: all}}
  - {key: tenant, value: partner, shadow_mode: yes, rate_limit: {unit: hour, requests_per_unit: 9, algorithm: leaky, replaces: [{name: all}]}}
  - {key: bill, quota_mode: yes, rate_limit: {unit: month, requests_per_unit: 5, time_zone: UTC}}
  - {key: banned, rate_limit: {unit: day}}
  - {key: free, rate_limit: {unlimited: true, quota_mode: true}}
`
	const want = `standard input makes sense.

shop.tenant: 600 per minute; named "all".
shop.tenant_partner: 9 per hour; per-hour: leaky 9, 9/h; in place of ["all"]; a shadow, which denies no request.
shop.bill: 5 per month; per-month: calendar 5, month@1 UTC; a quota, which denies together with all others.
shop.banned: no request passes.
shop.free: unlimited.
-:8:47: quota_mode has no effect here: it is a key of a descriptor.
`
	if code, out, messages := weir(t, file, "check", "-"); code != 0 || out != want {
		t.Errorf("%d, %s, %s, want %s", code, out, messages, want)
	}
	code, out, _ := weir(t, strings.Replace(file, "unit: hour", "unit: hours", 1), "check", "-json", "-")
	if code != exitFailed || !strings.Contains(out, `"line": 5`) || !strings.Contains(out, `"valid": false`) {
		t.Errorf("%d, %s", code, out)
	}
	if code, _, messages := weir(t, "domain: shop\nlimits: 1\n", "check", "-"); code != exitFailed || !strings.Contains(messages, `-:2:1: unknown key "limits"`) {
		t.Errorf("%d, %s", code, messages)
	}
}

// TestServeSettings: flags go before variables.
func TestServeSettings(t *testing.T) {
	for _, args := range [][]string{
		{"file"},
		{"-on-error", "maybe"},
		{"-timeout", "-1s"},
		{"-drain", "0s"},
		{"-leave", "-1s"},
		{"-over", "2"},
		{"-over", "0.1", "-as-reference"},
		{"-quota-lease", "5s", "-as-reference"},
	} {
		if code, _, messages := weir(t, "", append([]string{"serve"}, args...)...); code != exitUsage {
			t.Errorf("%v ends with %d: %s", args, code, messages)
		}
	}
	bad := filepath.Join(t.TempDir(), "limits.yaml")
	if err := os.WriteFile(bad, []byte("domain: shop\nlimits: none\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, messages := weir(t, "", "serve", "-config", bad, "-redis", "memory:", "-grpc", "127.0.0.1:0", "-http", "127.0.0.1:0", "-debug", "127.0.0.1:0")
	if code != exitInvalid || !strings.Contains(messages, bad+`:2:1: unknown key "limits"`) {
		t.Errorf("files that make no sense end it with %d: %s", code, messages)
	}
	t.Setenv("CONFIG_TYPE", "ETCD")
	if code, _, messages := weir(t, "", "serve"); code != exitUsage || !strings.Contains(messages, "CONFIG_TYPE") {
		t.Errorf("an unknown kind of configuration ends it with %d: %s", code, messages)
	}
}
