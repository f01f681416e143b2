package serving

import (
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"google.golang.org/grpc/credentials/insecure"
)

// scrape reads metrics as Prometheus does.
func scrape(t *testing.T, at net.Addr, path string) map[string]*dto.MetricFamily {
	t.Helper()
	code, text := get(t, "http://"+at.String()+path)
	if code != http.StatusOK {
		t.Fatalf("%s is answered %d", path, code)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// TestPrometheusReadsTheMetrics asks once by gRPC, reads files that make no sense, and scrapes both addresses.
func TestPrometheusReadsTheMetrics(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "limits.yaml", limits)
	r := start(t, func(s *Settings) {
		given, err := FromEnvironment([]string{"USE_PROMETHEUS=true", "PROMETHEUS_ADDR=127.0.0.1:0", "PROMETHEUS_PATH=/stats/prometheus"})
		if err != nil {
			t.Fatal(err)
		}
		s.Metrics, s.Config = given.Metrics, dir
	})
	request := &pb.RateLimitRequest{Domain: "d", Descriptors: []*common.RateLimitDescriptor{
		{Entries: []*common.RateLimitDescriptor_Entry{{Key: "two", Value: "a"}}},
	}}
	client := pb.NewRateLimitServiceClient(dial(t, r.GRPC.String(), insecure.NewCredentials()))
	if _, err := client.ShouldRateLimit(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "limits.yaml", "domain: [")
	eventually(t, "the files are refused", func() bool { return r.log.has("the former one stays") })
	for _, families := range []map[string]*dto.MetricFamily{scrape(t, r.Metrics, "/stats/prometheus"), scrape(t, r.Debug, "/metrics")} {
		for name, want := range map[string]float64{
			"ratelimit_service_rate_limit_total_hits": 1, "ratelimit_service_config_load_success": 1, "ratelimit_checks_total": 1,
		} {
			if got := families[name].GetMetric(); len(got) != 1 || got[0].GetCounter().GetValue() != want {
				t.Errorf("%s is %v, want %v", name, got, want)
			}
		}
		if got := families["ratelimit_service_config_load_error"].GetMetric(); len(got) != 1 || got[0].GetCounter().GetValue() == 0 {
			t.Errorf("the configurations that were refused are %v", got)
		}
		if families["ratelimit_serve_request_duration_seconds"] == nil || families["go_goroutines"] == nil {
			t.Error("metrics of requests or of the process are missing")
		}
	}
	if code, _ := get(t, "http://"+r.Metrics.String()+"/metrics"); code != http.StatusNotFound {
		t.Errorf("another path is answered %d", code)
	}
}

// TestMetricsByDefault has own names alone, at the address for debugging.
func TestMetricsByDefault(t *testing.T) {
	r := start(t, func(*Settings) {})
	for name := range scrape(t, r.Debug, "/metrics") {
		if strings.HasPrefix(name, "ratelimit_service_") {
			t.Errorf("%s is there unasked", name)
		}
	}
	if r.Metrics != nil {
		t.Errorf("something listens at %v unasked", r.Metrics)
	}
}

// TestNoMetrics counts nothing with DISABLE_STATS.
func TestNoMetrics(t *testing.T) {
	r := start(t, func(s *Settings) {
		given, err := FromEnvironment([]string{"USE_PROMETHEUS=true", "DISABLE_STATS=true", "PROMETHEUS_ADDR=127.0.0.1:0"})
		if err != nil {
			t.Fatal(err)
		}
		s.Metrics = given.Metrics
	})
	if code, _ := get(t, "http://"+r.Debug.String()+"/metrics"); code != http.StatusNotFound || r.Metrics != nil {
		t.Errorf("/metrics is answered %d, and something listens at %v", code, r.Metrics)
	}
}

// TestMetricsOfPolicies listens for Prometheus where nothing listens for debugging.
func TestMetricsOfPolicies(t *testing.T) {
	file := write(t, t.TempDir(), "limits.yaml", policiesText)
	r := start(t, func(s *Settings) {
		s.Config, s.Policies = "", Policies{File: file, Trusted: []string{"127.0.0.1"}, Replicas: 1}
		s.Metrics.Address = "127.0.0.1:0"
	})
	if status, _ := r.check(t, "/check", "203.0.113.9"); status != http.StatusOK {
		t.Errorf("the check is answered %d", status)
	}
	families := scrape(t, r.Metrics, "/metrics")
	if got := families["ratelimit_decisions_total"].GetMetric(); len(got) != 1 || got[0].GetCounter().GetValue() != 1 {
		t.Errorf("the decisions are %v, want one", got)
	}
	if families["ratelimit_checks_total"] != nil {
		t.Error("a decision of a policy counts twice")
	}
}

// TestMetricSettings reads variables.
func TestMetricSettings(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		environ []string
		want    Metrics
		fails   bool
	}{
		{nil, Metrics{Path: "/metrics", NearRatio: 0.8}, false},
		{[]string{"PROMETHEUS_ADDR=:1"}, Metrics{Path: "/metrics", NearRatio: 0.8}, false},
		{[]string{"USE_PROMETHEUS=true"}, Metrics{Address: ":9090", Path: "/metrics", Reference: true, NearRatio: 0.8}, false},
		{
			[]string{"USE_PROMETHEUS=true", "PROMETHEUS_ADDR=:1", "PROMETHEUS_PATH=/m", "NEAR_LIMIT_RATIO=0.5"},
			Metrics{Address: ":1", Path: "/m", Reference: true, NearRatio: 0.5},
			false,
		},
		{[]string{"NEAR_LIMIT_RATIO=1.5"}, Metrics{Path: "/metrics", NearRatio: 0.8}, true},
		{[]string{"NEAR_LIMIT_RATIO=NaN"}, Metrics{Path: "/metrics", NearRatio: 0.8}, true},
		{[]string{"PROMETHEUS_PATH=m"}, Metrics{Path: "m", NearRatio: 0.8}, true},
		{[]string{"DISABLE_STATS=true", "USE_PROMETHEUS=true"}, Metrics{Off: true, Path: "/metrics", Reference: true, NearRatio: 0.8}, false},
	} {
		s, err := FromEnvironment(test.environ)
		if s.Metrics != test.want || (err != nil) != test.fails {
			t.Errorf("%v makes %+v (%v), want %+v", test.environ, s.Metrics, err, test.want)
		}
		if len(s.Ignored) > 0 {
			t.Errorf("%v: %v have no effect", test.environ, s.Ignored)
		}
	}
}

// TestTheAddressForMetricsIsTaken says so at the start.
func TestTheAddressForMetricsIsTaken(t *testing.T) {
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	settings, err := FromEnvironment(nil)
	if err != nil {
		t.Fatal(err)
	}
	settings.Store.URL, settings.Config = "memory:", filepath.Dir(write(t, t.TempDir(), "limits.yaml", limits))
	settings.Metrics.Address = taken.Addr().String()
	if err := Run(t.Context(), settings, slog.New(slog.DiscardHandler), func(Addresses) { t.Error("it listens") }); err == nil {
		t.Error("no error")
	}
}
