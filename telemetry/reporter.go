package telemetry

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
)

const (
	defaultNearLimit    = 0.1
	defaultMostPolicies = 100
)

// Options configure a [Reporter]. The zero value is ready to use.
type Options struct {
	// MeterProvider makes the instruments. The default is [otel.GetMeterProvider], which
	// may be set later.
	MeterProvider metric.MeterProvider

	// TracerProvider makes the spans: of a request's checks, of the time for which the request is held for its turn, and
	// of its settlement. They are children of the request's span; a request without a sampled span has none. The default
	// is [otel.GetTracerProvider], which may be set later. For no spans at all, give it [noop.NewTracerProvider].
	//
	// [noop.NewTracerProvider]: https://pkg.go.dev/go.opentelemetry.io/otel/trace/noop#NewTracerProvider
	TracerProvider trace.TracerProvider

	// NearLimit is a share of a limit's capacity. An allowed request that leaves less is near
	// the limit. The default, 0, is a tenth; with 1, everything that costs something is near.
	// Less than 0 and more than 1 panic.
	NearLimit float64

	// MostPolicies is how many policies have attributes of their own, by name and algorithm.
	// Later ones are "other". The default, 0, is 100; less panics.
	MostPolicies int

	// Checks has [Reporter.Trace] count each check that a limiter has decided (ratelimit.checks), for programs that ask
	// limiters without a middleware. The default is false: the checks of a middleware are in ratelimit.decisions already.
	Checks bool

	// MostServers is how many servers' addresses become attributes. Later ones are "other".
	// The default is 0: none does. Less panics.
	MostServers int
}

// Reporter reports the events of middleware and stores to OpenTelemetry. A program may have
// one or several. It is made by [New], and may be used by many goroutines at once. It starts
// no goroutine, and need not be closed.
type Reporter struct {
	instruments instruments
	tracer      trace.Tracer
	nearLimit   float64
	checks      bool
	policies    policies
	servers     servers
}

// New returns a Reporter. It panics with the reason if an option makes no sense.
func New(options Options) *Reporter {
	switch {
	case !(options.NearLimit >= 0 && options.NearLimit <= 1):
		panic(fmt.Sprintf("telemetry: NearLimit %v is no share between 0 and 1", options.NearLimit))
	case options.MostPolicies < 0:
		panic(fmt.Sprintf("telemetry: %d policies are less than none", options.MostPolicies))
	case options.MostServers < 0:
		panic(fmt.Sprintf("telemetry: %d servers are less than none", options.MostServers))
	}
	if options.MeterProvider == nil {
		options.MeterProvider = otel.GetMeterProvider()
	}
	if options.TracerProvider == nil {
		options.TracerProvider = otel.GetTracerProvider()
	}
	if options.NearLimit == 0 {
		options.NearLimit = defaultNearLimit
	}
	if options.MostPolicies == 0 {
		options.MostPolicies = defaultMostPolicies
	}
	version := moduleVersion()
	return &Reporter{
		instruments: newInstruments(options.MeterProvider.Meter(scope, metric.WithInstrumentationVersion(version))),
		tracer:      options.TracerProvider.Tracer(scope, trace.WithInstrumentationVersion(version)),
		nearLimit:   options.NearLimit,
		checks:      options.Checks,
		policies:    policies{most: options.MostPolicies},
		servers:     servers{most: options.MostServers},
	}
}

// Observe reports an event: set it as the Options.Observe of a middleware. To see the events
// yourself, too, call it from a function of your own.
func (r *Reporter) Observe(e guard.Event) {
	if e.Settled {
		r.settled(&e)
		return
	}
	ctx := e.Request.Context()
	if e.Listed {
		options := listAllowed
		if e.Status != 0 {
			options = listDenied
		}
		r.instruments.listed.Add(ctx, 1, options...)
		return
	}
	about := verdict(&e)
	for i := range e.Outcomes {
		if guard.Counts(e.Outcomes, i) { // of alternatives, the one that was charged or is waited for
			r.decided(ctx, &e.Outcomes[i], about.failure, e.Status == 0)
		}
	}
	for i := range e.Unanswered {
		u := &e.Unanswered[i]
		p := r.policies.of(u.Policy, u.Limit)
		r.instruments.decisions.Add(ctx, 1, p.failed(errored, about.failure, applied(u, e.Status))...)
	}
	r.instruments.checkDuration.Record(ctx, e.Elapsed.Seconds(), checked(about)...)
	if e.Held > 0 {
		r.held(ctx, &e)
	}
	if traced(ctx) {
		r.traceCheck(ctx, &e, about)
	}
}

// about is the outcome of a request.
type about struct {
	outcome outcome
	failure core.Failure // of the store, or ""
}

// verdict returns the outcome of a request's checks.
func verdict(e *guard.Event) about {
	var failure core.Failure
	unheard := e.Err != nil && len(e.Outcomes) == 0 // its client has gone, or the store does not answer
	if unheard || e.Degraded() {
		failure = core.FailureOf(e.Err)
	}
	switch {
	case e.Status == http.StatusTooManyRequests, e.Banned():
		return about{denied, failure}
	case failure == "": // even if it was then not held until its turn
		return about{allowed, ""}
	case e.Status == 0:
		return about{degraded, failure}
	}
	return about{errored, failure}
}

// applied returns the error mode by which a policy that was not answered has let a
// request pass, or stopped it. Where another one has stopped it, it has not failed open,
// and a shadow does neither.
func applied(u *guard.Unanswered, status int) guard.ErrorMode {
	if u.Shadow || u.Mode == guard.FailOpen && status != 0 {
		return 0
	}
	return u.Mode
}

// decided reports the decision of one policy about a request, and, if the request has passed all policies, how near the
// limit it was.
func (r *Reporter) decided(ctx context.Context, o *guard.Outcome, failure core.Failure, passed bool) {
	d := &o.Decision
	p := r.policies.of(o.Policy, d.Limit)
	if p.bans {
		r.struck(ctx, o, p)
	}
	switch {
	case o.Shadow && d.Degraded: // it alone was not answered
		r.instruments.decisions.Add(ctx, 1, p.decided[errored]...)
		return
	case d.Degraded && d.Allowed:
		r.instruments.decisions.Add(ctx, 1, p.failed(degraded, failure, guard.Fallback)...)
		return
	case d.Degraded:
		r.instruments.decisions.Add(ctx, 1, p.failed(denied, failure, guard.Fallback)...)
		return
	case o.Shadow && d.Allowed:
		r.instruments.decisions.Add(ctx, 1, p.decided[shadowAllowed]...)
		return
	case o.Shadow:
		r.instruments.decisions.Add(ctx, 1, p.decided[shadowDenied]...)
		return
	case !d.Allowed:
		r.instruments.decisions.Add(ctx, 1, p.decided[denied]...)
		return
	}
	r.instruments.decisions.Add(ctx, 1, p.decided[allowed]...)
	if !passed {
		return
	}
	if o.Cost > 0 && float64(d.Remaining) < r.nearLimit*float64(d.Limit.Capacity()) {
		r.instruments.nearLimit.Add(ctx, 1, p.counted...)
	}
	if p.shapes {
		r.instruments.delayDuration.Record(ctx, d.Delay.Seconds(), p.measured...)
	}
}

// struck reports strikes, and a ban that they have begun. Those of shadows are not reported.
func (r *Reporter) struck(ctx context.Context, o *guard.Outcome, p *policy) {
	if o.Shadow || !o.Decision.Allowed || o.Cost <= 0 {
		return
	}
	r.instruments.strikes.Add(ctx, int64(o.Cost), p.counted...)
	if o.Decision.Began {
		r.instruments.bans.Add(ctx, 1, p.counted...)
	}
}

// held reports how long a request was held, by the policy that it was held for.
func (r *Reporter) held(ctx context.Context, e *guard.Event) {
	o := r.heldFor(e)
	if o == nil {
		return
	}
	p, how := r.policies.of(o.Policy, o.Decision.Limit), about{outcome: allowed}
	switch e.Status {
	case 0:
	case http.StatusTooManyRequests: // as of a limiter's own waits
		how.outcome = denied
	default:
		how.outcome = gaveUp
	}
	r.instruments.waitDuration.Record(ctx, e.Held.Seconds(), p.waited(how)...)
}

// heldFor returns the outcome that a request was held for: that of a turn, if its delay is most of that time, or else
// that of a place, one that was denied before the others. It returns nil if nothing is known.
func (r *Reporter) heldFor(e *guard.Event) *guard.Outcome {
	var turn, place *guard.Outcome
	for i := range e.Outcomes {
		o := &e.Outcomes[i]
		switch {
		case o.Shadow, !guard.Counts(e.Outcomes, i):
		case r.policies.of(o.Policy, o.Decision.Limit).places:
			if place == nil || place.Decision.Allowed && !o.Decision.Allowed {
				place = o
			}
		case turn == nil || o.Decision.Delay > turn.Decision.Delay:
			turn = o
		}
	}
	if place != nil && (turn == nil || turn.Decision.Delay < e.Held/2) {
		return place
	}
	return turn
}

// settled reports the real cost of a request.
func (r *Reporter) settled(e *guard.Event) {
	ctx, how := e.Request.Context(), about{allowed, core.FailureOf(e.Err)}
	if e.Err != nil {
		how.outcome = errored
	}
	changed := false
	for i := range min(len(e.Outcomes), len(e.Reserved)) {
		o, reserved := &e.Outcomes[i], e.Reserved[i].Cost
		if o.Cost == reserved {
			continue
		}
		changed = true
		p := r.policies.of(o.Policy, o.Decision.Limit)
		if p.bans {
			r.struck(ctx, o, p)
			continue
		}
		if o.Cost < reserved {
			r.instruments.settlementSize.Record(ctx, int64(reserved-o.Cost), p.settled("returned", how.failure)...)
		} else {
			r.instruments.settlementSize.Record(ctx, int64(o.Cost-reserved), p.settled("charged", how.failure)...)
		}
	}
	if !changed { // and the store was not asked
		return
	}
	r.instruments.settlementDuration.Record(ctx, e.Elapsed.Seconds(), failedBy(how.failure)...)
	if traced(ctx) {
		r.traceSettlement(ctx, e, how)
	}
}

// seconds are the bounds of histograms of checks, which take microseconds in memory,
// a fraction of a millisecond in Redis, and up to the budget when that is slow.
var seconds = bounds(
	time.Microsecond, 2500*time.Nanosecond, 5*time.Microsecond,
	10*time.Microsecond, 25*time.Microsecond, 50*time.Microsecond,
	100*time.Microsecond, 250*time.Microsecond, 500*time.Microsecond,
	time.Millisecond, 2500*time.Microsecond, 5*time.Millisecond,
	10*time.Millisecond, 25*time.Millisecond, 50*time.Millisecond,
	100*time.Millisecond, 250*time.Millisecond, time.Second,
)

// longSeconds are the bounds of histograms of waits.
var longSeconds = bounds(
	time.Millisecond, 5*time.Millisecond, 10*time.Millisecond, 25*time.Millisecond, 50*time.Millisecond,
	100*time.Millisecond, 250*time.Millisecond, 500*time.Millisecond,
	time.Second, 2500*time.Millisecond, 5*time.Second, 10*time.Second, 30*time.Second, time.Minute, 5*time.Minute,
)

func bounds(durations ...time.Duration) []float64 {
	list := make([]float64, len(durations))
	for i, d := range durations {
		list[i] = d.Seconds()
	}
	return list
}
