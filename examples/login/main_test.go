package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/redistest"
)

func post(h http.Handler, path, address string, form url.Values) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.RemoteAddr, r.Host = address, "localhost:8081"
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestFiveWrongPasswordsBanUntilTheyAreLifted(t *testing.T) {
	limiter := core.New(core.NewMemory())
	h, console := newHandler(limiter, isRight), newAdmin(limiter)
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
		r := httptest.NewRequest(http.MethodGet, "/bans", nil)
		r.Host = "localhost:8081"
		console.ServeHTTP(w, r)
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
	h := newHandler(core.New(core.NewMemory()), isRight)
	for i := range 50 {
		user := url.Values{"user": {"user" + strings.Repeat("x", i)}, "password": {"wrong"}}
		if w := post(h, "/login", "203.0.113.9:1", user); w.Code != http.StatusUnauthorized {
			t.Fatalf("user %d: %d", i, w.Code)
		}
	}
	if w := post(h, "/login", "203.0.113.9:1", url.Values{"user": {"bob"}, "password": {"secret"}}); w.Code != http.StatusForbidden {
		t.Errorf("after 50 wrong passwords: %d, want 403", w.Code)
	}
}

// Guesses in flight strike nobody yet. However many come at once, no more than the strikes and the places are judged.
func TestNoCrowdOfGuessesGoesAroundTheBan(t *testing.T) {
	memory, err := core.Open("memory:")
	if err != nil {
		t.Fatal(err)
	}
	redis, err := core.Open(redistest.Start(t).URL(), core.WithBudget(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	for name, limiter := range map[string]*core.Limiter{"memory": memory, "Redis": redis} {
		defer limiter.Close()
		for _, c := range []struct {
			about string
			user  func(i int) string
			most  int
		}{
			{"one user", func(int) string { return "alice" }, guessing.Strikes.Capacity() + guesses.Capacity()},
			{"many users", func(i int) string { return fmt.Sprint("user", i) }, spraying.Strikes.Capacity() + sprays.Capacity()},
		} {
			if judged := crowd(t, limiter, c.user); judged > c.most {
				t.Errorf("%s, %s: %d passwords were judged, want at most %d", name, c.about, judged, c.most)
			}
			if err := limiter.Lift(t.Context(), "ip:203.0.113.9", spraying); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// crowd sends 500 guesses at once to a login that answers nobody before all of them have been decided about, again and again until all
// are banned. It returns how many passwords were judged.
func crowd(t *testing.T, limiter *core.Limiter, user func(i int) string) int {
	const guesses = 500
	var judged atomic.Int64
	var decided sync.WaitGroup
	h := newHandler(limiter, func(string, string) bool {
		judged.Add(1)
		decided.Done()
		decided.Wait()
		return false
	})
	for round := range 50 {
		decided.Add(guesses)
		var banned atomic.Int64
		var clients sync.WaitGroup
		for i := range guesses {
			clients.Go(func() {
				w := post(h, "/login", "203.0.113.9:1", url.Values{"user": {user(round*guesses + i)}, "password": {"wrong"}})
				if w.Code != http.StatusUnauthorized {
					decided.Done()
				}
				if w.Code == http.StatusForbidden {
					banned.Add(1)
				}
			})
		}
		clients.Wait()
		if banned.Load() == guesses {
			return int(judged.Load())
		}
	}
	t.Fatalf("no ban after %d guesses", judged.Load())
	return 0
}

// A login of one's own forgives none of the guesses at others.
func TestOnesOwnLoginForgivesNoGuessesAtOthers(t *testing.T) {
	judged := 0
	h := newHandler(core.New(core.NewMemory()), func(user, password string) bool {
		if user != "alice" {
			judged++
		}
		return isRight(user, password)
	})
	const client = "203.0.113.9:1"
	for i := range 2000 {
		post(h, "/login", client, url.Values{"user": {fmt.Sprint("user", i)}, "password": {"123456"}})
		if i%5 == 4 {
			post(h, "/login", client, url.Values{"user": {"alice"}, "password": {"secret"}})
		}
	}
	if want := spraying.Strikes.Capacity(); judged != want {
		t.Errorf("%d of 2000 names were tried, want %d", judged, want)
	}
}

// endless is a body of which so much was read.
type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	e.read += len(p)
	return copy(p, strings.Repeat("x", len(p))), nil
}

func TestNoMoreIsReadOfAFormThanAFormHas(t *testing.T) {
	h := newHandler(core.New(core.NewMemory()), func(string, string) bool { t.Error("judged"); return false })
	for kind, want := range map[string]int{
		"application/x-www-form-urlencoded": http.StatusRequestEntityTooLarge,
		"multipart/form-data; boundary=x":   http.StatusUnsupportedMediaType,
		"application/json":                  http.StatusUnsupportedMediaType,
		"":                                  http.StatusUnsupportedMediaType,
	} {
		body := new(endless)
		r := httptest.NewRequest(http.MethodPost, "/login", body)
		r.Header.Set("Content-Type", kind)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != want || body.read > 2*longestForm {
			t.Errorf("%q: answered %d, and %d bytes were read; want %d", kind, w.Code, body.read, want)
		}
	}
}

func TestNoOtherSiteLiftsABan(t *testing.T) {
	limiter := core.New(core.NewMemory())
	console := newAdmin(limiter)
	if err := limiter.Ban(t.Context(), "ip:203.0.113.9", spraying, time.Hour, "a test"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		host, header, value string
		want                int
	}{
		{"localhost:8081", "Sec-Fetch-Site", "cross-site", http.StatusForbidden},
		{"localhost:8081", "Origin", "https://evil.example", http.StatusForbidden},
		{"evil.example:8081", "Origin", "http://evil.example:8081", http.StatusMisdirectedRequest},
		{"evil.example:8081", "Sec-Fetch-Site", "same-origin", http.StatusMisdirectedRequest},
	} {
		r := httptest.NewRequest(http.MethodPost, "/lift", strings.NewReader("key=ip:203.0.113.9"))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Host = c.host
		r.Header.Set(c.header, c.value)
		w := httptest.NewRecorder()
		if console.ServeHTTP(w, r); w.Code != c.want {
			t.Errorf("%s, %s: %s: answered %d, want %d", c.host, c.header, c.value, w.Code, c.want)
		}
	}
	if left, err := limiter.Banned(t.Context(), "ip:203.0.113.9", spraying); err != nil || left == 0 {
		t.Errorf("the ban has ended: %v, %v", left, err)
	}
	if w := post(console, "/lift", "127.0.0.1:1", url.Values{"key": {"ip:203.0.113.9"}}); w.Code != http.StatusNoContent {
		t.Errorf("by hand: %d", w.Code)
	}
	if left, err := limiter.Banned(t.Context(), "ip:203.0.113.9", spraying); err != nil || left != 0 {
		t.Errorf("the ban is not lifted: %v, %v", left, err)
	}
}

func TestServersWaitForNobody(t *testing.T) {
	if s := newServer("", nil); s.ReadHeaderTimeout == 0 || s.ReadTimeout == 0 || s.WriteTimeout == 0 || s.IdleTimeout == 0 {
		t.Errorf("a server waits for ever: %+v", s)
	}
}
