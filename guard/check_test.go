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
