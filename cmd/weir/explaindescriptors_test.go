package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/weir-go/ratelimit/cmd/weir/internal/descriptors"
	"github.com/weir-go/ratelimit/cmd/weir/internal/rls"
	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/redistest"
)

const explainedLimits = `domain: shop
descriptors:
  - key: tenant
    rate_limit: {name: tenants, unit: year, requests_per_unit: 3}
  - key: tenant
    value: partner
    rate_limit: {unit: year, requests_per_unit: 6000}
  - key: path
    value: /login
    descriptors:
      - key: remote_address
        rate_limit: {unit: minute, requests_per_unit: 6, algorithm: leaky, burst: 3}
  - key: path
    value: /files/*
    share_threshold: true
    shadow_mode: true
    rate_limit: {unit: year, requests_per_unit: 1}
  - key: small
    quota_mode: true
    rate_limit: {unit: year, requests_per_unit: 2}
  - key: vip
    rate_limit: {unlimited: true, replaces: [{name: tenants}]}
  - key: banned
    rate_limit: {unit: year, requests_per_unit: 0}
`

// The descriptors of a request meet the limits by the ways that the explanation tells.
func TestExplainDescriptors(t *testing.T) {
	t.Setenv("REDIS_URL", "")
	dir := t.TempDir()
	file := filepath.Join(dir, "shop.yaml")
	if err := os.WriteFile(file, []byte(explainedLimits), 0o600); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/explained-descriptors.txt")
	if err != nil {
		t.Fatal(err)
	}
	args := []string{
		"-domain", "shop", "tenant=a", "tenant=partner", "path=/login,remote_address=1.2.3.4", "path=/files/a\\,b", "small=x", "banned", "path=/login",
		"path=/login,user=7", "path=/",
	}
	code, out, messages := weir(t, "", append([]string{"explain", dir}, args...)...)
	if code != 0 || out != string(want) {
		t.Errorf("exit code %d, %s\n%s", code, messages, out)
	}
	if _, alone, _ := weir(t, "", append([]string{"explain", file}, args...)...); alone != out {
		t.Errorf("the file alone is explained so:\n%s", alone)
	}
	if _, read, _ := weir(t, explainedLimits, append([]string{"explain", "-"}, args[2:]...)...); read != out {
		t.Errorf("standard input is explained so:\n%s", read)
	}
	_, out, _ = weir(t, "", "explain", file, "tenant=a", "vip")
	if !strings.Contains(out, `does not count: the limit of vip takes its place`) || !strings.Contains(out, "one limit counts") {
		t.Errorf("a limit that is replaced is explained so:\n%s", out)
	}
	if _, out, _ := weir(t, "", "explain", file, "-domain", "other", "tenant=a"); !strings.Contains(out, "none: no file has the domain other") {
		t.Errorf("an unknown domain is explained so:\n%s", out)
	}
	for _, args := range [][]string{
		{file}, {file, "=a"}, {file, ""}, {file, "tenant=a,"}, {file, "tenant=a", "-from", "192.0.2.1"}, {file, "tenant=a", "-plan", "paid"},
	} {
		if code, _, messages := weir(t, "", append([]string{"explain"}, args...)...); code != exitUsage {
			t.Errorf("%q: exit code %d, %s", args, code, messages)
		}
	}
	policies := filepath.Join(dir, "policies.yaml")
	for path, text := range map[string]string{policies: "policies:\n  - limit: leaky 10, 1/s\n    key: ip\n", file: explainedLimits + "more: 1\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if code, _, messages := weir(t, "", "explain", policies, "GET /", "-domain", "shop"); code != exitUsage || !strings.Contains(messages, "-domain") {
		t.Errorf("-domain and policies: exit code %d, %s", code, messages)
	}
	if code, _, messages := weir(t, "", "explain", file, "tenant=a"); code != exitInvalid || !strings.Contains(messages, "shop.yaml:25:1") {
		t.Errorf("a file that makes no sense: exit code %d, %s", code, messages)
	}
}

// With a store, the explanation tells what the service would answer, and charges nothing.
func TestExplainDescriptorsAsked(t *testing.T) {
	redis := redistest.Start(t)
	file := filepath.Join(t.TempDir(), "shop.yaml")
	if err := os.WriteFile(file, []byte(explainedLimits), 0o600); err != nil {
		t.Fatal(err)
	}
	config, err := descriptors.Parse([]descriptors.File{{Name: file, Text: []byte(explainedLimits)}}, descriptors.Options{})
	if err != nil {
		t.Fatal(err)
	}
	limiter, err := core.Open(redis.URL(), core.WithBudget(envoyPatience))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = limiter.Close() })
	service := rls.New(limiter, rls.Options{Timeout: envoyPatience})
	service.Use(config)
	charge := func(key, value string) {
		t.Helper()
		if _, err := service.ShouldRateLimit(t.Context(), &pb.RateLimitRequest{Domain: "shop", Descriptors: []*common.RateLimitDescriptor{
			{Entries: []*common.RateLimitDescriptor_Entry{{Key: key, Value: value}}},
		}}); err != nil {
			t.Fatal(err)
		}
	}
	explain := func(wantCode int, args ...string) ExplainedDescriptors {
		t.Helper()
		code, out, messages := weir(t, "", append([]string{"explain", "-json", "-timeout", "1m", "-redis", redis.URL(), file}, args...)...)
		if code != wantCode {
			t.Errorf("%q: exit code %d, want %d: %s%s", args, code, wantCode, out, messages)
		}
		return decode[ExplainedDescriptors](t, out)
	}
	for used := range 3 {
		for range 2 { // to explain charges nothing
			met := explain(0, "tenant=a").Descriptors[0]
			if met.Over || met.Remaining != int64(3-used) || met.Key != "4:shop/6:tenant=1:a" {
				t.Errorf("after %d requests: %+v", used, met)
			}
		}
		charge("tenant", "a")
	}
	denied := explain(exitDenied, "tenant=a", "path=/files/x")
	if met := denied.Descriptors[0]; denied.Status != 429 || !met.Over || met.ResetSeconds <= 0 || denied.Descriptors[1].Over {
		t.Errorf("a limit that is used up: %+v", denied)
	}
	if passes := explain(0, "tenant=a", "vip"); passes.Descriptors[0].Over || passes.Descriptors[0].Reason == "" {
		t.Errorf("a limit that is replaced: %+v", passes)
	}
	charge("path", "/files/x")
	if shadow := explain(0, "path=/files/y").Descriptors[0]; !shadow.Over || !shadow.Shadow || !shadow.Steps[0].Shared {
		t.Errorf("a shadow that all values share: %+v", shadow)
	}
	_, out, _ := weir(t, "", "explain", "-timeout", "1m", "-redis", redis.URL(), file, "tenant=a", "tenant=b", "path=/files/x")
	for _, says := range []string{"is over for ", "passes: 3 left", "is over, and denies nothing", "It would be denied with status 429."} {
		if !strings.Contains(out, says) {
			t.Errorf("it does not say %q:\n%s", says, out)
		}
	}
	redis.Stop(t)
	if code, _, messages := weir(t, "", "explain", "-timeout", "5s", "-redis", redis.URL(), file, "tenant=a"); code != exitFailed {
		t.Errorf("without Redis: exit code %d, %s", code, messages)
	}
}
