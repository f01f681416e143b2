package policies

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/internal/redistest"
	"github.com/weir-go/ratelimit/keyfuncs"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
)

// toldOf says of an event what must be the same when it is explained and when it happens.
func toldOf(e guard.Event) string {
	var text strings.Builder
	fmt.Fprintf(&text, "%d %v %v", e.Status, e.Listed, e.Err)
	for _, o := range e.Outcomes {
		d := o.Decision
		remaining := d.Remaining
		if (e.Status == 0 || o.Shadow) && d.Allowed && !d.Waived && !o.Condition {
			remaining = 0 // which the request has changed
		}
		if d.Limit.Algorithm() == "ban" || d.Limit.Algorithm() == "concurrent" {
			remaining = 0 // the request may have added a strike, or the one before is just giving back its place
		}
		fmt.Fprintf(&text, "\n%s %s %d %v %v %s allowed %v waived %v retry %v remaining %d", o.Policy, o.Key, o.Cost, o.Shadow, o.Condition, d.Limit,
			d.Allowed, d.Waived, d.RetryAfter, remaining)
	}
	return text.String()
}

// What is explained is what the Guard does, and changes nothing.
func TestExplainedIsDone(t *testing.T) {
	const text = `
limits: {a: "leaky 3, 1/m", b: "token-bucket 2, 1/m", c: "fixed-window 4, 1h", d: "sliding-log 2, 1h", e: "gcra 3, 1/m",
  f: "calendar 3, day UTC", g: "concurrent 50, 30s", h: "sliding-window 5, 1h"}
plans: {p: {free: "leaky 1, 1/m", staff: unlimited, "*": "leaky 2, 1/m"}}
bans: {x: "ban 2, 1h, first 10m, factor 2, longest 1d, forget 2d"}
lists: {allow: [198.51.100.0/24], deny: [203.0.113.66]}
policies:
  - {limit: a, key: ip}
  - {limit: e, key: user or ip, shadow: true}
  - {match: POST /b, limit: b, key: header X-Key, cost: 2}
  - {match: POST /b, limit: p, key: user}
  - {match: /c/, limit: c, key: ip and route, headroom: 1}
  - {match: /c/x, limit: d, key: global, enforced: 50%}
  - {match: /d, key: ip, firstOf: [{limit: d, headroom: 1}, {limit: b, key: global}, {limit: h, cost: 0}]}
  - {match: /d, limit: f, key: ip, enforced: 33.3%}
  - {match: {pattern: /c/x, header: {X-Key: "*"}}, limit: g, key: ip, maxWait: 1s}
  - {match: [/ban, /b], limit: h, key: global, shadow: true, cost: 2, settle: {5xx: 0}}
  - {match: /ban, ban: x, key: ip, strike: denials}
  - {match: /ban, limit: d, key: ip}
`
	header := func(name string) func(*http.Request) string {
		return func(r *http.Request) string { return r.Header.Get(name) }
	}
	d, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	s, err := d.Set(Options{Keys: map[string]keyfuncs.Func{"user": keyfuncs.User(header("User"))}, Plan: header("Plan")})
	if err != nil {
		t.Fatal(err)
	}
	client, example := redistest.Start(t).Client(t), 0
	rapid.Check(t, func(t *rapid.T) {
		var now atomic.Int64 // seconds; places are given back by another goroutine
		now.Store(time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC).Unix())
		clock := core.WithClock(func() time.Time { return time.Unix(now.Load(), 0) })
		limiter := core.New(core.NewMemory(clock))
		if rapid.Bool().Draw(t, "Redis") {
			example++
			limiter = core.New(core.NewRedis(client, clock, core.WithPrefix(fmt.Sprint("explain", example)), core.WithBudget(30*time.Second)))
			defer limiter.Close()
		}
		var seen *guard.Event
		h, err := guard.Follow(limiter, guard.Options{Observe: func(e guard.Event) {
			if !e.Settled {
				seen = &e
			}
		}}, s)
		if err != nil {
			t.Fatal(err)
		}
		handler := ratelimit.FromGuard(h)(fine)
		for range rapid.IntRange(1, 40).Draw(t, "requests") {
			now.Add(rapid.SampledFrom([]int64{0, 0, 0, 20, 90}).Draw(t, "seconds"))
			r := httptest.NewRequest(rapid.SampledFrom([]string{"GET", "POST"}).Draw(t, "method"),
				rapid.SampledFrom([]string{"/", "/b", "/c/", "/c/x", "/d", "/ban"}).Draw(t, "path"), nil)
			r.RemoteAddr = rapid.SampledFrom([]string{"203.0.113.1:1", "203.0.113.2:1", "203.0.113.66:1", "198.51.100.1:1"}).Draw(t, "peer")
			r.Header.Set("User", rapid.SampledFrom([]string{"", "1"}).Draw(t, "user"))
			r.Header.Set("Plan", rapid.SampledFrom([]string{"", "free", "staff"}).Draw(t, "plan"))
			r.Header.Set("X-Key", rapid.SampledFrom([]string{"", "k"}).Draw(t, "key"))
			explained := toldOf(h.Explain(r, nil))
			if again := toldOf(h.Explain(r, nil)); again != explained {
				t.Fatalf("explained as %s, and then %s", explained, again)
			}
			seen = &guard.Event{}
			handler.ServeHTTP(httptest.NewRecorder(), r)
			if done := toldOf(*seen); done != explained {
				t.Fatalf("%s %s: explained as\n%s\nand done as\n%s", r.Method, r.URL, explained, done)
			}
		}
	})
}
