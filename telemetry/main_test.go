package telemetry_test

import (
	"context"
	"flag"
	"fmt"
	"reflect"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.uber.org/goleak"

	"github.com/weir-go/ratelimit/telemetry"
)

var rewrite = flag.Bool("rewrite", false, "write what the tests find into testdata")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// meter is where a reporter reports to.
type meter struct{ reader *sdk.ManualReader }

// newReporter returns a reporter, and where it reports to.
func newReporter(t testing.TB, options telemetry.Options) (*telemetry.Reporter, meter) {
	t.Helper()
	reader := sdk.NewManualReader()
	provider := sdk.NewMeterProvider(sdk.WithReader(reader))
	t.Cleanup(func() { _ = provider.Shutdown(context.WithoutCancel(t.Context())) })
	options.MeterProvider = provider
	return telemetry.New(options), meter{reader}
}

func (m meter) collect(t testing.TB) []metricdata.Metrics {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := m.reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	var list []metricdata.Metrics
	for _, scope := range all.ScopeMetrics {
		expectScope(t, scope.Scope)
		list = append(list, scope.Metrics...)
	}
	slices.SortFunc(list, func(a, b metricdata.Metrics) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// expectScope wants what is reported to come from this package, at the version of the
// module that the test was built with.
func expectScope(t testing.TB, scope instrumentation.Scope) {
	t.Helper()
	build, _ := debug.ReadBuildInfo()
	name, version := reflect.TypeFor[telemetry.Reporter]().PkgPath(), strings.TrimPrefix(build.Main.Version, "v")
	if scope.Name != name || scope.Version != version || version == "" {
		t.Errorf("the scope is %q at version %q, want %q at %q", scope.Name, scope.Version, name, version)
	}
}

// points returns the lines of the instrument's points, each "attributes: value", sorted.
func (m meter) points(t testing.TB, name string) []string {
	t.Helper()
	for _, metric := range m.collect(t) {
		if metric.Name == name {
			return points(metric.Data)
		}
	}
	return nil
}

func points(data metricdata.Aggregation) []string {
	var lines []string
	add := func(set attribute.Set, value string) {
		lines = append(lines, set.Encoded(attribute.DefaultEncoder())+": "+value)
	}
	switch data := data.(type) {
	case metricdata.Sum[int64]:
		for _, p := range data.DataPoints {
			add(p.Attributes, strconv.FormatInt(p.Value, 10))
		}
	case metricdata.Histogram[float64]:
		for _, p := range data.DataPoints {
			add(p.Attributes, fmt.Sprintf("count %d sum %.6g in %v", p.Count, p.Sum, occupied(p.Bounds, p.BucketCounts)))
		}
	case metricdata.Histogram[int64]:
		for _, p := range data.DataPoints {
			add(p.Attributes, fmt.Sprintf("count %d sum %d in %v", p.Count, p.Sum, occupied(p.Bounds, p.BucketCounts)))
		}
	default:
		lines = append(lines, fmt.Sprintf("a %T", data))
	}
	slices.Sort(lines)
	return lines
}

// occupied returns the upper bounds of the buckets that are not empty.
func occupied(bounds []float64, counts []uint64) (list []string) {
	for i, n := range counts {
		switch {
		case n == 0:
		case i < len(bounds):
			list = append(list, fmt.Sprintf("≤%g", bounds[i]))
		default:
			list = append(list, "more")
		}
	}
	return list
}
