package ratelimit_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/weir-go/ratelimit/core"
	ratelimit "github.com/weir-go/ratelimit/gin"
	"github.com/weir-go/ratelimit/policies"
)

// An escaped slash does not lead around a policy, however the engine reads it.
func TestEscapedSlashesMeetPolicies(t *testing.T) {
	d, err := policies.Parse([]byte(`
policies:
  - {match: "POST /api/orders", limit: "leaky 1, 1/h", key: global}
  - {match: "POST /files/{name}", limit: "leaky 1, 1/h", key: method}
`))
	if err != nil {
		t.Fatal(err)
	}
	set, err := d.Set(policies.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, raw := range []bool{false, true} {
		engine := gin.New()
		engine.UseRawPath = raw
		engine.Use(ratelimit.FromPolicies(core.New(core.NewMemory()), set, ratelimit.Options{}))
		served := 0
		serve := func(*gin.Context) { served++ }
		engine.POST("/api/orders", serve)
		engine.POST("/files/:name", serve)
		for _, targets := range [][]string{{"/api/orders", "/api%2Forders", "/%61pi/orders"}, {"/files/a", "/files/a%2Fb", "/files/%61"}} {
			served = 0
			for _, target := range targets {
				engine.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, target, nil))
			}
			if served != 1 {
				t.Errorf("UseRawPath %v: %d of %q are served, want 1", raw, served, targets)
			}
		}
	}
}
