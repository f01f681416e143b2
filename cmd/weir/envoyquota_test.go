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

	"github.com/weir-go/ratelimit/internal/redistest"
	"github.com/weir-go/ratelimit/internal/servertest"
)

// quotaConfig is that of a proxy with the filter for quotas, which asks whether its connection still is five times a second.
//
//nolint:dupword // Envoy has one name for two fields, one inside the other
const quotaConfig = `
admin: {address: {socket_address: {address: 127.0.0.1, port_value: {admin}}}}
static_resources:
  listeners:
    - address: {socket_address: {address: 127.0.0.1, port_value: {port}}}
      filter_chains:
        - filters:
            - name: envoy.filters.network.http_connection_manager
              typed_config:
                "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
                stat_prefix: shop
                route_config:
                  virtual_hosts: [{name: shop, domains: ["*"], routes: [{match: {prefix: /}, route: {cluster: shop}}]}]
                http_filters:
                  - name: envoy.filters.http.rate_limit_quota
                    typed_config:
                      "@type": type.googleapis.com/envoy.extensions.filters.http.rate_limit_quota.v3.RateLimitQuotaFilterConfig
                      domain: shop
                      rlqs_server: {envoy_grpc: {cluster_name: weir}}
                      bucket_matchers:
                        matcher_list:
                          matchers:
                            - predicate:
                                single_predicate:
                                  input:
                                    name: request-headers
                                    typed_config:
                                      "@type": type.googleapis.com/envoy.type.matcher.v3.HttpRequestHeaderMatchInput
                                      header_name: x-tenant
                                  value_match: {safe_regex: {google_re2: {}, regex: ".+"}}
                              on_match:
                                action:
                                  name: bucket
                                  typed_config:
                                    "@type": type.googleapis.com/envoy.extensions.filters.http.rate_limit_quota.v3.RateLimitQuotaBucketSettings
                                    bucket_id_builder:
                                      bucket_id_builder:
                                        tenant:
                                          custom_value:
                                            name: tenant
                                            typed_config:
                                              "@type": type.googleapis.com/envoy.type.matcher.v3.HttpRequestHeaderMatchInput
                                              header_name: x-tenant
                                    reporting_interval: 0.25s
                                    no_assignment_behavior: {fallback_rate_limit: {blanket_rule: DENY_ALL}}
                  - name: envoy.filters.http.router
                    typed_config:
                      "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
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
          explicit_http_config: {http2_protocol_options: {connection_keepalive: {interval: 0.2s, timeout: 30s}}}
      load_assignment:
        cluster_name: weir
        endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: {weir}}}}}]}]
`

// TestEnvoyQuota sends requests through a real Envoy with the filter for quotas: none passes before the first assignment, then as many as the limit has,
// and no more, over several assignments.
func TestEnvoyQuota(t *testing.T) {
	program := envoyProgram(t)
	redis := redistest.Start(t)
	shop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "served") }))
	t.Cleanup(shop.Close)
	dir := t.TempDir()
	config := filepath.Join(dir, "limits.yaml")
	const limits = "domain: shop\ndescriptors:\n  - {key: tenant, rate_limit: {unit: day, requests_per_unit: 40}}\n"
	if err := os.WriteFile(config, []byte(limits), 0o600); err != nil {
		t.Fatal(err)
	}
	port, web := freePort(t), "127.0.0.1:"+freePort(t)
	weir := &served{http: web, args: []string{
		"-config", config, "-redis", redis.URL(), "-grpc", "127.0.0.1:" + port, "-http", web, "-debug", "127.0.0.1:0", "-timeout", "5s", "-quota-lease", "3s",
	}}
	weir.start(t)
	t.Cleanup(func() { weir.kill() })
	_, shopPort, _ := net.SplitHostPort(shop.Listener.Addr().String())
	admin := freePort(t)
	address := servertest.Start(t, dir, quotaConfig, func(file string) *exec.Cmd {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return exec.Command(program, "--config-yaml", string(text), "--disable-hot-restart", "--concurrency", "2", "--log-level", "warn")
	}, "{shop}", shopPort, "{weir}", port, "{admin}", admin)

	get := func(url, tenant string) (int, string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("X-Tenant", tenant)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = response.Body.Close() }()
		text, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, string(text)
	}
	if status, _ := get("http://"+address+"/", "one"); status != http.StatusTooManyRequests {
		t.Errorf("before the first assignment a request is answered %d", status)
	}
	ctx, cancel := context.WithTimeout(t.Context(), envoyPatience)
	defer cancel()
	passed := 0
	for passed < 40 && ctx.Err() == nil {
		if status, _ := get("http://"+address+"/", "one"); status == http.StatusOK {
			passed++
		}
		time.Sleep(10 * time.Millisecond) // the proxy reports four times a second
	}
	if passed != 40 {
		t.Fatalf("%d of 40 requests pass", passed)
	}
	for range 200 {
		if status, _ := get("http://"+address+"/", "one"); status == http.StatusOK {
			t.Error("a request beyond the limit passes")
		}
		time.Sleep(10 * time.Millisecond)
	}
	for {
		if status, _ := get("http://"+address+"/", "two"); status == http.StatusOK || ctx.Err() != nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if ctx.Err() != nil {
		t.Error("no request of another tenant passes")
	}
	_, stats := get("http://127.0.0.1:"+admin+"/stats?filter=cluster.weir.upstream_cx_total", "")
	if !strings.Contains(stats, "cluster.weir.upstream_cx_total: 1\n") {
		t.Errorf("the connection has not stayed, though Envoy has only asked whether it is: %s", stats)
	}
}
