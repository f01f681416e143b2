package policies

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/internal/redistest"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
)

// What is said of a state is what becomes of it in a server: on both stores, and for each row of the table in docs/changing-a-limit.md.
func TestWhatIsSaidOfAStateIsDone(t *testing.T) {
	const (
		named  = "limits: {a: '%s'}\npolicies: [{limit: a, key: ip}]"
		policy = "limits: {a: 'leaky 9, 1/h'}\npolicies: [{limit: a, key: ip%s}]"
		plans  = "plans: {a: {free: '%s', '*': 'leaky 9, 1/h'}}\npolicies: [{limit: a, key: ip}]"
	)
	type row struct {
		name, was, now string
		kept           bool
	}
	rows := []row{
		{"the numbers of a limit without a name", "policies: [{limit: 'leaky 9, 1/h', key: ip}]", "policies: [{limit: 'leaky 8, 1/h', key: ip}]", false},
		{"the same numbers without a name", "policies: [{limit: 'leaky 9, 1/h', key: ip}]", "policies: [{limit: 'leaky 9, 1/h', key: ip, headroom: 1}]", true},
		{"the name", fmt.Sprintf(named, "leaky 9, 1/h"), "limits: {b: 'leaky 9, 1/h'}\npolicies: [{limit: b, key: ip}]", false},
		{"a key that reads the same", fmt.Sprintf(policy, ""), fmt.Sprintf(policy, " trusted 10.0.0.0/8"), true},
		{"another key", fmt.Sprintf(policy, ""), fmt.Sprintf(policy, " and host"), false},
		{"shadow, on", fmt.Sprintf(policy, ""), fmt.Sprintf(policy, ", shadow: true"), false},
		{"shadow, off", fmt.Sprintf(policy, ", shadow: true"), fmt.Sprintf(policy, ""), false},
		{"enforced, from a share without the key", fmt.Sprintf(policy, ", enforced: 0.0001%"), fmt.Sprintf(policy, ""), false},
		{"enforced, from a share with the key", fmt.Sprintf(policy, ", enforced: 99.9999%"), fmt.Sprintf(policy, ""), true},
		{"match", fmt.Sprintf(policy, ""), fmt.Sprintf(policy, ", match: /"), true},
		{"cost and settle", fmt.Sprintf(policy, ""), fmt.Sprintf(policy, ", cost: 2, settle: {5xx: 1}"), true},
		{"the name of the policy", fmt.Sprintf(policy, ""), fmt.Sprintf(policy, ", name: x"), true},
		{"onError", fmt.Sprintf(policy, ""), fmt.Sprintf(policy, ", onError: closed"), true},
		{"the plan of a key", fmt.Sprintf(plans, "leaky 5, 1/h"), "plans: {a: {paid: 'leaky 7, 1/m', '*': 'leaky 20, 1/h'}}\npolicies: [{limit: a, key: ip}]", true},
		{"a limit that becomes one by plan", fmt.Sprintf(named, "leaky 5, 1/h"), fmt.Sprintf(plans, "leaky 5, 1/h"), true},
	}
	limits := []string{
		"leaky 9, 1/h", "leaky 90, 7/m", "leaky 3, 1/d", "shaping 9, 1/h", "token-bucket 9, 1/h", "token-bucket 3, 2/m", "gcra 9, 1/h", "gcra 4, 5/h",
		"fixed-window 9, 1h", "fixed-window 20, 1d", "sliding-window 9, 1h", "sliding-window 20, 1d", "sliding-log 9, 1h", "sliding-log 4, 1d",
		"calendar 9, day UTC", "calendar 90, month UTC", "calendar 9, week UTC",
	}
	for _, was := range limits {
		for _, now := range limits {
			r := row{was + " to " + now, fmt.Sprintf(named, was), fmt.Sprintf(named, now), false}
			for _, c := range Between(parsed(t, r.was), parsed(t, r.now)) {
				r.kept = c.State == kept
			}
			if was == now {
				r.kept = true
			}
			rows = append(rows, r)
		}
	}
	clock := func() time.Time { return time.Date(2026, 11, 18, 12, 30, 0, 0, time.UTC) }
	client := redistest.Start(t).Client(t)
	for i, r := range rows {
		for store, limiter := range map[string]*core.Limiter{
			"memory": core.New(core.NewMemory(core.WithClock(clock))),
			"Redis":  core.New(core.NewRedis(client, core.WithClock(clock), core.WithPrefix(fmt.Sprint("row", i)), core.WithBudget(30*time.Second))),
		} {
			if kept := keeps(t, limiter, r.was, r.now); kept != r.kept {
				t.Errorf("%s, %s: kept is %v, want %v", store, r.name, kept, r.kept)
			}
			if err := limiter.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// keeps reports whether a key that has used something under one text has used it under the other.
func keeps(t *testing.T, limiter *core.Limiter, was, now string) bool {
	t.Helper()
	handle := func(text string) *guard.Guard {
		s, err := parsed(t, text).Set(Options{Plan: func(*http.Request) string { return "" }})
		if err != nil {
			t.Fatal(err)
		}
		h, err := guard.Follow(limiter, guard.Options{}, s)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	ratelimit.FromGuard(handle(was))(http.NotFoundHandler()).ServeHTTP(httptest.NewRecorder(), r)
	e := handle(now).Explain(r, nil)
	if e.Err != nil || len(e.Outcomes) != 1 {
		t.Fatalf("%+v of\n%s", e, now)
	}
	return e.Outcomes[0].Decision.Remaining < e.Outcomes[0].Decision.Limit.Capacity()
}
