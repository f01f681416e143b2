package guard_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
)

func TestErrorsOfEventsCanBeToldApart(t *testing.T) {
	draining, stop := context.WithCancel(t.Context())
	stop()
	limiter := memory()
	for want, c := range map[string]struct {
		policy guard.Policy
		status int
	}{
		"LimitFor has returned no Limit: return a limit, or core.Unlimited where there is none": {guard.Policy{LimitFor: func(*http.Request) core.Limit { return nil }}, http.StatusInternalServerError},
		"cost -3 is negative": {guard.Policy{
			Limit: core.FixedWindow(1, time.Hour), Cost: func(*http.Request) int { return -3 }, By: keyfuncs.Global,
		}, http.StatusInternalServerError},
		"headroom -3 is negative": {guard.Policy{
			Limit: core.FixedWindow(1, time.Hour), Headroom: func(*http.Request) int { return -3 }, By: keyfuncs.Global,
		}, http.StatusInternalServerError},
		guard.ErrDraining.Error(): {guard.Policy{Limit: core.Shaping(5, core.PerHour(1)), By: keyfuncs.Global}, http.StatusServiceUnavailable},
	} {
		var told error
		options := guard.Options{Draining: draining, Observe: func(e guard.Event) { told = e.Err }}
		g := guard.Must(guard.New(limiter, options, c.policy))
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		verdict := g.Decide(r, nil)
		if verdict.Denial == nil {
			verdict = g.Decide(r, nil) // which has to wait for its turn
		}
		if verdict.Denial == nil || verdict.Denial.Status != c.status || told == nil || !strings.Contains(told.Error(), want) {
			t.Errorf("denied with %+v, told of %v, want %d and %q", verdict.Denial, told, c.status, want)
		}
	}
}

// Policies that count by the peer have one key of a request, which those between them do not share, and the next request has another one.
func TestThePeerOfARequestIsOneForAllPolicies(t *testing.T) {
	moves := func(r *http.Request) (string, error) {
		r.RemoteAddr = "198.51.100.7:1"
		return "moved", nil
	}
	limit := func(name string) core.Limit { return core.Leaky(9, core.PerSecond(1)).Named(name) }
	var keys []string
	g := guard.Must(guard.New(memory(), guard.Options{Observe: func(e guard.Event) {
		keys = nil
		for _, o := range e.Outcomes {
			keys = append(keys, o.Policy+" "+o.Key)
		}
	}}, append([]guard.Policy{
		{Limit: limit("a")},
		{Limit: limit("b"), By: moves},
		{Limit: limit("c"), By: keyfuncs.RemoteIP},
		{Limit: limit("d"), By: keyfuncs.Global},
		{Limit: limit("e"), By: keyfuncs.IP()},
		{Limit: limit("f"), Shadow: true},
	}, guard.FirstOf(guard.Policy{Limit: limit("g")}, guard.Policy{Limit: limit("h"), By: keyfuncs.Host})...)...))
	for _, peer := range []string{"192.0.2.1", "192.0.2.2"} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = peer + ":80"
		g.Decide(r, nil)
		want := "a ip:" + peer + ", b moved, c ip:" + peer + ", d global, e ip:198.51.100.7, g ip:" + peer + ", h host:example.com, f ip:" + peer
		if got := strings.Join(keys, ", "); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}
