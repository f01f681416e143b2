package policies

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
)

// A file shares a limit among tenants, with weights by plan.
func TestAFileSharesALimit(t *testing.T) {
	const text = `limits: {gpu: "leaky 12, 12/h"}
policies:
  - {limit: gpu, key: global, share: header X-Tenant, weight: {pro: 5, "*": 1}}
`
	set := setOf(t, text, Options{Plan: func(r *http.Request) string { return r.Header.Get("X-Plan") }})
	limiter := core.New(core.NewMemory())
	t.Cleanup(func() { _ = limiter.Close() })
	h := ratelimit.FromPolicies(limiter, set, guard.Options{})(fine)
	for i, c := range []struct {
		tenant, plan string
		want         string // of the tenant's share
	}{
		{"a", "", "r=10"}, {"a", "", "r=8"}, {"b", "free", "r=8"}, {"a", "pro", "r=8"}, {"a", "", "r=3"},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
		r.Header.Set("X-Tenant", c.tenant)
		r.Header.Set("X-Plan", c.plan)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if _, got, _ := strings.Cut(w.Header().Get("Ratelimit"), `"gpu-share";`); !strings.HasPrefix(got, c.want) {
			t.Errorf("request %d: %d, RateLimit %s, want %s", i, w.Code, w.Header().Get("Ratelimit"), c.want)
		}
	}
	d := parsed(t, text)
	again := parsed(t, d.String())
	if again.String() != d.String() || !strings.Contains(d.String(), "share: header X-Tenant") || again.Policies[0].WeightByPlan["pro"] != 5 {
		t.Errorf("written as\n%s", d)
	}
}

// A share that makes no sense is an error at its field.
func TestSharesWithoutSense(t *testing.T) {
	for fields, want := range map[string]string{
		"weight: 2":                                "share",
		"share: header X-Tenant, weight: 1001":     "from 1 to 1000",
		"share: header X-Tenant, weight: {a: 0}":   "from 1 to 1000",
		"share: header X-Tenant, weight: {}":       "weight",
		"share: header":                            "header",
		"share: header X-Tenant, weight: {pro: 2}": "Plan",
	} {
		d, err := Parse([]byte("policies: [{limit: 'leaky 12, 1/s', key: global, " + fields + "}]\n"))
		if err == nil {
			_, err = d.Set(Options{})
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", fields, err, want)
		}
	}
	d, err := Parse([]byte("policies: [{firstOf: [{limit: 'leaky 12, 1/s'}], key: global, share: header X-Tenant}]\n"))
	if err == nil {
		_, err = d.Set(Options{})
	}
	if err == nil || !strings.Contains(err.Error(), "do not go with firstOf") {
		t.Errorf("of alternatives: %v", err)
	}
	d, err = Parse([]byte("policies: [{limit: 'fixed-window 12, 1h', key: global, share: header X-Tenant}]\n"))
	if err == nil {
		_, err = d.Set(Options{})
	}
	if err == nil || !strings.Contains(err.Error(), "leaky bucket or a token bucket") {
		t.Errorf("of a window: %v", err)
	}
}
