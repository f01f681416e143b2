package telemetry_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	tracesdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/core/denialcache"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/telemetry"
	"github.com/weir-go/ratelimit/telemetry/offenders"
)

// instant answers at once, so that what is left is what the middleware and telemetry cost.
type instant struct {
	core.Store

	decision core.Decision
}

func (i instant) Decide(_ context.Context, calls []core.Call) (answered int, err error) {
	for j, check := range calls[0].Checks {
		calls[0].Decisions[j] = i.decision
		calls[0].Decisions[j].Limit = check.Limit
	}
	return 1, nil
}

// BenchmarkMiddleware is a request through the middleware, with telemetry off and on.
func BenchmarkMiddleware(b *testing.B) {
	never := tracesdk.NewTracerProvider(tracesdk.WithSampler(tracesdk.NeverSample()))
	always := tracesdk.NewTracerProvider() // which exports to nobody
	for _, outcome := range []struct {
		name     string
		decision core.Decision
	}{
		{"allowed", core.Decision{Allowed: true, Remaining: 9, NextAfter: time.Second, ResetAfter: time.Second}},
		{"denied", core.Decision{RetryAfter: time.Second, NextAfter: time.Second, ResetAfter: time.Second}},
	} {
		reporting := func(options telemetry.Options) func(b *testing.B) func(guard.Event) {
			return func(b *testing.B) func(guard.Event) {
				b.Helper()
				reporter, _ := newReporter(b, options)
				return reporter.Observe
			}
		}
		for _, telemetric := range []struct {
			name    string
			request trace.TracerProvider // that has made the request's span, or nil
			observe func(b *testing.B) func(guard.Event)
		}{
			{"off", nil, func(*testing.B) func(guard.Event) { return nil }},
			{"metrics", nil, reporting(telemetry.Options{})},
			{"unsampled-spans", never, reporting(telemetry.Options{TracerProvider: never})},
			{"sampled-spans", always, reporting(telemetry.Options{TracerProvider: always})},
			{"offenders", nil, func(*testing.B) func(guard.Event) {
				return offenders.New(offenders.Options{}).Observe
			}},
		} {
			b.Run(outcome.name+"/"+telemetric.name, func(b *testing.B) {
				g := guard.Must(guard.New(core.New(instant{decision: outcome.decision}), guard.Options{Observe: telemetric.observe(b)},
					guard.Policy{Limit: core.Leaky(10, core.PerSecond(1)).Named("api")}))
				h, r := make(http.Header), httptest.NewRequest(http.MethodGet, "/", nil)
				if telemetric.request != nil {
					ctx, span := telemetric.request.Tracer("server").Start(b.Context(), "GET /")
					defer span.End()
					r = r.WithContext(ctx)
				}
				b.ReportAllocs()
				for b.Loop() {
					g.Decide(r, nil).WriteHeader(h)
				}
			})
		}
	}
}

// BenchmarkStore is what a trace costs the store's own work: a repeated denial, and what
// is told of a batch.
func BenchmarkStore(b *testing.B) {
	limit := core.FixedWindow(1, time.Hour)
	for _, name := range []string{"off", "metrics"} {
		b.Run("repeated/"+name, func(b *testing.B) {
			var options []core.Option
			if name == "metrics" {
				reporter, _ := newReporter(b, telemetry.Options{})
				options = append(options, core.WithTrace(reporter.Trace()))
			}
			limiter := core.New(denialcache.New(core.NewMemory(), 10, options...))
			for range 2 {
				_, _ = limiter.Allow(b.Context(), "key", limit)
			}
			b.ReportAllocs()
			for b.Loop() {
				_, _ = limiter.Allow(b.Context(), "key", limit)
			}
		})
	}
	b.Run("call", func(b *testing.B) {
		reporter, _ := newReporter(b, telemetry.Options{})
		trace := reporter.Trace()
		batch := core.Batch{Server: "127.0.0.1:6379", Calls: 3, Checks: 5, Elapsed: 100 * time.Microsecond}
		b.ReportAllocs()
		for b.Loop() {
			trace.Batch(batch)
		}
	})
}
