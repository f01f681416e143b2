package main

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-go/ratelimit/internal/redistest"
	"github.com/weir-go/ratelimit/internal/servertest"
)

// grpcClients returns the directory of clients of gRPC, which make test installs.
func grpcClients(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	directory := filepath.Join(cache, "weir-test", "grpc-clients-1")
	if _, err := os.Stat(directory); err != nil {
		servertest.Missing(t, "there are no clients of gRPC: make clients installs them")
	}
	return directory
}

// TestOtherClients: clients of other hands ask weir serve. A hundred requests at once by grpc-js pass as often as the limit says, and grpcurl finds the
// service, its messages and its health by reflection.
func TestOtherClients(t *testing.T) {
	clients := grpcClients(t)
	limits := filepath.Join(t.TempDir(), "limits.yaml")
	if err := os.WriteFile(limits, []byte("domain: shop\ndescriptors:\n  - {key: tenant, rate_limit: {unit: day, requests_per_unit: 30}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	address, web := "127.0.0.1:"+servertest.FreePort(t), "127.0.0.1:"+servertest.FreePort(t)
	weir := &served{http: web, args: []string{
		"-config", limits, "-redis", redistest.Shared(t).URL(), "-prefix", redistest.Prefix(t), "-timeout", "1m",
		"-grpc", address, "-http", web, "-debug", "127.0.0.1:0",
	}}
	weir.start(t)
	t.Cleanup(weir.kill)

	script := exec.CommandContext(t.Context(), servertest.Program(t, "node"), "testdata/clients/ask.js", address, "shop", "tenant", "a")
	script.Env = append(os.Environ(), "NODE_PATH="+filepath.Join(clients, "node_modules"))
	script.Stderr = t.Output()
	output, err := script.Output()
	var counts map[string]int
	if err == nil {
		err = json.Unmarshal(output, &counts)
	}
	if want := map[string]int{"OK": 30, "OVER_LIMIT": 70}; err != nil || !maps.Equal(counts, want) {
		t.Errorf("grpc-js: %v, %v, want %v", counts, err, want)
	}

	for _, c := range []struct {
		says string
		args []string
	}{
		{"envoy.service.ratelimit.v3.RateLimitService", []string{address, "list"}},
		{"hits_addend", []string{address, "describe", "envoy.service.ratelimit.v3.RateLimitRequest"}},
		{`"SERVING"`, []string{address, "grpc.health.v1.Health/Check"}},
		{`"OVER_LIMIT"`, []string{
			"-d", `{"domain": "shop", "descriptors": [{"entries": [{"key": "tenant", "value": "a"}]}]}`,
			address, "envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit",
		}},
	} {
		output, err := exec.CommandContext(t.Context(), filepath.Join(clients, "grpcurl"), append([]string{"-plaintext"}, c.args...)...).CombinedOutput()
		if err != nil || !strings.Contains(string(output), c.says) {
			t.Errorf("grpcurl %q: %v, without %s: %s", c.args, err, c.says, output)
		}
	}
}
