package guard_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
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
	for want, c := range map[error]struct {
		policy guard.Policy
		status int
	}{
		guard.ErrNoLimit: {guard.Policy{LimitFor: func(*http.Request) core.Limit { return nil }}, http.StatusInternalServerError},
		guard.ErrNegativeCost: {guard.Policy{
			Limit: core.FixedWindow(1, time.Hour), Cost: func(*http.Request) int { return -3 }, By: keyfuncs.Global,
		}, http.StatusInternalServerError},
		guard.ErrNegativeHeadroom: {guard.Policy{
			Limit: core.FixedWindow(1, time.Hour), Headroom: func(*http.Request) int { return -3 }, By: keyfuncs.Global,
		}, http.StatusInternalServerError},
		guard.ErrDraining: {guard.Policy{Limit: core.Shaping(5, core.PerHour(1)), By: keyfuncs.Global}, http.StatusServiceUnavailable},
	} {
		var told error
		options := guard.Options{Draining: draining, Observe: func(e guard.Event) { told = e.Err }}
		g := guard.Must(guard.New(limiter, options, c.policy))
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		verdict := g.Decide(r, nil)
		if verdict.Denial == nil {
			verdict = g.Decide(r, nil) // which has to wait for its turn
		}
		if verdict.Denial == nil || verdict.Denial.Status != c.status || !errors.Is(told, want) {
			t.Errorf("denied with %+v, told of %v, want %d and %v", verdict.Denial, told, c.status, want)
		}
	}
}
