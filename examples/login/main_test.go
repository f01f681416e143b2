package main

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/weir-go/ratelimit/core"
)

func post(h http.Handler, path, address string, form url.Values) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.RemoteAddr = address
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestFiveWrongPasswordsBanUntilTheyAreLifted(t *testing.T) {
	limiter := core.New(core.NewMemory())
	h, console := newHandler(limiter), newAdmin(limiter)
	const client = "203.0.113.9:1"
	wrong := url.Values{"user": {"alice"}, "password": {"wrong"}}
	right := url.Values{"user": {"alice"}, "password": {"secret"}}
	expect := func(form url.Values, address string, want int) *httptest.ResponseRecorder {
		t.Helper()
		w := post(h, "/login", address, form)
		if w.Code != want {
			t.Errorf("%v from %s: %d, want %d", form, address, w.Code, want)
		}
		return w
	}
	for range 4 {
		expect(wrong, client, http.StatusUnauthorized)
	}
	expect(right, client, http.StatusNoContent) // forgives
	for range 5 {
		expect(wrong, client, http.StatusUnauthorized)
	}
	if body := expect(right, client, http.StatusForbidden).Body.String(); !strings.Contains(body, "#abnormal-usage-detected") {
		t.Errorf("the answer is %s", body)
	}
	expect(right, "203.0.113.10:1", http.StatusNoContent)                                     // the user, from home
	expect(url.Values{"user": {"bob"}, "password": {"secret"}}, client, http.StatusNoContent) // another user, from there
	for range 5 {
		expect(wrong, "127.0.0.1:1", http.StatusUnauthorized) // by address and user, loopback is banned, too
	}
	expect(wrong, "127.0.0.1:1", http.StatusForbidden)

	list := func() []string {
		w := httptest.NewRecorder()
		console.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/bans", nil))
		return strings.Split(strings.TrimSpace(w.Body.String()), "\n")
	}
	for _, line := range list() {
		key, _, _ := strings.Cut(line, "\t")
		if w := post(console, "/lift", client, url.Values{"key": {key}}); w.Code != http.StatusNoContent {
			t.Errorf("lifting %s: %d", key, w.Code)
		}
	}
	expect(right, client, http.StatusNoContent)
	expect(right, "127.0.0.1:1", http.StatusNoContent)
	if left := list(); len(left) != 1 || left[0] != "" {
		t.Errorf("after all were lifted: %q", left)
	}
}

func TestManyUsersFromOneAddressAreStrikesOfThatAddress(t *testing.T) {
	h := newHandler(core.New(core.NewMemory()))
	for i := range 50 {
		user := url.Values{"user": {"user" + strings.Repeat("x", i)}, "password": {"wrong"}}
		if w := post(h, "/login", "203.0.113.9:1", user); w.Code != http.StatusUnauthorized {
			t.Fatalf("user %d: %d", i, w.Code)
		}
	}
	if w := post(h, "/login", "203.0.113.9:1", url.Values{"user": {"new"}, "password": {"secret"}}); w.Code != http.StatusForbidden {
		t.Errorf("after 50 wrong passwords: %d, want 403", w.Code)
	}
}
