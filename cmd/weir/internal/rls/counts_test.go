package rls

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/weir-go/ratelimit/cmd/weir/internal/metrics"
	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/core/denialcache"
)

const countedLimits = `
domain: d
descriptors:
  - {key: ten, rate_limit: {unit: day, requests_per_unit: 10}}
  - {key: none, rate_limit: {unit: day, requests_per_unit: 0}}
  - {key: free, rate_limit: {unlimited: true}}
  - {key: shade, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: value, value_to_metric: true, rate_limit: {unit: day, requests_per_unit: 10}}
  - {key: detail, detailed_metric: true, rate_limit: {unit: day, requests_per_unit: 10}}
  - {key: deep, descriptors: [{key: below, rate_limit: {unit: day, requests_per_unit: 10}}]}
  - {key: owing, rate_limit: {unit: day, requests_per_unit: 10, debt: 10}}
  - {key: named, rate_limit: {unit: day, requests_per_unit: 10, name: n}}
  - {key: instead, rate_limit: {unit: day, requests_per_unit: 10, replaces: [{name: n}]}}
`

// count returns metrics with the names of the reference.
func count(t *testing.T, reference bool) *metrics.Metrics {
	t.Helper()
	m, err := metrics.New(metrics.Options{Reference: reference, Checks: true, NearRatio: 0.8})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close(t.Context()) })
	return m
}

// scraped returns all counters whose names begin with a text, each as "name{labels} value", without that beginning.
func scraped(t *testing.T, m *metrics.Metrics, prefix string) []string {
	t.Helper()
	answer := httptest.NewRecorder()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody)
	request.Header.Set("Accept", "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.4,*/*;q=0.1") // as Prometheus asks
	m.Handler().ServeHTTP(answer, request)
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for name, family := range families {
		short, found := strings.CutPrefix(name, prefix)
		if !found {
			continue
		}
		for _, one := range family.GetMetric() {
			var labels []string
			for _, pair := range one.GetLabel() {
				labels = append(labels, pair.GetName()+"="+pair.GetValue())
			}
			value := one.GetCounter().GetValue()
			if h := one.GetHistogram(); h != nil {
				value = float64(h.GetSampleCount())
			}
			all = append(all, short+"{"+strings.Join(labels, ",")+"} "+strconv.FormatFloat(value, 'f', -1, 64))
		}
	}
	slices.Sort(all)
	return all
}

// TestCountsByTheNamesOfTheReference asks, and reads all counters by descriptor.
func TestCountsByTheNamesOfTheReference(t *testing.T) {
	t.Parallel()
	day := typev3.RateLimitUnit_DAY
	for name, test := range map[string]struct {
		options  Options
		requests [][]*common.RateLimitDescriptor
		want     []string
	}{
		"within, near and over": {Options{}, [][]*common.RateLimitDescriptor{
			{hits(9, descriptor("ten=a"))}, {descriptor("ten=a")}, {hits(2, descriptor("ten=a"))},
		}, []string{
			"near_limit{domain=d,key1=ten} 2", "over_limit{domain=d,key1=ten} 2", "total_hits{domain=d,key1=ten} 12",
			"within_limit{domain=d,key1=ten} 10",
		}},
		"partly over, as the reference counts": {Options{AsReference: true}, [][]*common.RateLimitDescriptor{
			{hits(7, descriptor("ten=a"))}, {hits(5, descriptor("ten=a"))}, {descriptor("ten=a")},
		}, []string{
			"near_limit{domain=d,key1=ten} 2", "over_limit{domain=d,key1=ten} 3", "total_hits{domain=d,key1=ten} 13",
			"within_limit{domain=d,key1=ten} 7",
		}},
		"partly over, into debt": {Options{}, [][]*common.RateLimitDescriptor{
			{hits(7, descriptor("owing=a"))}, {hits(5, descriptor("owing=a"))}, {descriptor("owing=a")},
		}, []string{
			"near_limit{domain=d,key1=owing} 2", "over_limit{domain=d,key1=owing} 3", "total_hits{domain=d,key1=owing} 13",
			"within_limit{domain=d,key1=owing} 7",
		}},
		"denied by another one": {Options{}, [][]*common.RateLimitDescriptor{{descriptor("ten=a"), descriptor("none=")}}, []string{
			"over_limit{domain=d,key1=none} 1", "total_hits{domain=d,key1=none} 1", "total_hits{domain=d,key1=ten} 1",
			"within_limit{domain=d,key1=ten} 1",
		}},
		"a shadow": {Options{}, [][]*common.RateLimitDescriptor{{hits(3, descriptor("shade=a"))}}, []string{
			"over_limit{domain=d,key1=shade} 3", "shadow_mode{domain=d,key1=shade} 3", "total_hits{domain=d,key1=shade} 3",
		}},
		"not counted: unlimited, unmatched, looks, given back, replaced": {Options{}, [][]*common.RateLimitDescriptor{
			{descriptor("free=a")},
			{descriptor("unmatched=a")},
			{hits(0, descriptor("ten=a"))},
			{refund(1, descriptor("ten=a"))},
			{descriptor("named=a"), descriptor("instead=a")},
		}, []string{"total_hits{domain=d,key1=instead} 1", "within_limit{domain=d,key1=instead} 1"}},
		"values and overrides": {Options{}, [][]*common.RateLimitDescriptor{
			{descriptor("value=1.2.3.4")},
			{descriptor("detail=x:y")},
			{descriptor("deep=1", "below=2")},
			{bring(10, day, descriptor("own=1", "sub=2", "more=3"))},
			{bring(10, day, descriptor("own=1", "sub=2", "most=3"))},
		}, []string{
			"total_hits{domain=d,key1=deep,key2=below} 1", "total_hits{domain=d,key1=detail_x_y} 1", "total_hits{domain=d,key1=own_1,key2=sub_2} 2",
			"total_hits{domain=d,key1=value_1_2_3_4} 1", "within_limit{domain=d,key1=deep,key2=below} 1", "within_limit{domain=d,key1=detail_x_y} 1",
			"within_limit{domain=d,key1=own_1,key2=sub_2} 2", "within_limit{domain=d,key1=value_1_2_3_4} 1",
		}},
		"names with one and the same labels": {Options{}, [][]*common.RateLimitDescriptor{
			{bring(10, day, descriptor("own=1"))}, {bring(10, day, descriptor("own=1", "="))}, {bring(10, day, descriptor("="))}, {bring(10, day, descriptor())},
		}, []string{
			"total_hits{domain=d,key1=own_1} 2", "total_hits{domain=d} 2", "within_limit{domain=d,key1=own_1} 2", "within_limit{domain=d} 2",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.options.Metrics = count(t, true)
			s := serve(t, test.options, countedLimits)
			for _, one := range test.requests {
				ask(t, s, one...)
			}
			if got := scraped(t, test.options.Metrics, "ratelimit_service_rate_limit_"); !slices.Equal(got, test.want) {
				t.Errorf("the counters are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(test.want, "\n"))
			}
		})
	}
}

// TestCountsRequests reads the metrics of the service, under both names.
func TestCountsRequests(t *testing.T) {
	t.Parallel()
	m := count(t, true)
	s := serve(t, Options{Metrics: m, Shadow: true}, countedLimits)
	ask(t, s, descriptor("ten=a"))
	ask(t, s, descriptor("none=a"))
	for _, domain := range []string{"", "else.where", "else.there", "\x00else", "\x00else"} {
		_, err := s.ShouldRateLimit(t.Context(), &pb.RateLimitRequest{Domain: domain, Descriptors: []*common.RateLimitDescriptor{descriptor("ten=a")}})
		if (err != nil) != (domain == "") {
			t.Errorf("the domain %q is answered %v", domain, err)
		}
	}
	want := []string{
		"config_load_error{} 0", "config_load_success{} 1", "global_shadow_mode{} 1", "rate_limit_domain_not_found{domain=\x00else} 2", "rate_limit_domain_not_found{domain=else.there} 1",
		"rate_limit_domain_not_found{domain=else.where} 1",
		"rate_limit_over_limit{domain=d,key1=none} 1", "rate_limit_total_hits{domain=d,key1=none} 1", "rate_limit_total_hits{domain=d,key1=ten} 1",
		"rate_limit_within_limit{domain=d,key1=ten} 1", "response_time_seconds{grpc_method=ShouldRateLimit} 7",
		"should_rate_limit_error{err_type=redis_error} 0", "should_rate_limit_error{err_type=service_error} 1",
		"total_requests{grpc_method=ShouldRateLimit} 7",
	}
	if got := scraped(t, m, "ratelimit_service_"); !slices.Equal(got, want) {
		t.Errorf("the metrics are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	want = []string{
		"configurations_total{ratelimit_outcome=refused} 0", "configurations_total{ratelimit_outcome=used} 1",
		"request_duration_seconds{ratelimit_outcome=allowed} 6", "request_duration_seconds{ratelimit_outcome=error} 1",
	}
	if got := scraped(t, m, "ratelimit_serve_"); !slices.Equal(got, want) {
		t.Errorf("the metrics are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestCountsWithoutTheStore counts requests that are let through because the store does not answer.
func TestCountsWithoutTheStore(t *testing.T) {
	t.Parallel()
	m := count(t, true)
	s := serveOn(t, broken{core.NewMemory(), errors.New("gone")}, Options{Metrics: m, OnError: Open}, countedLimits)
	ask(t, s, descriptor("ten=a"))
	got := scraped(t, m, "ratelimit_service_")
	for _, want := range []string{"should_rate_limit_error{err_type=redis_error} 1", "rate_limit_total_hits{domain=d,key1=ten} 1"} {
		if !slices.Contains(got, want) {
			t.Errorf("%s is missing in\n%s", want, strings.Join(got, "\n"))
		}
	}
	if slices.ContainsFunc(got, func(one string) bool { return strings.HasPrefix(one, "rate_limit_within_limit") }) {
		t.Error("hits that nobody has decided about count as within the limit")
	}
}

// TestCountsNothingByDescriptorUnasked says that the names of the reference are there on request only.
func TestCountsNothingByDescriptorUnasked(t *testing.T) {
	t.Parallel()
	m := count(t, false)
	s := serve(t, Options{Metrics: m}, countedLimits)
	ask(t, s, descriptor("ten=a"))
	if got := scraped(t, m, "ratelimit_service_"); len(got) > 0 {
		t.Errorf("there are %q", got)
	}
}

func BenchmarkMetrics(b *testing.B) {
	for name, reference := range map[string]int{"none": 0, "own": 1, "reference": 2} {
		b.Run(name, func(b *testing.B) {
			options := Options{}
			store := core.NewMemory()
			if reference > 0 {
				m, err := metrics.New(metrics.Options{Reference: reference > 1, Checks: true, NearRatio: 0.8})
				if err != nil {
					b.Fatal(err)
				}
				options.Metrics = m
				store = core.NewMemory(core.WithTrace(m.Trace()))
			}
			s := New(core.New(store), options)
			s.Use(configure(b, countedLimits))
			request := &pb.RateLimitRequest{Domain: "d", Descriptors: []*common.RateLimitDescriptor{descriptor("ten=a")}}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.ShouldRateLimit(b.Context(), request); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestCountsDenialsFromMemory: hits that are denied again without asking the store count apart, too.
func TestCountsDenialsFromMemory(t *testing.T) {
	t.Parallel()
	memory := core.NewMemory(core.WithClock(func() time.Time { return clock }))
	m := count(t, true)
	s := serveOn(t, denialcache.New(memory, 100), Options{Metrics: m}, countedLimits)
	walk(t, s,
		of("ok: ok 0", hits(10, descriptor("ten=a"))),
		of("over: over 0", hits(2, descriptor("ten=a"))),
		of("over: over 0", hits(3, descriptor("ten=a"))),
		of("over: over 0 ok 10", hits(2, descriptor("ten=a")), descriptor("detail=b")), // the store is asked about the second one
	)
	want := []string{
		"near_limit{domain=d,key1=ten} 2", "over_limit_with_local_cache{domain=d,key1=ten} 5", "over_limit{domain=d,key1=ten} 7",
		"total_hits{domain=d,key1=detail_b} 1", "total_hits{domain=d,key1=ten} 17",
		"within_limit{domain=d,key1=detail_b} 1", "within_limit{domain=d,key1=ten} 10",
	}
	if got := scraped(t, m, "ratelimit_service_rate_limit_"); !slices.Equal(got, want) {
		t.Errorf("the counters are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
