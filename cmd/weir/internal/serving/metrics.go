package serving

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/weir-go/ratelimit/cmd/weir/internal/metrics"
)

// Metrics say what is counted, and where Prometheus reads it.
type Metrics struct {
	// Off counts nothing.
	Off bool
	// Address is where Prometheus reads the metrics, beside the address for debugging, and Path the path there. Without an address there is no such place.
	Address, Path string
	// Reference adds the metrics of the reference, under its names.
	Reference bool
	// NearRatio is the part of a limit from which on requests are near it.
	NearRatio float64
}

func metricsOf(e *environment) Metrics {
	m := Metrics{
		Off: e.boolean("DISABLE_STATS", false), Path: e.text("PROMETHEUS_PATH", "/metrics"), Reference: e.boolean("USE_PROMETHEUS", false),
		NearRatio: read(e, "NEAR_LIMIT_RATIO", 0.8, func(text string) (float64, error) {
			ratio, err := strconv.ParseFloat(text, 32)
			if err == nil && !(ratio >= 0 && ratio <= 1) {
				err = errors.New("no part")
			}
			return ratio, err
		}),
	}
	if address := e.text("PROMETHEUS_ADDR", ":9090"); m.Reference && !m.Off {
		m.Address = address
	}
	if !strings.HasPrefix(m.Path, "/") {
		e.errors = append(e.errors, errors.New("PROMETHEUS_PATH has to begin with a slash"))
	}
	return m
}

// count returns the metrics, or nil if there are none, and lets the store and the service count.
func (s *Settings) count() (*metrics.Metrics, error) {
	if s.Metrics.Off {
		return nil, nil //nolint:nilnil // nothing is counted
	}
	m, err := metrics.New(metrics.Options{Reference: s.Metrics.Reference, Checks: s.ServesEnvoy(), NearRatio: s.Metrics.NearRatio})
	if err != nil {
		return nil, err
	}
	s.Rules.Metrics, s.Store.Trace = m, m.Trace()
	return m, nil
}

// serveMetrics serves the metrics at their own address, if they have one, until the function that it returns is called: until the very end, so that
// Prometheus reads what happens then.
func (s *server) serveMetrics(ctx context.Context) (end func(), err error) {
	if s.metrics == nil || s.settings.Metrics.Address == "" {
		return func() {}, nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.settings.Metrics.Address)
	if err != nil {
		return nil, err
	}
	s.metricsAt = listener.Addr()
	handler := s.metrics.Handler()
	web := s.webServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != s.settings.Metrics.Path {
			http.NotFound(w, r)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := web.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			s.logger.Error("the metrics are no longer served", "error", err)
		}
	}()
	return func() {
		_ = web.Close()
		<-done
	}, nil
}
