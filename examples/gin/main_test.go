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
	router := newRouter(core.New(core.NewMemory(core.WithClock(func() time.Time { return now }))))
	send := func(method, path, user, address string) *httptest.ResponseRecorder {
		r, w := httptest.NewRequest(method, path, nil), httptest.NewRecorder()
		r.RemoteAddr = address + ":1234"
		r.SetBasicAuth(user, "secret")
		router.ServeHTTP(w, r)
		return w
	}

	for _, want := range []string{`{"left":2,"user":"alice"}`, `{"left":1,"user":"alice"}`, `{"left":0,"user":"alice"}`} {
		if w := send(http.MethodPost, "/orders", "alice", "192.0.2.1"); w.Code != http.StatusOK || w.Body.String() != want {
			t.Fatalf("within the user's limit: %d %s, want %s", w.Code, w.Body, want)
		}
	}
	w := send(http.MethodPost, "/orders", "alice", "192.0.2.2")
	if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "20" || !strings.Contains(w.Body.String(), `["token-bucket:3:3/m"]`) {
		t.Errorf("the fourth order, from another address: %d %s %v", w.Code, w.Body, w.Header())
	}
	if w := send(http.MethodPost, "/orders", "bob", "192.0.2.2"); w.Code != http.StatusOK {
		t.Errorf("another user: %d %s", w.Code, w.Body)
	}
	if w := send(http.MethodPost, "/orders", "mallory", "192.0.2.2"); w.Code != http.StatusUnauthorized {
		t.Errorf("a user that there is not: %d %s", w.Code, w.Body)
	}

	for range 20 {
		if w := send(http.MethodGet, "/items/7", "", "192.0.2.3"); w.Code != http.StatusOK || w.Body.String() != "item 7\n" {
			t.Fatalf("within the address's limit: %d %q", w.Code, w.Body)
		}
	}
	w = send(http.MethodGet, "/items/7", "", "192.0.2.3")
	if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "1" || !strings.Contains(w.Body.String(), `["leaky:20:2/s"]`) {
		t.Errorf("one request too many of an address: %d %s %v", w.Code, w.Body, w.Header())
	}
}
