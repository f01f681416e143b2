package telemetry_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	tracesdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
	"github.com/weir-go/ratelimit/telemetry"
)

// traced serves a request inside a span of its own, and returns the limiter's spans.
func traced(t *testing.T, l *core.Limiter, policies ...guard.Policy) (*httptest.ResponseRecorder, []tracetest.SpanStub) {
	t.Helper()
	exporter := tracetest.NewInMemoryExporter()
	provider := tracesdk.NewTracerProvider(tracesdk.WithSyncer(exporter))
	reporter, _ := newReporter(t, telemetry.Options{TracerProvider: provider})
	handler := ratelimit.New(l, guard.Options{Observe: reporter.Observe}, policies...)(
		http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	ctx, request := provider.Tracer("server").Start(t.Context(), "GET /")
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/accounts/secret-account?token=secret-token", nil).WithContext(ctx))
	request.End()
	var spans []tracetest.SpanStub
	for _, span := range exporter.GetSpans() {
		if span.Name == "GET /" {
			continue
		}
		if span.Parent.SpanID() != request.SpanContext().SpanID() || span.SpanContext.TraceID() != request.SpanContext().TraceID() {
			t.Errorf("%s is no child of the request's span", span.Name)
		}
		expectScope(t, span.InstrumentationScope)
		if span.EndTime.Before(span.StartTime) {
			t.Errorf("%s ends before it begins", span.Name)
		}
		if len(span.Events) > 0 {
			t.Errorf("%s has events: %v", span.Name, span.Events)
		}
		spans = append(spans, span)
	}
	for _, secret := range append(secrets, "192.0.2.1") {
		if text := fmt.Sprint(spans); strings.Contains(text, secret) {
			t.Errorf("%q has become known in %s", secret, text)
		}
	}
	return w, spans
}

func encoded(span *tracetest.SpanStub) string {
	set := attribute.NewSet(span.Attributes...)
	return set.Encoded(attribute.DefaultEncoder())
}

func TestSpansOfChecks(t *testing.T) {
	limit := core.FixedWindow(1, time.Hour).Named("hourly")
	limiter := core.New(core.NewMemory())
	for _, want := range []string{
		`ratelimit.outcome=allowed,ratelimit.policies=["hourly"]`,
		`ratelimit.outcome=denied,ratelimit.policies=["hourly"],ratelimit.violated_policies=["hourly"]`,
	} {
		_, spans := traced(t, limiter, guard.Policy{Limit: limit})
		if len(spans) != 1 || spans[0].Name != "ratelimit.check" || encoded(&spans[0]) != want || spans[0].Status.Code != codes.Unset {
			t.Errorf("%+v, want one with %s", spans, want)
		}
	}
	_, spans := traced(t, core.New(silent{}), guard.Policy{Limit: limit})
	want := `error.type=other,ratelimit.outcome=degraded,ratelimit.policies=["hourly"]`
	if len(spans) != 1 || encoded(&spans[0]) != want || spans[0].Status.Code != codes.Error || spans[0].Status.Description != "other" {
		t.Errorf("%+v, want a failure with %s", spans, want)
	}
}

func TestSpansOfWaitingAndSettling(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		limit := core.Shaping(5, core.Per(1, 2*time.Second)).Named("queue")
		policy := guard.Policy{
			Limit:  limit,
			Cost:   func(*http.Request) int { return 2 },
			Settle: guard.SettlePolicy{Cost: func(*http.Request, guard.Served) int { return 1 }},
		}
		limiter := core.New(core.NewMemory())
		if _, err := limiter.Allow(context.Background(), "ip:192.0.2.1", limit); err != nil {
			t.Fatal(err)
		}
		_, spans := traced(t, limiter, policy)
		if len(spans) != 3 {
			t.Fatalf("%+v, want 3 spans", spans)
		}
		for i, want := range []struct {
			name   string
			lasted time.Duration
		}{{"ratelimit.check", 0}, {"ratelimit.wait", 2 * time.Second}, {"ratelimit.settle", 0}} {
			if s := spans[i]; s.Name != want.name || s.EndTime.Sub(s.StartTime) != want.lasted {
				t.Errorf("span %d is %s of %v, want %s of %v", i, s.Name, s.EndTime.Sub(s.StartTime), want.name, want.lasted)
			}
		}
		if !spans[0].EndTime.Equal(spans[1].StartTime) {
			t.Error("the wait does not begin with the answer")
		}
	})
}

// A span without the request's would tell of nothing that anybody looks for, and one that
// is not sampled would be made for nobody.
func TestNoSpansWithoutOneOfTheRequest(t *testing.T) {
	recorder := tracetest.NewSpanRecorder()
	provider := tracesdk.NewTracerProvider(tracesdk.WithSpanProcessor(recorder), tracesdk.WithSampler(tracesdk.AlwaysSample()))
	unsampled := tracesdk.NewTracerProvider(tracesdk.WithSampler(tracesdk.NeverSample()))
	recorded := tracesdk.NewTracerProvider(tracesdk.WithSpanProcessor(recorder), tracesdk.WithSampler(recordOnly{}))
	remote := func(flags trace.TraceFlags) context.Context {
		return trace.ContextWithRemoteSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{
			TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}, TraceFlags: flags, Remote: true,
		}))
	}
	request := func(ctx context.Context) *http.Request {
		return httptest.NewRequest(http.MethodGet, "/", nil).WithContext(ctx)
	}
	within := func(p trace.TracerProvider) context.Context {
		ctx, span := p.Tracer("server").Start(t.Context(), "GET /")
		t.Cleanup(func() { span.End() })
		return ctx
	}
	for name, test := range map[string]struct {
		request *http.Request
		to      trace.TracerProvider
		spans   int
	}{
		"no span":                        {request(t.Context()), provider, 0},
		"a span":                         {request(within(provider)), provider, 1},
		"a span, and a provider of none": {request(within(provider)), noop.NewTracerProvider(), 0},
		"a span that is not sampled":     {request(within(unsampled)), provider, 0},
		"a span that is recorded for this process alone": {request(within(recorded)), recorded, 1},
		"a caller's span":                     {request(remote(trace.FlagsSampled)), provider, 1},
		"a caller's span that is not sampled": {request(remote(0)), provider, 0},
	} {
		t.Run(name, func(t *testing.T) {
			recorder.Reset()
			reporter, _ := newReporter(t, telemetry.Options{TracerProvider: test.to})
			handler := ratelimit.New(core.New(core.NewMemory()), guard.Options{Observe: reporter.Observe}, guard.Policy{
				Limit:  core.FixedWindow(2, time.Hour),
				Settle: guard.SettlePolicy{Cost: func(*http.Request, guard.Served) int { return 2 }},
			})(http.NotFoundHandler())
			handler.ServeHTTP(httptest.NewRecorder(), test.request)
			spans := recorder.Ended()
			if len(spans) != 2*test.spans {
				t.Errorf("%+v, want %d of the check and as many of the settlement", spans, test.spans)
			}
		})
	}
}

// recordOnly has spans recorded, for processors of this process, and none exported.
type recordOnly struct{}

func (recordOnly) ShouldSample(tracesdk.SamplingParameters) tracesdk.SamplingResult {
	return tracesdk.SamplingResult{Decision: tracesdk.RecordOnly}
}

func (recordOnly) Description() string { return "record only" }
