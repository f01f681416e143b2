package policies

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
)

// server serves by a text. A request is answered with the status in its header, or else with 200.
func server(tb testing.TB, limiter *core.Limiter, text string) http.Handler {
	tb.Helper()
	return ratelimit.FromPolicies(limiter, setOf(tb, text, Options{}), guard.Options{})(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var code int
		if _, err := fmt.Sscan(r.Header.Get("Answer"), &code); err == nil {
			w.WriteHeader(code)
		}
	}))
}

// ask returns the answer to a request that wants a status.
func ask(h http.Handler, status string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Answer", status)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// Each field of a policy does in a server what it says.
func TestFieldsAct(t *testing.T) {
	const (
		one = "leaky 1, 1/h"
		ban = "ban 2, 1h, first 1h, factor 2, longest 1d, forget 2d"
	)
	for _, c := range []struct{ policies, answers, want string }{
		{"{limit: '" + one + "', key: global}", "200 200", "200 429"},
		{"{limit: '" + one + "', key: global, shadow: true}", "200 200", "200 200"},
		{"{shadow: true, key: global, firstOf: [{limit: '" + one + "'}, {limit: 'gcra 1, 1/h'}]}", "200 200 200", "200 200 200"},
		{"{limit: 'leaky 3, 1/h', key: global, headroom: 2}", "200 200", "200 429"},
		{"{limit: 'leaky 4, 1/h', key: global, settle: {503: 4, 5xx: 0, 404: 3}}", "500 500 500 404 200 200", "500 500 500 404 200 429"},
		{"{limit: 'leaky 4, 1/h', key: global, settle: {503: 4, 5xx: 0}}", "503 503", "503 429"},
		{"{key: global, cost: 2, settle: {5xx: 0}, firstOf: [{limit: 'leaky 2, 1/h'}]}", "500 200 200", "500 200 429"},
		{"{key: global, cost: 2, settle: {5xx: 0}, firstOf: [{limit: 'leaky 2, 1/h', settle: {404: 0}, cost: 1}]}", "500 404 500 200", "500 404 500 429"},
		{"{ban: '" + ban + "', key: global, strike: {401: 1}}", "200 401 404 200 401 200", "200 401 404 200 401 403"},
		{"{ban: '" + ban + "', key: global, strike: {401: 1, 200: forgive}, tellBan: true}", "401 200 401 401 200", "401 200 401 401 429"},
		{"{ban: '" + ban + "', key: global, strike: denials}, {limit: '" + one + "', key: global}", "200 200 200 200", "200 429 429 403"},
	} {
		h := server(t, core.New(core.NewMemory()), "policies: ["+c.policies+"]")
		var got []string
		for status := range strings.FieldsSeq(c.answers) {
			got = append(got, strconv.Itoa(ask(h, status).Code))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %s, want %s", c.policies, got, c.want)
		}
	}
}

// Lists look up the address behind the proxies and the key of the program, and those of a new set act at once.
func TestListsAct(t *testing.T) {
	const policy = "\npolicies: [{limit: unlimited}]\nlimitsNothing: true\n"
	s := setOf(t, `lists: {allow: [198.51.100.0/24], deny: [203.0.113.0/24, "key:user:42", 198.51.100.1], address: ip trusted 192.0.2.0/24, key: user}`+policy,
		Options{Keys: map[string]keyfuncs.Func{"user": keyfuncs.User(func(r *http.Request) string { return r.Header.Get("User") })}})
	h := ratelimit.FromPolicies(core.New(core.NewMemory()), s, guard.Options{})(fine)
	answer := func(client, user string) int {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("X-Forwarded-For", client)
		r.Header.Set("User", user)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	for client, want := range map[string]int{"203.0.113.9": 403, "203.0.112.9": 200, "198.51.100.1": 200} {
		if code := answer(client, ""); code != want {
			t.Errorf("%s: status %d, want %d", client, code, want)
		}
	}
	if code := answer("203.0.112.9", "42"); code != http.StatusForbidden {
		t.Errorf("user 42: status %d", code)
	}
	if err := s.swapText([]byte("lists: {deny: [203.0.112.0/24], address: ip trusted 192.0.2.0/24}" + policy)); err != nil {
		t.Fatal(err)
	}
	if was, is := answer("203.0.113.9", "42"), answer("203.0.112.9", ""); was != 200 || is != 403 {
		t.Errorf("statuses %d and %d by the new lists, want 200 and 403", was, is)
	}
}

// What only the engine sees of a policy reaches it.
func TestFieldsReachTheEngine(t *testing.T) {
	s := setOf(t, `policies:
  - {limit: 'shaping 9, 1/s', key: ip, undelayed: 2, unit: jobs}
  - {limit: 'concurrent 3, 30s', key: ip, maxWait: 7s}
  - {limit: 'leaky 9, 1/s', key: ip, settle: {5xx: 0}, reserveFor: 90s}
`, Options{})
	var got []string
	for _, own := range s.rules.Policies {
		p := own[0]
		got = append(got, fmt.Sprintf("%s undelayed %d unit %s wait %v reserve %v", p.Limit, p.Queue.Undelayed, p.Unit, p.Queue.MaxWait, p.Settle.ReserveFor))
	}
	want := "[shaping 9, 1/s undelayed 2 unit jobs wait 0s reserve 0s concurrent 3, 30s undelayed 0 unit  wait 7s reserve 0s" +
		" leaky 9, 1/s undelayed 0 unit  wait 0s reserve 1m30s]"
	if fmt.Sprint(got) != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// A request without a key counts by its address, also for the share of the keys that a policy is enforced for.
func TestEnforcedForAddressesOfRequestsWithoutAKey(t *testing.T) {
	h := server(t, core.New(core.NewMemory()), "policies: [{limit: 'leaky 1, 1/h', key: header X-Key, enforced: 50%}]")
	denied := 0
	for i := range 200 {
		for range 2 {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.RemoteAddr = fmt.Sprintf("203.0.113.%d:1", i)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code == http.StatusTooManyRequests {
				denied++
			}
		}
	}
	if denied < 60 || denied > 140 {
		t.Errorf("%d of 200 addresses are denied", denied)
	}
}

// Places of a policy that is gone are given back by the requests that hold them, and those of the new set are its own.
func TestPlacesOfARemovedPolicyAreGivenBack(t *testing.T) {
	const one = "limits: {a: 'concurrent 1, 30s'}\npolicies: [{limit: a, key: global}]"
	limiter := core.New(core.NewMemory())
	s := setOf(t, one, Options{})
	entered, leave := make(chan struct{}), make(chan struct{})
	h := ratelimit.FromPolicies(limiter, s, guard.Options{})(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/stay" {
			entered <- struct{}{}
			<-leave
		}
	}))
	done := make(chan struct{})
	go func() {
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/stay", nil))
		close(done)
	}()
	<-entered
	if code := ask(h, "").Code; code != http.StatusTooManyRequests {
		t.Errorf("status %d while the place is taken", code)
	}
	if err := s.swapText([]byte("limitsNothing: true\n")); err != nil {
		t.Fatal(err)
	}
	if code := ask(h, "").Code; code != http.StatusOK {
		t.Errorf("status %d without policies", code)
	}
	close(leave)
	<-done
	if err := s.swapText([]byte(one)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the place is given back", func() bool { return ask(h, "").Code == http.StatusOK })
}

// The goroutine of Watch ends with its context, also while its source is read.
func TestWatchEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	reading, ended := make(chan struct{}, 1), make(chan struct{})
	first := true
	_, err := Watch(ctx, Func("slow", func(ctx context.Context) ([]byte, error) {
		if first {
			first = false
			return []byte("limitsNothing: true\n"), nil
		}
		reading <- struct{}{}
		<-ctx.Done()
		close(ended)
		return nil, ctx.Err()
	}), Options{Every: time.Millisecond, OnError: func(err error) { t.Errorf("told %v", err) }})
	if err != nil {
		t.Fatal(err)
	}
	<-reading
	cancel()
	<-ended // and goleak, in TestMain, finds what goes on
}
