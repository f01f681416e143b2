package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/core/denialcache"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
	"github.com/weir-go/ratelimit/telemetry"
	"github.com/weir-go/ratelimit/telemetry/offenders"
)

// service is a small API, and its metrics.
type service struct {
	api      http.Handler
	console  http.Handler // for operators alone: metrics, and the clients that are denied
	limiter  *core.Limiter
	provider *metric.MeterProvider
}

func newService(url string, more ...core.Option) (*service, error) {
	registry := prometheus.NewRegistry()
	reader, err := exporter.New(exporter.WithRegisterer(registry), exporter.WithoutScopeInfo())
	if err != nil {
		return nil, err
	}
	s := &service{provider: metric.NewMeterProvider(metric.WithReader(reader))}
	reporter := telemetry.New(telemetry.Options{MeterProvider: s.provider, MostServers: 10})
	if s.limiter, err = open(url, core.WithTrace(reporter.Trace()), more...); err != nil {
		return nil, err
	}
	tracker := offenders.New(offenders.Options{HalfLife: time.Minute})
	options := ratelimit.Options{Observe: func(e ratelimit.Event) {
		reporter.Observe(e)
		tracker.Observe(e)
	}}

	// A client that names itself makes the load; a real service would not believe it.
	client := keyfuncs.Header("X-Client")
	items := ratelimit.New(s.limiter, options,
		ratelimit.Policy{Limit: core.Leaky(20, core.PerSecond(15)).Named("api"), By: client},
		ratelimit.Policy{Limit: core.GCRA(10, core.PerSecond(8)).Named("candidate"), By: client, Shadow: true})
	reports := ratelimit.New(s.limiter, options,
		ratelimit.Policy{Limit: core.Shaping(20, core.PerSecond(40)).Named("reports"), By: keyfuncs.Global})
	downloads := ratelimit.New(s.limiter, options, ratelimit.Policy{
		Limit: core.FixedWindow(20_000, 10*time.Second).Named("bytes"), By: client, OnError: guard.Fallback,
		Settle: ratelimit.SettlePolicy{Cost: func(_ *http.Request, served ratelimit.Served) int { return int(served.Bytes) }},
	})

	mux := http.NewServeMux()
	mux.Handle("GET /items/{id}", items(text("an item\n")))
	mux.Handle("GET /reports", reports(text("a report\n")))
	mux.Handle("GET /downloads", downloads(text(strings.Repeat("0123456789abcde\n", 256))))
	console := http.NewServeMux()
	console.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	console.Handle("GET /offenders", tracker)
	s.api, s.console = mux, console
	return s, nil
}

// open returns a limiter with every part traced.
func open(url string, trace core.Option, more ...core.Option) (*core.Limiter, error) {
	store, err := core.OpenStore(url, append(more, trace)...)
	if err != nil {
		return nil, err
	}
	return core.New(denialcache.New(store, 10_000, trace), trace), nil
}

func (s *service) close() {
	_ = s.limiter.Close()
	_ = s.provider.Shutdown(context.Background())
}

func text(body string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) })
}
