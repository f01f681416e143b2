package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"go.uber.org/goleak"

	"github.com/weir-go/ratelimit/core"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// service is the whole program on ports of its own, which ends with its test.
type service struct {
	t             *testing.T
	public, admin string
	interrupt     context.CancelFunc
	ended         chan error
}

func start(t *testing.T, store string) *service {
	t.Helper()
	limiter, err := core.Open(store, core.WithBudget(time.Minute)) // however slow the machine is
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { limiter.Close() })
	public, private := listen("127.0.0.1:0"), listen("127.0.0.1:0")
	ctx, interrupt := context.WithCancel(t.Context())
	s := &service{t, "http://" + public.Addr().String(), "http://" + private.Addr().String(), interrupt, make(chan error, 1)}
	go func() { s.ended <- run(ctx, limiter, public, private) }()
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return s
}

// end interrupts the program, and waits for it.
func (s *service) end() {
	s.t.Helper()
	s.interrupt()
	if err := <-s.ended; err != nil {
		s.t.Errorf("the end: %v", err)
	}
}

// answer is what a client gets.
type answer struct {
	http.Header

	status int
	body   string
}

// send sends a request as the proxy does for a client's address. who is "name:password" for
// Basic, or a token.
func (s *service) send(method, path, from, who string) answer {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.public+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("X-Forwarded-For", from)
	if name, password, basic := strings.Cut(who, ":"); basic {
		r.SetBasicAuth(name, password)
	} else if who != "" {
		r.Header.Set("Authorization", "Bearer "+who)
	}
	return s.do(r)
}

func (s *service) do(r *http.Request) answer {
	s.t.Helper()
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer{response.Header, response.StatusCode, string(text)}
}

func (s *service) probe(path string) answer {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.admin+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return s.do(r)
}

// until waits until something is so.
func (s *service) until(what string, so func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !so(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("it takes too long until %s", what)
		}
	}
}

func TestEachAddressIsThrottledWhoeverAsks(t *testing.T) {
	s := start(t, "memory:")
	defer s.end()
	if a := s.send(http.MethodGet, "/items/7", "203.0.113.1", ""); a.status != http.StatusOK || a.body != "item 7\n" || a.Get("RateLimit") == "" {
		t.Errorf("the first request: %+v", a)
	}
	var got answer
	for range 1000 { // some drain meanwhile
		if got = s.send(http.MethodGet, "/orders", "203.0.113.1", "a guess"); got.status != http.StatusUnauthorized {
			break
		}
	}
	if got.status != http.StatusTooManyRequests || got.Get("Retry-After") != "1" || !strings.Contains(got.body, `["address"]`) {
		t.Errorf("many guesses at a token: %+v", got)
	}
	if a := s.send(http.MethodGet, "/items/7", "203.0.113.2", ""); a.status != http.StatusOK {
		t.Errorf("another client of the proxy: %+v", a)
	}
	var vars struct {
		Denied map[string]int `json:"ratelimit_denied"`
	}
	if err := json.Unmarshal([]byte(s.probe("/debug/vars").body), &vars); err != nil || vars.Denied["address"] == 0 {
		t.Errorf("counted %v, %v", vars.Denied, err)
	}
	if a := s.send(http.MethodGet, "/debug/vars", "203.0.113.2", ""); a.status != http.StatusNotFound {
		t.Errorf("the counters in public: %+v", a)
	}
}

func TestEachUserHasTheirPlan(t *testing.T) {
	s := start(t, "memory:")
	defer s.end()
	for range 5 {
		if a := s.send(http.MethodGet, "/orders", "203.0.113.1", "token-of-alice"); a.status != http.StatusOK || a.body != "orders of alice\n" {
			t.Fatalf("within the free plan: %+v", a)
		}
	}
	a := s.send(http.MethodGet, "/orders", "203.0.113.2", "token-of-alice")
	if a.status != http.StatusTooManyRequests || !strings.Contains(a.body, `["plan"]`) || a.Get("Retry-After") == "" {
		t.Errorf("beyond the free plan, from another address: %+v", a)
	}
	for _, token := range []string{"token-of-bob", "token-of-carol"} {
		for range 10 {
			if a := s.send(http.MethodGet, "/orders", "203.0.113.3", token); a.status != http.StatusOK {
				t.Fatalf("%s: %+v", token, a)
			}
		}
	}
}

func TestOnlyFailedLoginsCount(t *testing.T) {
	s := start(t, "memory:")
	defer s.end()
	for range 7 {
		if a := s.send(http.MethodPost, "/login", "203.0.113.1", "alice:secret"); a.status != http.StatusOK || a.body != "token-of-alice\n" {
			t.Fatalf("the right password: %+v", a)
		}
	}
	for range 5 {
		if a := s.send(http.MethodPost, "/login", "203.0.113.1", "alice:guess"); a.status != http.StatusUnauthorized {
			t.Fatalf("a wrong password: %+v", a)
		}
	}
	if a := s.send(http.MethodPost, "/login", "203.0.113.2", "alice:secret"); a.status != http.StatusTooManyRequests || !strings.Contains(a.body, `["login-account"]`) {
		t.Errorf("the account after five failures: %+v", a)
	}
	for _, name := range []string{"bob", "carol", "dave", "erin", ""} {
		if a := s.send(http.MethodPost, "/login", "203.0.113.1", name+":guess"); a.status != http.StatusUnauthorized {
			t.Fatalf("a guess at %q: %+v", name, a)
		}
	}
	if a := s.send(http.MethodPost, "/login", "203.0.113.1", "bob:secret"); a.status != http.StatusTooManyRequests || !strings.Contains(a.body, `["login-address"]`) {
		t.Errorf("the address after ten failures: %+v", a)
	}
	if a := s.send(http.MethodPost, "/login", "203.0.113.3", "bob:secret"); a.status != http.StatusOK {
		t.Errorf("another address and account: %+v", a)
	}
}

func TestWhileRedisIsAway(t *testing.T) {
	redis := miniredis.RunT(t)
	s := start(t, "redis://"+redis.Addr())
	defer s.end()
	s.until("Redis answers", func() bool {
		return s.send(http.MethodGet, "/items/7", "203.0.113.1", "").Get("RateLimit") != ""
	})
	for range 2 {
		if a := s.send(http.MethodGet, "/orders", "203.0.113.1", "token-of-alice"); a.status != http.StatusOK {
			t.Fatalf("while all is well: %+v", a)
		}
	}
	if a := s.probe("/readyz"); a.status != http.StatusOK || a.body != "ready\n" {
		t.Errorf("while all is well: %+v", a)
	}

	redis.Close()
	if a := s.probe("/readyz"); a.status != http.StatusOK || !strings.HasPrefix(a.body, "ready, with limits of its own: the store is ") {
		t.Errorf("without Redis: %+v", a)
	}
	if a := s.probe("/livez"); a.status != http.StatusOK {
		t.Errorf("without Redis: %+v", a)
	}
	var statuses []int
	for range 4 {
		statuses = append(statuses, s.send(http.MethodGet, "/orders", "203.0.113.1", "token-of-alice").status)
	}
	// This server's share of five is three, and half of what was used before counts here.
	if statuses[0] != http.StatusOK || statuses[3] != http.StatusTooManyRequests {
		t.Errorf("the share of the plan: %v", statuses)
	}
	if a := s.send(http.MethodPost, "/login", "203.0.113.2", "bob:secret"); a.status != http.StatusServiceUnavailable || a.Get("Retry-After") == "" {
		t.Errorf("a login without Redis: %+v", a)
	}
	if a := s.send(http.MethodGet, "/items/7", "203.0.113.2", ""); a.status != http.StatusOK {
		t.Errorf("without Redis: %+v", a)
	}

	if err := redis.Restart(); err != nil {
		t.Fatal(err)
	}
	s.until("somebody logs in", func() bool {
		return s.send(http.MethodPost, "/login", "203.0.113.2", "bob:secret").status == http.StatusOK
	})
}
