// Package metrics counts the work of a rate limit service for Prometheus: the metrics of the library's telemetry, and on request those of
// github.com/envoyproxy/ratelimit.
//
// The memory that it takes is bounded, whatever requests ask for.
package metrics

import (
	"context"
	"math"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/attribute"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/telemetry"
)

// Options say which metrics there are.
type Options struct {
	// Reference adds the metrics of github.com/envoyproxy/ratelimit, under their names.
	Reference bool
	// Checks counts the decisions of the limiter. Those about policies are counted without it.
	Checks bool
	// NearRatio is the part of a limit from which on requests are near it, from 0 to 1.
	NearRatio float64
}

// Outcome is the outcome of a request to the service.
type Outcome int

// The outcomes of a request to the service.
const (
	Allowed Outcome = iota
	Denied
	Failed
	outcomes int = iota
)

// Metrics are the metrics of one service. They may be used by many goroutines at once. All methods of a nil *Metrics do nothing.
type Metrics struct {
	reporter  *telemetry.Reporter
	provider  *sdk.MeterProvider
	handler   http.Handler
	reference *Reference // nil: its metrics are not asked for

	durations     metric.Float64Histogram
	of            [outcomes][]metric.RecordOption
	used, refused prometheus.Counter // configurations
}

// New returns metrics that have counted nothing yet.
func New(options Options) (*Metrics, error) {
	registry := prometheus.NewRegistry()
	reader, err := exporter.New(exporter.WithRegisterer(registry), exporter.WithoutScopeInfo(), exporter.WithoutTargetInfo())
	if err != nil {
		return nil, err
	}
	m := &Metrics{provider: sdk.NewMeterProvider(sdk.WithReader(reader))}
	m.reporter = telemetry.New(telemetry.Options{
		MeterProvider: m.provider, TracerProvider: noop.NewTracerProvider(), Checks: options.Checks,
		NearLimit: max(1-options.NearRatio, math.SmallestNonzeroFloat64), // 0 would be a default
	})
	meter := m.provider.Meter("github.com/weir-go/ratelimit/cmd/weir")
	m.durations, err = meter.Float64Histogram("ratelimit.serve.request.duration", metric.WithUnit("s"),
		metric.WithDescription("How long requests of Envoy took."), metric.WithExplicitBucketBoundaries(seconds...))
	if err != nil {
		return nil, err
	}
	for outcome, name := range [outcomes]string{Allowed: "allowed", Denied: "denied", Failed: "error"} {
		m.of[outcome] = []metric.RecordOption{metric.WithAttributeSet(attribute.NewSet(attribute.String("ratelimit.outcome", name)))}
	}
	m.used, m.refused = configurations("used"), configurations("refused")
	all := []prometheus.Collector{m.used, m.refused, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})}
	if options.Reference {
		m.reference = newReference(options.NearRatio)
		all = append(all, m.reference)
	}
	for _, one := range all {
		if err := registry.Register(one); err != nil {
			return nil, err
		}
	}
	// OpenMetrics would append _total to the names of the reference.
	m.handler = promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: mostScrapes})
	return m, nil
}

// configurations returns the counter of configurations with an outcome.
func configurations(outcome string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{
		Name: "ratelimit_serve_configurations_total", Help: "Configurations that were read, by whether they made sense.",
		ConstLabels: prometheus.Labels{"ratelimit_outcome": outcome},
	})
}

// mostScrapes is how many scrapes are answered at once.
const mostScrapes = 4

// seconds are the bounds of durations: a request takes a fraction of a millisecond, and as long as it waits for the store if that is slow.
var seconds = []float64{
	0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
}

// Handler answers scrapes.
func (m *Metrics) Handler() http.Handler { return m.handler }

// Close ends the counting.
func (m *Metrics) Close(ctx context.Context) error {
	if m == nil {
		return nil
	}
	return m.provider.Shutdown(ctx)
}

// Trace returns a trace for the store that is asked.
func (m *Metrics) Trace() core.Trace {
	if m == nil {
		return core.Trace{}
	}
	return m.reporter.Trace()
}

// Observe returns a function for the events of policies, or nil if nothing is counted.
func (m *Metrics) Observe() func(guard.Event) {
	if m == nil {
		return nil
	}
	return m.reporter.Observe
}

// Reference returns the metrics of the reference, or nil if they are not asked for.
func (m *Metrics) Reference() *Reference {
	if m == nil {
		return nil
	}
	return m.reference
}

// Answered counts a request of Envoy, and how long it took.
func (m *Metrics) Answered(ctx context.Context, outcome Outcome, took time.Duration) {
	if m == nil {
		return
	}
	m.durations.Record(ctx, took.Seconds(), m.of[outcome]...)
	if m.reference != nil {
		m.reference.requests.Inc()
		m.reference.durations.Observe(took.Seconds())
	}
}

// Configured counts a configuration that was read: it made sense, and is used from now on, or it was refused.
func (m *Metrics) Configured(sense bool) {
	if m == nil {
		return
	}
	if sense {
		m.used.Inc()
	} else {
		m.refused.Inc()
	}
	switch {
	case m.reference == nil:
	case sense:
		m.reference.loaded.Inc()
	default:
		m.reference.unloaded.Inc()
	}
}
