package telemetry_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
	"github.com/weir-go/ratelimit/telemetry"
	"github.com/weir-go/ratelimit/telemetry/offenders"
)

// One reporter tells OpenTelemetry of all middleware and of the store.
func Example() {
	// A program sets up the SDK with an exporter; here it is read by hand.
	reader := sdk.NewManualReader()
	reporter := telemetry.New(telemetry.Options{MeterProvider: sdk.NewMeterProvider(sdk.WithReader(reader))})

	limiter, err := core.Open("memory:", core.WithTrace(reporter.Trace()))
	if err != nil {
		panic(err)
	}
	limit := ratelimit.New(limiter, guard.Options{Observe: reporter.Observe},
		guard.Policy{Limit: core.Leaky(2, core.PerMinute(1)).Named("api")})
	handler := limit(http.NotFoundHandler())
	for range 5 {
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
	}

	var all metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &all); err != nil {
		panic(err)
	}
	for _, metric := range all.ScopeMetrics[0].Metrics {
		if sum, ok := metric.Data.(metricdata.Sum[int64]); ok && metric.Name == "ratelimit.decisions" {
			for _, point := range sum.DataPoints {
				outcome, _ := point.Attributes.Value("ratelimit.outcome")
				fmt.Println(outcome.AsString(), point.Value)
			}
		}
	}
	// Unordered output:
	// allowed 2
	// denied 3
}

// To hear of events yourself, too, tell the reporter from a function of your own.
func ExampleReporter_Observe() {
	reporter := telemetry.New(telemetry.Options{})
	tracker := offenders.New(offenders.Options{})
	options := guard.Options{Observe: func(e guard.Event) {
		reporter.Observe(e)
		tracker.Observe(e)
		if e.Status == http.StatusTooManyRequests {
			fmt.Println("denied by", e.Outcomes[0].Policy)
		}
	}}
	limit := ratelimit.New(core.New(core.NewMemory()), options, guard.Policy{Limit: core.FixedWindow(1, time.Minute)})
	for range 2 {
		limit(http.NotFoundHandler()).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
	}
	// Output: denied by fixed-window:1:1m
}

// Metrics without spans, in a program that traces.
func ExampleNew_withoutSpans() {
	reporter := telemetry.New(telemetry.Options{TracerProvider: noop.NewTracerProvider()})
	_ = guard.Options{Observe: reporter.Observe}
	// Output:
}
