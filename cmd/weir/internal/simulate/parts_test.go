package simulate

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/cmd/weir/internal/accesslog"
	"github.com/weir-go/ratelimit/cmd/weir/internal/arrival"
)

// byAddress are policies of all kinds, all of which count by address.
const byAddress = `limits:
  burst: leaky 5, 1/s
  pages: sliding-window 20, 1m
bans:
  login: ban 3, 1m, first 1m, factor 2, longest 1h, forget 1h
plans:
  requests: {free: "fixed-window 10, 1m", "*": unlimited}
lists:
  deny: [198.51.100.9]
policies:
  - limit: burst
    key: ip
    settle: {5xx: 0}
  - limit: requests
    key: ip and method
    shadow: true
  - match: GET /a
    limit: pages
    key: ip
  - match: POST /login
    ban: login
    key: ip
    strike: {401: 1}
  - match: GET /b/{id}
    key: ip
    firstOf:
      - limit: gcra 2, 1/s
      - limit: token-bucket 9, 1/m
        key: ip and (host or ip)
  - match: GET /c
    limit: concurrent 1, 30s
    key: global
`

// random requests come from a few addresses, each of which is written in several ways.
func randomRequests(random *rand.Rand, n int) []arrival.Arrival {
	addresses := []string{
		"192.0.2.1", "192.0.2.1:4711", "[192.0.2.1]", "::ffff:192.0.2.1", "[::ffff:192.0.2.1]:80", "192.0.2.2", "203.0.113.5", "198.51.100.9",
		"2001:db8::1", "2001:db8::2", "[2001:db8::3]:80", "2001:db8:0:1::1", "2002:c000:204:1::1", "2002:c000:204:2::1", "nobody", "unix:", "", "0.0.0.0",
	}
	at := time.Date(2026, 3, 2, 8, 0, 30, 0, time.UTC).UnixMicro()
	var all []arrival.Arrival
	pick := func(of ...string) []byte { return []byte(of[random.IntN(len(of))]) }
	var copier accesslog.Copier
	for range n {
		at += random.Int64N(100_000)
		all = append(all, arrival.Arrival{Instant: at, Request: copier.Copy(&accesslog.Record{
			Method: pick("GET", "POST", ""), Host: pick("shop.example", "api.example"), Path: pick("/a", "/b/1", "/b/2", "/c", "/login", "/d", "*"),
			Address: pick(addresses...), Status: []int{200, 401, 404, 429, 503, 0}[random.IntN(6)], Values: [][]byte{pick("free", "paid", "")},
		})})
	}
	return all
}

// resultOf returns what so many parts find, as JSON.
func resultOf(t *testing.T, text string, all []arrival.Arrival, o Options, parts int) (r *Result, written string) {
	t.Helper()
	o.parts = parts
	s, err := New(parsed(t, text), o)
	if err != nil {
		t.Fatal(err)
	}
	for len(all) > 0 {
		n := min(len(all), 100)
		s.Second(all[:n])
		all = all[n:]
	}
	r = s.Result(func(key string) string { return key }, time.UTC)
	out, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return r, string(out)
}

// Several goroutines find what one finds, to the byte.
func TestPartsFindWhatOneFinds(t *testing.T) {
	if d, _ := playable(parsed(t, byAddress)); !apart(d) {
		t.Fatal("the policies are not divided")
	}
	for seed := range uint64(2) {
		all := randomRequests(rand.New(rand.NewPCG(seed, 1)), mostWaiting+500)
		r, want := resultOf(t, byAddress, all, Options{Plan: 0}, 1)
		if r.Denied == 0 || r.Listed == 0 || r.Unread == 0 || len(r.Limits) < 6 {
			t.Fatalf("too little happens: %s", want)
		}
		for _, parts := range []int{2, 5} {
			if _, got := resultOf(t, byAddress, all, Options{Plan: 0}, parts); got != want {
				t.Errorf("%d parts find\n%s\nand one finds\n%s", parts, got, want)
			}
		}
	}
}

// Only what counts by address is divided.
func TestWhatIsDivided(t *testing.T) {
	const policy = "policies:\n  - {limit: \"leaky 1, 1/s\", key: ip}\n  - "
	for text, want := range map[string]bool{
		`{limit: "leaky 2, 1/s", key: ip}`:                                                             true,
		`{limit: "leaky 2, 1/s", key: ip and route}`:                                                   true,
		`{limit: "leaky 2, 1/s", key: ip and (user or ip)}`:                                            true,
		`{limit: "leaky 2, 1/s", key: (user or ip) and ip}`:                                            false,
		`{limit: "leaky 2, 1/s", key: ip or user}`:                                                     false,
		`{limit: "leaky 2, 1/s", key: global}`:                                                         false,
		`{limit: "leaky 2, 1/s", key: header X-API-Key}`:                                               false,
		`{limit: "leaky 2, 1/s", key: ip trusted 10.0.0.0/8}`:                                          false,
		`{limit: "leaky 2, 1/s", key: ip ipv4 24}`:                                                     false,
		`{limit: unlimited, key: global}`:                                                              true,
		`{limit: "concurrent 3, 10s", key: global}`:                                                    true, // left out
		`{ban: "ban 2, 10m, first 10m, factor 2, longest 1d, forget 1d", key: host, strike: {401: 1}}`: false,
		`{key: ip, firstOf: [{limit: "leaky 2, 1/s"}, {limit: "leaky 3, 1/s", key: host}]}`:            false,
		`{key: host, firstOf: [{limit: "leaky 2, 1/s", key: ip}, {limit: "leaky 3, 1/s"}]}`:            false,
		`{key: host, firstOf: [{limit: "leaky 2, 1/s", key: ip}, {limit: "leaky 3, 1/s", key: ip}]}`:   true,
	} {
		if d, _ := playable(parsed(t, policy+text+"\n")); apart(d) != want {
			t.Errorf("%s is divided: %v", text, !want)
		}
	}
	s, err := New(parsed(t, policy+"{limit: unlimited, key: ip}\n"), Options{Plan: -1, Keys: leastKeys})
	if err != nil || len(s.parts) != 1 {
		t.Errorf("%d parts for few keys, %v", len(s.parts), err)
	}
}

// Each request is counted, and keys are given up that are too many for the limit, and not for a part.
func TestKeysThatAreTooMany(t *testing.T) {
	var all []arrival.Arrival
	for i := range 5_000 {
		all = append(all, arrival.Arrival{Instant: int64(i+1) * arrival.Second, Request: &accesslog.Request{Path: "/", Peer: fmt.Sprintf("10.0.%d.%d:1", i/250, i%250)}})
	}
	const text = "policies:\n  - {limit: \"leaky 1, 1/s\", key: ip}\n"
	for _, parts := range []int{1, 4} {
		r, _ := resultOf(t, text, all, Options{Plan: -1, Keys: 4000}, parts)
		if l := r.Limits[0]; r.Requests != 5_000 || l.Keys != 4000 || l.Missed != 1000 || l.Requests != 5_000 {
			t.Errorf("%d parts: %+v", parts, l)
		}
	}
}
