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
	get := func(path, user, password, address string) *httptest.ResponseRecorder {
		r, w := httptest.NewRequest(http.MethodGet, path, nil), httptest.NewRecorder()
		r.RemoteAddr = address + ":1234"
		r.SetBasicAuth(user, password)
		e.ServeHTTP(w, r)
		return w
	}

	for _, path := range []string{"/search", "/items/7", "/items/7", "/items/7", "/items/7", "/items/7"} { // 5 + 5 × 1
		if w := get(path, "alice", "secret", "192.0.2.1"); w.Code != http.StatusOK {
			t.Fatalf("%s within the user's limit: %d %s", path, w.Code, w.Body)
		}
	}
	for path, after := range map[string]string{"/search": "30", "/items/7": "6"} {
		w := get(path, "alice", "secret", "192.0.2.2")
		if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != after || !strings.Contains(w.Body.String(), `["units"]`) {
			t.Errorf("%s without units: %d %s %v", path, w.Code, w.Body, w.Header())
		}
	}
	if w := get("/search", "bob", "secret", "192.0.2.2"); w.Code != http.StatusOK || w.Body.String() != "found\n" {
		t.Errorf("another user: %d %q", w.Code, w.Body)
	}

	for range 20 {
		if w := get("/items/7", "alice", "guess", "192.0.2.3"); w.Code != http.StatusUnauthorized {
			t.Fatalf("a wrong password: %d %s", w.Code, w.Body)
		}
	}
	if w := get("/items/7", "alice", "guess", "192.0.2.3"); w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "1" {
		t.Errorf("one guess more than an address has: %d %s %v", w.Code, w.Body, w.Header())
	}
}
