package policies_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
	"github.com/weir-go/ratelimit/policies"
)

// A ban of a file never bans one of its own proxies, also if it is enforced for some keys only. One that stands alone is warned of.
func TestABanOfAFileNeverBansItsOwnProxies(t *testing.T) {
	const file = `bans:
  spraying: ban 3, 1m, first 1m, factor 2, longest 1h, forget 1h
policies:
  - ban: spraying
    key: ip trusted 198.51.100.0/24
    strike: {401: 1}
    enforced: 99%
`
	d, err := policies.Parse([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	set, err := d.Set(policies.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	limiter := core.New(core.NewMemory())
	defer limiter.Close()
	h := ratelimit.FromPolicies(limiter, set, guard.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})(
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	for range 5 {
		r := httptest.NewRequest(http.MethodPost, "/login", nil)
		r.RemoteAddr = "198.51.100.1:1"
		r.Header.Set("X-Forwarded-For", "198.51.100.7")
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != http.StatusUnauthorized {
			t.Errorf("answered %d", w.Code)
		}
	}
	for _, warning := range []string{"inside the trusted prefixes", "a ban by response stands alone"} {
		if n := strings.Count(log.String(), warning); n != 1 {
			t.Errorf("%q was logged %d times: %s", warning, n, log.String())
		}
	}
}
