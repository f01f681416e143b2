package main

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/internal/servertest"
)

// quotaConfig is that of a proxy with the filter for quotas, which asks whether its connection still is five times a second.
//
//nolint:dupword // Envoy has one name for two fields, one inside the other
var quotaConfig = `
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
` + keptAlive

// keptAlive are the clusters with a connection to weir serve that is asked whether it still is.
var keptAlive = strings.Replace(clusters, "http2_protocol_options: {}", "http2_protocol_options: {connection_keepalive: {interval: 0.2s, timeout: 30s}}", 1)

// TestEnvoyQuota sends requests through a real Envoy with the filter for quotas: none passes before the first assignment, then as many as the limit has,
// and no more, over several assignments.
func TestEnvoyQuota(t *testing.T) {
	const limits = "domain: shop\ndescriptors:\n  - {key: tenant, rate_limit: {unit: day, requests_per_unit: 40}}\n"
	admin := servertest.FreePort(t)
	p := behindEnvoy(t, http.HandlerFunc(serves), quotaConfig, limits, served{args: []string{"-quota-lease", "3s"}}, "{admin}", admin)
	address := p.address
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
