package telemetry_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
	"github.com/weir-go/ratelimit/telemetry"
)

type gone struct{ core.Store }

var errGone = errors.New("gone")

func (gone) Decide(context.Context, []core.Call) (int, error) { return 0, errGone }

// asked has so many requests asked about, and returns how many passed, and what a counter
// says of those with an attribute.
func asked(t *testing.T, store core.Store, requests int, counter string, with attribute.KeyValue, policies ...guard.Policy) (passed int, counted int64) {
	t.Helper()
	reader := metric.NewManualReader()
	reporter := telemetry.New(telemetry.Options{MeterProvider: metric.NewMeterProvider(metric.WithReader(reader))})
	for i := range policies {
		policies[i].By = keyfuncs.Global
	}
	h := ratelimit.New(core.New(store), guard.Options{Observe: reporter.Observe}, policies...)(
		http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for range requests {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		if w.Code == http.StatusOK {
			passed++
		}
	}
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	for _, s := range all.ScopeMetrics {
		for _, m := range s.Metrics {
			if sum, ok := m.Data.(metricdata.Sum[int64]); ok && m.Name == counter {
				for _, p := range sum.DataPoints {
					if v, ok := p.Attributes.Value(with.Key); ok && v == with.Value {
						counted += p.Value
					}
				}
			}
		}
	}
	return passed, counted
}

// What has failed open is what has gone through unasked, and nothing else.
func TestFailOpenIsWhatHasGoneThrough(t *testing.T) {
	one := core.Leaky(1, core.PerHour(1))
	for name, c := range map[string]struct {
		policies []guard.Policy
		want     int64
	}{
		"by default": {[]guard.Policy{{Limit: one.Named("a")}}, 3},
		"a shadow beside a fallback": {[]guard.Policy{
			{Limit: one.Named("a"), OnError: guard.Fallback}, {Limit: one.Named("candidate"), Shadow: true},
		}, 0},
		"beside one that fails closed": {[]guard.Policy{
			{Limit: one.Named("a"), OnError: guard.FailClosed}, {Limit: one.Named("b")},
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			_, counted := asked(t, gone{core.NewMemory()}, 3, "ratelimit.decisions", attribute.String("ratelimit.error_mode", "fail-open"), c.policies...)
			if counted != c.want {
				t.Errorf("%d have failed open, want %d", counted, c.want)
			}
		})
	}
}

// A client that is denied by one policy does not bring another one near its limit.
func TestNearLimitIsOfWhatHasPassed(t *testing.T) {
	passed, near := asked(t, core.NewMemory(), 100, "ratelimit.near_limit", attribute.String("ratelimit.policy", "big"),
		guard.Policy{Limit: core.Leaky(29, core.PerDay(1)).Named("small")},
		guard.Policy{Limit: core.FixedWindow(30, 24*time.Hour).Named("big")})
	if passed != 29 || near != 2 {
		t.Errorf("%d have passed, and %d of them near the limit, want 29 and 2", passed, near)
	}
}
