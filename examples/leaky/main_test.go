package main

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
)

func TestTenCallsPerTenSeconds(t *testing.T) {
	now := time.Now()
	handler := newHandler(core.New(core.NewMemory(core.WithClock(func() time.Time { return now }))))
	get := func() *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api", nil))
		return w
	}
	for range 10 {
		if w := get(); w.Code != http.StatusOK || w.Body.String() != "Hello\n" {
			t.Fatalf("within the limit: %d %q", w.Code, w.Body)
		}
	}
	now = now.Add(250 * time.Millisecond)
	if w := get(); w.Code != http.StatusTooManyRequests || w.Body.String() != "Rate limited\n" ||
		w.Header().Get("X-Rate-Limited-For") != "0.75" || w.Header().Get("Retry-After") != "1" {
		t.Errorf("the eleventh: %d %q %v", w.Code, w.Body, w.Header())
	}
	now = now.Add(750 * time.Millisecond)
	if w := get(); w.Code != http.StatusOK {
		t.Errorf("after a drip: %d %q", w.Code, w.Body)
	}
}
