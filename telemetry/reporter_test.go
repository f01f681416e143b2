package telemetry_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"

	"github.com/gin-gonic/gin"
	echo4 "github.com/labstack/echo/v4"
	echo5 "github.com/labstack/echo/v5"
	"go.opentelemetry.io/otel"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	tracesdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/weir-go/ratelimit/core"
	echolimit4 "github.com/weir-go/ratelimit/echo"
	echolimit5 "github.com/weir-go/ratelimit/echo/v5"
	ginlimit "github.com/weir-go/ratelimit/gin"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
	"github.com/weir-go/ratelimit/telemetry"
)

// silent is a store that does not answer.
type silent struct{ core.Store }

func (silent) Decide(context.Context, []core.Call) (int, error) {
	return 0, errors.New("the store of 203.0.113.9 is down")
}

// events are of all the kinds that there are.
func events() []guard.Event {
	leaky, queue := core.Leaky(10, core.PerSecond(1)), core.Shaping(5, core.PerSecond(1)).Named("queue")
	outcome := func(limit core.Limit, d core.Decision) guard.Outcome {
		d.Limit = limit
		return guard.Outcome{Policy: limit.Name(), Key: "ip:203.0.113.9", Cost: 1, Decision: d}
	}
	shadow := func(o guard.Outcome) guard.Outcome { o.Shadow = true; return o }
	cost := func(o guard.Outcome, n int) guard.Outcome { o.Cost = n; return o }
	down := errors.New("the store of 203.0.113.9 is down")
	bytes := core.FixedWindow(1<<30, time.Hour).Named("bytes")
	logins := core.Ban{Strikes: core.SlidingLog(5, time.Minute)}.Named("logins").Limit()
	return []guard.Event{
		{Outcomes: []guard.Outcome{outcome(leaky, core.Decision{Allowed: true, Remaining: 9})}, Elapsed: 300 * time.Microsecond},
		{Outcomes: []guard.Outcome{outcome(leaky, core.Decision{Allowed: true, Remaining: 1})}, Elapsed: 2 * time.Microsecond},
		{Outcomes: []guard.Outcome{outcome(leaky, core.Decision{Allowed: true, Remaining: 0})}, Elapsed: 200 * time.Microsecond},
		{Outcomes: []guard.Outcome{cost(outcome(leaky, core.Decision{Allowed: true, Remaining: 0}), 0)}, Elapsed: time.Millisecond},
		{Outcomes: []guard.Outcome{
			outcome(leaky, core.Decision{RetryAfter: time.Second}),
			shadow(outcome(queue, core.Decision{Allowed: true, Delay: time.Second})),
			shadow(outcome(bytes, core.Decision{RetryAfter: time.Second})),
			shadow(outcome(bytes, core.Decision{Degraded: true})), // not answered
		}, Status: 429, Elapsed: 400 * time.Microsecond},
		{Outcomes: []guard.Outcome{outcome(queue, core.Decision{Allowed: true})}, Elapsed: 300 * time.Microsecond},
		{Outcomes: []guard.Outcome{outcome(queue, core.Decision{Allowed: true, Delay: 3 * time.Second})}, Held: 3 * time.Second, Elapsed: 300 * time.Microsecond},
		{
			Outcomes: []guard.Outcome{outcome(queue, core.Decision{Allowed: true, Delay: 3 * time.Second})}, Held: time.Second,
			Status: 503, Err: context.DeadlineExceeded, Elapsed: 300 * time.Microsecond,
		},
		{Unanswered: []guard.Unanswered{{Policy: leaky.Name(), Limit: leaky, Mode: guard.FailOpen}}, Err: down, Elapsed: 100 * time.Millisecond},
		{
			Unanswered: []guard.Unanswered{{Policy: leaky.Name(), Limit: leaky, Mode: guard.FailClosed}, {Policy: "queue", Limit: queue, Mode: guard.Fallback}},
			Status:     503, Err: down, Elapsed: 3 * time.Microsecond,
		},
		{
			Outcomes: []guard.Outcome{outcome(leaky, core.Decision{Allowed: true, Degraded: true}), outcome(queue, core.Decision{Degraded: true, RetryAfter: time.Second})},
			Status:   429, Err: down, Elapsed: 3 * time.Microsecond,
		},
		{Outcomes: []guard.Outcome{outcome(leaky, core.Decision{Allowed: true, Degraded: true})}, Err: down, Elapsed: 3 * time.Microsecond},
		{Unanswered: []guard.Unanswered{{}}, Status: 500, Err: errors.New("no key in secret-token")},
		{Status: 499, Err: context.Canceled, Elapsed: 5 * time.Millisecond},
		{ // a denial that strikes
			Outcomes: []guard.Outcome{outcome(leaky, core.Decision{RetryAfter: time.Second}), outcome(logins, core.Decision{Allowed: true, Began: true})},
			Status:   429, Elapsed: 3 * time.Microsecond,
		},
		{Outcomes: []guard.Outcome{cost(outcome(logins, core.Decision{RetryAfter: time.Minute}), 0)}, Status: 403, Elapsed: 3 * time.Microsecond},
		{ // strikes by response, and some that are forgiven
			Settled: true, Status: 401, Elapsed: 300 * time.Microsecond,
			Outcomes: []guard.Outcome{cost(outcome(logins, core.Decision{Allowed: true}), 2), cost(outcome(logins, core.Decision{Allowed: true}), -3)},
			Reserved: []guard.Outcome{cost(outcome(logins, core.Decision{Allowed: true}), 0), cost(outcome(logins, core.Decision{Allowed: true}), 0)},
		},
		{Listed: true},
		{Listed: true, Status: 403},
		{
			Settled: true, Status: 200, Elapsed: 300 * time.Microsecond,
			Outcomes: []guard.Outcome{cost(outcome(leaky, core.Decision{Allowed: true}), 0), cost(outcome(bytes, core.Decision{Allowed: true}), 5000)},
			Reserved: []guard.Outcome{outcome(leaky, core.Decision{Allowed: true}), outcome(bytes, core.Decision{Allowed: true})},
		},
		{
			Settled: true, Status: 200, Elapsed: time.Microsecond, // nothing to settle
			Outcomes: []guard.Outcome{outcome(leaky, core.Decision{Allowed: true})},
			Reserved: []guard.Outcome{outcome(leaky, core.Decision{Allowed: true})},
		},
		{
			Settled: true, Status: 200, Err: down, Elapsed: 100 * time.Millisecond,
			Outcomes: []guard.Outcome{cost(outcome(leaky, core.Decision{Allowed: true}), 0)},
			Reserved: []guard.Outcome{outcome(leaky, core.Decision{Allowed: true})},
		},
	}
}

// secrets are what nobody is to be told.
var secrets = []string{"203.0.113.9", "secret-account", "secret-token", "accounts"}

// The instruments, their units, buckets and attributes are what dashboards are made of.
func TestInstruments(t *testing.T) {
	reporter, meter := newReporter(t, telemetry.Options{MostServers: 1, Checks: true})
	request := httptest.NewRequest(http.MethodGet, "/accounts/secret-account?token=secret-token", nil)
	for _, e := range events() {
		e.Request = request
		reporter.Observe(e)
	}
	trace := reporter.Trace()
	trace.Batch(core.Batch{Server: "10.0.0.1:6379", Calls: 3, Checks: 5, Elapsed: 40 * time.Microsecond})
	trace.Batch(core.Batch{Server: "10.0.0.1:6379", Calls: 1, Checks: 1, Elapsed: 100 * time.Millisecond, Err: errors.New("down")})
	trace.Batch(core.Batch{Server: "/run/redis.sock", Calls: 200, Checks: 200, Elapsed: 2 * time.Second})
	trace.Breaker("10.0.0.1:6379", "open")
	trace.Repeated()
	trace.Wait(core.Wait{Limit: core.Leaky(10, core.PerSecond(1)), Units: 1, Elapsed: 2 * time.Second})
	trace.Wait(core.Wait{Limit: core.Leaky(10, core.PerSecond(1)), Units: 1, Err: &core.LimitedError{}})
	trace.Wait(core.Wait{Limit: core.Leaky(10, core.PerSecond(1)), Units: 1, Err: context.Canceled})
	trace.Wait(core.Wait{Limit: core.Leaky(10, core.PerSecond(1)), Units: 1, Err: errors.New("down")})
	exports := core.Concurrent(20, 30*time.Second).Named("exports")
	trace.Waiting(exports, 1)
	trace.Waiting(exports, -1)
	trace.Waiting(exports, 1)
	trace.Held(core.Held{Limit: exports, Units: 3})
	trace.Held(core.Held{Limit: exports, Units: -1, Elapsed: 20 * time.Second})
	trace.Held(core.Held{Limit: exports, Units: -1, Elapsed: time.Minute, Err: errors.New("not renewed in time")})
	trace.Reclaimed(exports)
	trace.Reclaimed(core.FixedWindow(2000, time.Minute).Named("tokens"))
	trace.Renewal(core.Renewal{Held: 5, Lost: 1, Unanswered: 2})
	for _, d := range []core.Decided{
		{Decision: core.Decision{Allowed: true}},
		{},
		{Shadow: true},
		{Shadow: true, Decision: core.Decision{Allowed: true}},
		{Shadow: true, Decision: core.Decision{Degraded: true}},
		{Err: core.TimedOut},
		{Decision: core.Decision{Waived: true}},
		{Mode: core.Condition},
		{Mode: core.OnDenial},
	} {
		d.Limit = core.FixedWindow(2000, time.Minute).Named("tokens")
		trace.Decided(d)
	}
	trace.Leased(core.Leased{Limit: core.Leaky(1000, core.PerSecond(1000)), Over: 0.01, Granted: 9, Spent: 5, Returned: 3, Lapsed: 1, Late: 7})

	var text strings.Builder
	for _, m := range meter.collect(t) {
		kind := strings.TrimPrefix(fmt.Sprintf("%T", m.Data), "metricdata.")
		if sum := reflect.ValueOf(m.Data).FieldByName("IsMonotonic"); sum.IsValid() && !sum.Bool() {
			kind += " up and down"
		}
		fmt.Fprintf(&text, "%s %s %s\n  %s\n", m.Name, m.Unit, kind, m.Description)
		for _, line := range points(m.Data) {
			fmt.Fprintf(&text, "    %s\n", line)
		}
	}
	for _, secret := range secrets {
		if strings.Contains(text.String(), secret) {
			t.Errorf("%q has become known", secret)
		}
	}
	if telemetry.New(telemetry.Options{}).Trace().Decided != nil {
		t.Error("checks are counted that nobody has asked for")
	}
	golden := filepath.Join("testdata", "instruments.txt")
	if *rewrite {
		if err := os.WriteFile(golden, []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if text.String() != string(want) {
		t.Errorf("the instruments are not those of %s (rewrite it by -rewrite):\n%s", golden, text.String())
	}
}

// One line switches it on, in every framework.
func TestEveryAdapterReports(t *testing.T) {
	gin.SetMode(gin.ReleaseMode)
	policy := guard.Policy{Limit: core.FixedWindow(2, time.Hour).Named("two")}
	for name, handler := range map[string]func(*core.Limiter, *telemetry.Reporter) http.Handler{
		"net/http": func(l *core.Limiter, r *telemetry.Reporter) http.Handler {
			return ratelimit.New(l, guard.Options{Observe: r.Observe}, policy)(http.NotFoundHandler())
		},
		"gin": func(l *core.Limiter, r *telemetry.Reporter) http.Handler {
			engine := gin.New()
			engine.Use(ginlimit.New(l, ginlimit.Options{Observe: r.Observe}, policy))
			return engine
		},
		"echo": func(l *core.Limiter, r *telemetry.Reporter) http.Handler {
			e := echo4.New()
			e.Use(echolimit4.New(l, echolimit4.Options{Observe: r.Observe}, policy))
			return e
		},
		"echo/v5": func(l *core.Limiter, r *telemetry.Reporter) http.Handler {
			e := echo5.New()
			e.Use(echolimit5.New(l, echolimit5.Options{Observe: r.Observe}, policy))
			return e
		},
	} {
		t.Run(name, func(t *testing.T) {
			reporter, meter := newReporter(t, telemetry.Options{})
			h := handler(core.New(core.NewMemory()), reporter)
			for range 5 {
				h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
			}
			want := []string{
				"ratelimit.algorithm=fixed-window,ratelimit.outcome=allowed,ratelimit.policy=two: 2",
				"ratelimit.algorithm=fixed-window,ratelimit.outcome=denied,ratelimit.policy=two: 3",
			}
			if got := meter.points(t, "ratelimit.decisions"); !slices.Equal(got, want) {
				t.Errorf("reported %q, want %q", got, want)
			}
			want = []string{"ratelimit.algorithm=fixed-window,ratelimit.policy=two: 1"} // the second has left nothing
			if got := meter.points(t, "ratelimit.near_limit"); !slices.Equal(got, want) {
				t.Errorf("reported %q near the limit, want %q", got, want)
			}
		})
	}
}

// However many names limits are given, and by whomever, the series are bounded.
func TestPoliciesAreBounded(t *testing.T) {
	reporter, meter := newReporter(t, telemetry.Options{MostPolicies: 3})
	g := guard.Must(guard.New(core.New(core.NewMemory()), guard.Options{Observe: reporter.Observe}, guard.Policy{
		By: keyfuncs.Global,
		LimitFor: func(r *http.Request) core.Limit {
			return core.FixedWindow(1000, time.Hour).Named("tenant" + r.URL.Query().Get("tenant"))
		},
	}))
	var group sync.WaitGroup
	for i := range 50 {
		group.Go(func() {
			for range 4 {
				g.Decide(httptest.NewRequest(http.MethodGet, fmt.Sprint("/?tenant=", i), nil), nil)
			}
		})
	}
	group.Wait()
	got := meter.points(t, "ratelimit.decisions")
	others := "ratelimit.algorithm=fixed-window,ratelimit.outcome=allowed,ratelimit.policy=other: 188"
	if len(got) != 4 || !slices.Contains(got, others) {
		t.Errorf("reported %q, want 3 of 50 tenants, and the others as one", got)
	}
}

func TestServersAreBounded(t *testing.T) {
	reporter, meter := newReporter(t, telemetry.Options{MostServers: 2})
	trace := reporter.Trace()
	for i := range 1200 {
		trace.Batch(core.Batch{Server: fmt.Sprintf("10.0.%d.%d:6379", i/256, i%256), Calls: 1})
		trace.Breaker(fmt.Sprintf("10.0.%d.%d:6379", i/256, i%256), "open")
	}
	want := []string{
		"server.address=10.0.0.0,server.port=6379: count 1 sum 1 in [≤1]",
		"server.address=10.0.0.1,server.port=6379: count 1 sum 1 in [≤1]",
		"server.address=other: count 1198 sum 1198 in [≤1]",
	}
	if got := meter.points(t, "ratelimit.store.batch.calls"); !slices.Equal(got, want) {
		t.Errorf("reported %q, want %q", got, want)
	}
	if got := meter.points(t, "ratelimit.store.servers"); !slices.Contains(got, "ratelimit.breaker.state=open,server.address=other: 998") {
		t.Errorf("reported %q, want the states of a thousand servers", got)
	}
}

// A server that a store has forgotten, and asks again, has a breaker that tells nothing.
func TestAServerThatComesBackIsAskedAgain(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		reporter, meter := newReporter(t, telemetry.Options{})
		trace := reporter.Trace()
		trace.Breaker("10.0.0.1:6379", "open")
		expect := func(state string) {
			t.Helper()
			if got := meter.points(t, "ratelimit.store.servers"); !slices.Contains(got, "ratelimit.breaker.state="+state+": 1") {
				t.Errorf("reported %q, want that it is %s", got, state)
			}
		}
		trace.Batch(core.Batch{Server: "10.0.0.1:6379"}) // which had begun before
		expect("open")
		time.Sleep(2 * time.Minute)
		trace.Batch(core.Batch{Server: "10.0.0.1:6379", Err: errors.New("down")})
		expect("open")
		trace.Batch(core.Batch{Server: "10.0.0.1:6379"})
		expect("closed")
	})
}

func TestOptionsThatMakeNoSensePanic(t *testing.T) {
	nan := 0.0
	nan /= nan
	for name, build := range map[string]func(){
		"near":     func() { telemetry.New(telemetry.Options{NearLimit: 1.5}) },
		"no share": func() { telemetry.New(telemetry.Options{NearLimit: nan}) },
		"policies": func() { telemetry.New(telemetry.Options{MostPolicies: -1}) },
		"servers":  func() { telemetry.New(telemetry.Options{MostServers: -1}) },
	} {
		func() {
			defer func() {
				if reason, _ := recover().(string); !strings.HasPrefix(reason, "telemetry: ") {
					t.Errorf("%s: %q, want a panic with the reason", name, reason)
				}
			}()
			build()
		}()
	}
}

// A program that has set up OpenTelemetry need not name its providers.
func TestTheGlobalProvidersAreTheDefault(t *testing.T) {
	reader, exporter := sdk.NewManualReader(), tracetest.NewInMemoryExporter()
	tracers := tracesdk.NewTracerProvider(tracesdk.WithSyncer(exporter))
	meters, tracersBefore := otel.GetMeterProvider(), otel.GetTracerProvider()
	t.Cleanup(func() {
		otel.SetMeterProvider(meters)
		otel.SetTracerProvider(tracersBefore)
	})
	otel.SetMeterProvider(sdk.NewMeterProvider(sdk.WithReader(reader)))
	otel.SetTracerProvider(tracers)

	reporter := telemetry.New(telemetry.Options{})
	g := guard.Must(guard.New(core.New(core.NewMemory()), guard.Options{Observe: reporter.Observe},
		guard.Policy{Limit: core.FixedWindow(1, time.Hour).Named("hourly")}))
	ctx, span := tracers.Tracer("server").Start(t.Context(), "GET /")
	g.Decide(httptest.NewRequest(http.MethodGet, "/", nil).WithContext(ctx), nil)
	span.End()
	if got := (meter{reader}).points(t, "ratelimit.check.duration"); len(got) != 1 || !strings.HasPrefix(got[0], "ratelimit.outcome=allowed: count 1 ") {
		t.Errorf("the global MeterProvider was told %q, want one check", got)
	}
	if spans := exporter.GetSpans(); len(spans) != 2 || spans[0].Name != "ratelimit.check" {
		t.Errorf("the global TracerProvider was told %+v, want a check within the request", spans)
	}
}

// Without an SDK, reporting does nothing, and harms nobody.
func TestWithoutAnSDKNothingHappens(t *testing.T) {
	reporter := telemetry.New(telemetry.Options{})
	g := guard.Must(guard.New(core.New(silent{}), guard.Options{Observe: reporter.Observe}, guard.Policy{Limit: core.FixedWindow(1, time.Hour)}))
	if denial := g.Decide(httptest.NewRequest(http.MethodGet, "/", nil), nil).Denial; denial != nil {
		t.Errorf("denied with %d, want to fail open", denial.Status)
	}
}
