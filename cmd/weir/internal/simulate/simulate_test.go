package simulate

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/cmd/weir/internal/accesslog"
	"github.com/weir-go/ratelimit/cmd/weir/internal/arrival"
	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/policies"
)

func parsed(t testing.TB, text string) *policies.Document {
	t.Helper()
	d, err := policies.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// simulated returns what policies do to a log.
func simulated(t testing.TB, text string, log []byte, o Options, values ...accesslog.Key) *Result {
	t.Helper()
	name := filepath.Join(t.TempDir(), "access.log")
	if err := os.WriteFile(name, log, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := New(parsed(t, text), o)
	if err != nil {
		t.Fatal(err)
	}
	options := arrival.Options{Requests: true, Log: accesslog.Options{Values: values}}
	if _, err := arrival.Read(t.Context(), []string{name}, options, nil, s); err != nil {
		t.Fatal(err)
	}
	return s.Result(func(key string) string { return key }, time.UTC)
}

// limit returns what one limit did.
func (r *Result) limit(name string) Limit {
	for _, l := range r.Limits {
		if l.Name == name {
			return l
		}
	}
	return Limit{}
}

const twoPolicies = `limits:
  burst: leaky 5, 1/s
  orders: leaky 3, 1/2s
policies:
  - limit: burst
    key: ip
  - match: POST /orders
    limit: orders
    key: header X-API-Key
    settle: {5xx: 0}
`

// bucket is a leaky bucket, in microseconds.
type bucket struct{ empty, interval, brim int64 }

func (b *bucket) fits(now int64) bool { return max(b.empty, now)+b.interval-now <= b.brim }
func (b *bucket) charge(now int64)    { b.empty = max(b.empty, now) + b.interval }
func (b *bucket) refund()             { b.empty -= b.interval }

// The replay denies just what the arithmetic of the limits denies: all limits of a request are charged, or none, and an answer of 5xx costs
// nothing.
func TestReplayIsTheArithmetic(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	var log bytes.Buffer
	var denied, byBurst, byOrders uint64
	bursts, orders := make(map[string]*bucket), make(map[string]*bucket)
	of := func(all map[string]*bucket, key string, capacity, interval int64) *bucket {
		if all[key] == nil {
			all[key] = &bucket{interval: interval, brim: capacity * interval}
		}
		return all[key]
	}
	now := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC).UnixMicro()
	for range 5000 {
		now += int64(random.IntN(300)) * 1000
		ip, key := fmt.Sprintf("192.0.2.%d", random.IntN(4)), fmt.Sprintf("k%d", random.IntN(3))
		method, status := []string{"GET", "POST"}[random.IntN(2)], []int{200, 404, 502}[random.IntN(3)]
		fmt.Fprintf(&log, `{"ts":%d.%03d,"status":%d,"request":{"remote_ip":%q,"method":%q,"uri":"/orders?x=1","host":"shop.example","headers":{"X-Api-Key":[%q]}}}`+"\n",
			now/1e6, now%1e6/1e3, status, ip, method, key)
		burst := of(bursts, ip, 5, 1_000_000)
		if method == "GET" {
			if burst.fits(now) {
				burst.charge(now)
			} else {
				denied, byBurst = denied+1, byBurst+1
			}
			continue
		}
		order := of(orders, key, 3, 2_000_000)
		fitsBurst, fitsOrder := burst.fits(now), order.fits(now)
		if !fitsBurst {
			byBurst++
		}
		if !fitsOrder {
			byOrders++
		}
		if !fitsBurst || !fitsOrder {
			denied++
			continue
		}
		burst.charge(now)
		if order.charge(now); status == 502 {
			order.refund()
		}
	}
	r := simulated(t, twoPolicies, log.Bytes(), Options{Plan: -1})
	if r.Requests != 5000 || r.Denied != denied || r.limit("burst").Denied != byBurst || r.limit("orders").Denied != byOrders || denied == 0 || byOrders == 0 {
		t.Errorf("denied %d, by burst %d, by orders %d of %d; want %d, %d and %d of 5000",
			r.Denied, r.limit("burst").Denied, r.limit("orders").Denied, r.Requests, denied, byBurst, byOrders)
	}
	if l := r.limit("orders"); l.Keys != 3 || l.Anonymous != 0 {
		t.Errorf("%+v", l)
	}
	var admitted, refused uint64
	for _, p := range r.Series.Points {
		admitted, refused = admitted+p.Admitted, refused+p.Denied
	}
	if refused != denied || admitted != 5000-denied || len(r.Series.Points) > mostPoints {
		t.Errorf("over time %d admitted and %d denied in %d points", admitted, refused, len(r.Series.Points))
	}
	if shaped := simulated(t, strings.ReplaceAll(twoPolicies, "burst: leaky", "burst: shaping"), log.Bytes(), Options{Plan: -1}); shaped.Denied != denied ||
		len(shaped.Notes) != 1 || !strings.Contains(shaped.Notes[0], "shape") {
		t.Errorf("shaping denies %d, want %d; %q", shaped.Denied, denied, shaped.Notes)
	}
}

// A limit that shapes traffic denies what a leaky bucket denies.
func TestShapingDeniesAsLeaky(t *testing.T) {
	now := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	l := core.New(core.NewMemory(core.WithClock(func() time.Time { return now })))
	random := rand.New(rand.NewPCG(3, 3))
	for i := range 500 {
		now = now.Add(time.Duration(random.IntN(900)) * time.Millisecond)
		shaped, err := l.Allow(t.Context(), "a", core.Shaping(3, core.PerSecond(1)))
		if err != nil {
			t.Fatal(err)
		}
		leaky, err := l.Allow(t.Context(), "a", core.Leaky(3, core.PerSecond(1)))
		if err != nil || shaped.Allowed != leaky.Allowed {
			t.Fatalf("request %d: shaping %v, leaky %v, %v", i, shaped.Allowed, leaky.Allowed, err)
		}
	}
}

const line = `{"ts":1772438400.%d,"status":%d,"remote_addr":"%s","request_method":"%s","request_uri":"%s","user":{"id":"%s"},"plan":"%s"}` + "\n"

// What the log says of users and plans is used, and what it does not say is told.
func TestNamesAndPlans(t *testing.T) {
	const file = `plans:
  requests: {free: "fixed-window 2, 1d", "*": "fixed-window 1, 1d"}
policies:
  - limit: requests
    key: user
  - match: GET /tenant
    limit: leaky 1, 1/h
    key: tenant
    cost: units
    settle: real
`
	var log bytes.Buffer
	for i := range 6 {
		fmt.Fprintf(&log, line, i, 200, "192.0.2.1", "GET", "/x", []string{"ann", "bob"}[i%2], []string{"free", "paid"}[i%2])
	}
	user, _ := accesslog.ParseKey("json:.user.id")
	plan, _ := accesslog.ParseKey("json:.plan")
	r := simulated(t, file, log.Bytes(), Options{Names: map[string]int{"user": 0}, Plan: 1}, user, plan)
	if r.Denied != 3 || r.limit("requests").Keys != 2 || r.limit("requests").Busiest[0].Key != "user:bob" || r.limit("requests").Busiest[0].Denied != 2 {
		t.Errorf("%+v", r)
	}
	if all := strings.Join(r.AllNotes(), "\n"); len(r.Notes) != 3 || !strings.Contains(all, `"tenant"`) || !strings.Contains(all, `"units"`) || !strings.Contains(all, `"real"`) {
		t.Errorf("%q", r.AllNotes())
	}
	r = simulated(t, file, log.Bytes(), Options{Plan: -1})
	if l := r.limit("requests"); l.Denied != 5 || l.Anonymous != 6 || !strings.Contains(strings.Join(r.AllNotes(), "\n"), "6 requests do not have the key of requests") {
		t.Errorf("%+v, %q", r, r.AllNotes())
	}
}

// Notes agree in number.
func TestNumbersOfNotes(t *testing.T) {
	one := Result{Listed: 1, Limited: 1, Undecided: 1, Unread: 1, Limits: []Limit{{Name: "a", Anonymous: 1, Missed: 1}}}
	wantOne := `One request does not have the key of a in the log. It was counted by its address, as the guard does.
One request under a is of a key beyond those that are followed: see -keys.
One request was decided by a list.
One request was answered with 429 already. It was replayed like all others.
One request could not be decided: the store was full, or its key could not be read.
One line is no request of HTTP, and was left out.`
	two := Result{Listed: 2, Limited: 2, Undecided: 2, Unread: 2, Limits: []Limit{{Name: "a", Anonymous: 2, Missed: 2}}}
	wantTwo := `2 requests do not have the key of a in the log. They were counted by their address, as the guard does.
2 requests under a are of keys that were too many to be followed: see -keys.
2 requests were decided by a list.
2 requests were answered with 429 already. They were replayed like all others.
2 requests could not be decided: the store was full, or a key could not be read.
2 lines are no requests of HTTP, and were left out.`
	for want, r := range map[string]Result{"": {}, wantOne: one, wantTwo: two} {
		if got := strings.Join(r.AllNotes(), "\n"); got != want {
			t.Errorf("%s\nwant\n%s", got, want)
		}
	}
}

// Strikes come from the statuses of the log; lists, shadows and what meets no limit are counted; places are left out.
func TestEachPolicy(t *testing.T) {
	const file = `bans:
  login: ban 2, 10m, first 10m, factor 2, longest 1d, forget 1d
lists:
  deny: [198.51.100.9]
policies:
  - match: POST /login
    ban: login
    key: ip
    strike: {401: 1}
  - match: GET /shadow
    limit: leaky 1, 1/h
    key: ip
    shadow: true
  - match: GET /busy
    limit: concurrent 1, 30s
    key: ip
    maxWait: 5s
  - match: GET /first
    key: ip
    firstOf:
      - limit: leaky 1, 1/h
      - limit: gcra 1, 1/h
`
	var log bytes.Buffer
	add := func(n int, status int, ip, method, path string) {
		for i := range n {
			fmt.Fprintf(&log, line, i, status, ip, method, path, "", "")
		}
	}
	add(5, 401, "203.0.113.1", "POST", "/login")
	add(5, 200, "203.0.113.2", "POST", "/login")
	add(4, 200, "203.0.113.3", "GET", "/shadow")
	add(4, 200, "203.0.113.4", "GET", "/busy")
	add(4, 429, "203.0.113.5", "GET", "/first")
	add(2, 200, "198.51.100.9", "GET", "/else")
	add(2, 0, "203.0.113.6", "GET", "/else")
	add(1, 200, "203.0.113.6", "GET", "%zz")
	r := simulated(t, file, log.Bytes(), Options{Plan: -1})
	if got := r.limit("login"); got.Denied != 3 || got.DeniedKeys != 1 || got.Requests != 10 {
		t.Errorf("login: %+v", got)
	}
	if r.Requests != 26 || r.Denied != 3+2+2 || r.Listed != 2 || r.Unlimited != 6 || r.Limited != 4 || r.Unread != 1 || r.Undecided != 0 {
		t.Errorf("%+v", r)
	}
	shadow, alternatives := 0, uint64(0)
	for _, l := range r.Limits {
		if l.Name == "leaky:1:1/h" && !l.Shadow || strings.HasPrefix(l.Name, "gcra") {
			alternatives += l.Requests
		}
		if l.Shadow {
			shadow++
			if l.Denied != 3 || l.Requests != 4 {
				t.Errorf("shadow: %+v", l)
			}
		}
	}
	if alternatives != 4 {
		t.Errorf("%d requests of 4 under the alternatives that count", alternatives)
	}
	if shadow != 1 || !strings.Contains(strings.Join(r.Notes, ""), "concurrent") {
		t.Errorf("%d shadows, %q", shadow, r.Notes)
	}
}

func TestRequest(t *testing.T) {
	var m maker
	var copier accesslog.Copier
	for address, want := range map[string]string{"192.0.2.1": "192.0.2.1:1", "192.0.2.1:80": "192.0.2.1:80", "2001:db8::1": "[2001:db8::1]:1", "[2001:db8::1]:80": "[2001:db8::1]:80"} {
		r, ok := m.request(copier.Copy(&accesslog.Record{Path: []byte("/a%2Fb c"), Address: []byte(address)}))
		if !ok || r.RemoteAddr != want || r.Method != http.MethodGet || r.URL.Path != "/a/b c" || r.URL.RawPath != "/a%2Fb c" {
			t.Errorf("%s: %+v", address, r)
		}
	}
}

// A request takes the place of the one before, and knows nothing of it.
func TestRequestsDoNotKnowEachOther(t *testing.T) {
	var m maker
	header := []accesslog.Text{{Name: "X-A", Value: "a"}, {Name: "X-B", Value: "b"}}
	first, _ := m.request(&accesslog.Request{Method: "POST", Path: "/a%2Fb", Host: "shop.example", Peer: "192.0.2.1:1", Header: header})
	if first.Header.Get("X-A") != "a" || first.Header.Get("X-B") != "b" || len(first.Header["X-A"]) != 1 {
		t.Errorf("%v", first.Header)
	}
	second, ok := m.request(&accesslog.Request{Path: "/", Peer: "192.0.2.2:1", Header: header[1:]})
	if !ok || second.Method != http.MethodGet || second.Host != "" || second.URL.RawPath != "" || len(second.Header) != 1 || second.Header.Get("X-B") != "b" {
		t.Errorf("%+v, %v", second, second.URL)
	}
}

// FuzzRequest holds that no line of a log breaks the replay.
func FuzzRequest(f *testing.F) {
	f.Add([]byte(`192.0.2.1 - - [22/Nov/2026:08:00:01 +0000] "GET /a%2Fb HTTP/1.1" 200 1 "-" "curl" "192.0.2.7"`), true)
	f.Add([]byte(`{"ts":1,"status":200,"request":{"headers":{"X-A":["b"]},"uri":"/","method":"GET"},"ip":"::1"}`), false)
	f.Fuzz(func(t *testing.T, text []byte, combined bool) {
		format := accesslog.JSON
		if combined {
			format = accesslog.Combined
		}
		parser, err := accesslog.New(format, accesslog.Options{Whole: true})
		if err != nil {
			t.Fatal(err)
		}
		var r accesslog.Record
		if parser.Parse(text, &r) != nil {
			return
		}
		parser.Details(&r)
		s, err := New(parsed(t, twoPolicies), Options{Plan: -1})
		if err != nil {
			t.Fatal(err)
		}
		s.Second([]arrival.Arrival{{Instant: 1_772_438_400_000_000, Request: new(accesslog.Copier).Copy(&r)}})
		s.Result(func(key string) string { return key }, time.UTC)
	})
}
