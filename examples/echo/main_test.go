package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
)

func TestLimits(t *testing.T) {
	now := time.Now()
	e := newEcho(core.New(core.NewMemory(core.WithClock(func() time.Time { return now }))))
	get := func(path, user, password string) *httptest.ResponseRecorder {
		r, w := httptest.NewRequest(http.MethodGet, path, nil), httptest.NewRecorder()
		r.SetBasicAuth(user, password)
		e.ServeHTTP(w, r)
		return w
	}

	for range 10 {
		if w := get("/catalog/items/7", "", ""); w.Code != http.StatusOK || w.Body.String() != "item 7\n" || w.Header().Get("RateLimit") == "" {
			t.Fatalf("within the address's limit: %d %q %v", w.Code, w.Body, w.Header())
		}
	}
	for range 3 {
		if w := get("/account/orders", "alice", "secret"); w.Code != http.StatusOK {
			t.Fatalf("within the user's limit: %d %q", w.Code, w.Body)
		}
	}
	for path, want := range map[string]struct{ after, policy string }{
		"/catalog/items/7": {"1", `["leaky:10:1/s"]`}, "/account/orders": {"20", `["token-bucket:3:3/m"]`},
	} {
		w := get(path, "alice", "secret")
		if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != want.after ||
			!strings.Contains(w.Body.String(), `"error":`) || !strings.Contains(w.Body.String(), `"limits":`+want.policy) {
			t.Errorf("one more request to %s: %d %s %v", path, w.Code, w.Body, w.Header())
		}
	}
	if w := get("/account/orders", "bob", "secret"); w.Code != http.StatusOK {
		t.Errorf("another user: %d %q", w.Code, w.Body)
	}
	if w := get("/account/orders", "alice", "guess"); w.Code != http.StatusUnauthorized {
		t.Errorf("a wrong password: %d %q", w.Code, w.Body)
	}
	if w := get("/nowhere", "", ""); w.Code != http.StatusNotFound || w.Body.String() != `{"message":"Not Found"}`+"\n" {
		t.Errorf("an error of another kind: %d %q", w.Code, w.Body)
	}
}
