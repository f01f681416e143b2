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
	handler := newHandler(core.New(core.NewMemory(core.WithClock(func() time.Time { return now }))))
	send := func(method, path, user, password string) *httptest.ResponseRecorder {
		r, w := httptest.NewRequest(method, path, nil), httptest.NewRecorder()
		r.SetBasicAuth(user, password)
		handler.ServeHTTP(w, r)
		return w
	}

	for range 10 {
		if w := send(http.MethodGet, "/items/7", "", ""); w.Code != http.StatusOK || w.Body.String() != "item 7\n" || w.Header().Get("RateLimit") == "" {
			t.Fatalf("within the limit: %d %q %v", w.Code, w.Body, w.Header())
		}
	}
	w := send(http.MethodGet, "/items/8", "", "") // another path, but the same route
	if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "1" || !strings.Contains(w.Body.String(), `["leaky:10:1/s"]`) {
		t.Errorf("the eleventh request to a route: %d %q %v", w.Code, w.Body, w.Header())
	}
	if w := send(http.MethodGet, "/search", "", ""); w.Code != http.StatusOK || w.Body.String() != "found\n" {
		t.Errorf("another route: %d %q", w.Code, w.Body)
	}

	for range 3 {
		if w := send(http.MethodPost, "/orders", "alice", "secret"); w.Code != http.StatusOK || w.Body.String() != "thank you, alice\n" {
			t.Fatalf("within the user's limit: %d %q", w.Code, w.Body)
		}
	}
	w = send(http.MethodPost, "/orders", "alice", "secret")
	if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "20" || !strings.Contains(w.Body.String(), `["token-bucket:3:3/m"]`) {
		t.Errorf("the fourth order: %d %q %v", w.Code, w.Body, w.Header())
	}
	if w := send(http.MethodPost, "/orders", "bob", "secret"); w.Code != http.StatusOK {
		t.Errorf("another user: %d %q", w.Code, w.Body)
	}
	if w := send(http.MethodPost, "/orders", "alice", "guess"); w.Code != http.StatusUnauthorized {
		t.Errorf("a wrong password: %d", w.Code)
	}
}
