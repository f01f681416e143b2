package telemetry

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/weir-go/ratelimit/guard"
)

const (
	policyNames   = attribute.Key("ratelimit.policies")
	violatedNames = attribute.Key("ratelimit.violated_policies")
)

// traced reports whether a request has a span to which others may be added.
func traced(ctx context.Context) bool {
	span := trace.SpanFromContext(ctx)
	return span.IsRecording() || span.SpanContext().IsSampled()
}

// traceCheck makes the spans of a request's checks, and of the time for which the request
// was held. Both are over.
func (r *Reporter) traceCheck(ctx context.Context, e *guard.Event, what about) {
	now := time.Now()
	decided := now.Add(-e.Held)
	r.span(ctx, "ratelimit.check", decided.Add(-e.Elapsed), decided, e, what)
	if e.Held > 0 {
		how := about{outcome: allowed}
		if e.Status != 0 {
			how.outcome = gaveUp
		}
		r.span(ctx, "ratelimit.wait", decided, now, e, how)
	}
}

// traceSettlement makes the span of a settlement, which is over.
func (r *Reporter) traceSettlement(ctx context.Context, e *guard.Event, how about) {
	now := time.Now()
	r.span(ctx, "ratelimit.settle", now.Add(-e.Elapsed), now, e, how)
}

// span makes a child of the request's span. It tells the outcome of the request, and never its key; nor has it the text
// of an error, which may contain the key.
func (r *Reporter) span(ctx context.Context, name string, from, to time.Time, e *guard.Event, what about) {
	_, span := r.tracer.Start(ctx, name, trace.WithTimestamp(from))
	defer span.End(trace.WithTimestamp(to))
	if !span.IsRecording() {
		return
	}
	var asked, violated []string
	for i := range e.Outcomes {
		o := &e.Outcomes[i]
		if !guard.Counts(e.Outcomes, i) {
			continue
		}
		asked = append(asked, r.policies.of(o.Policy, o.Decision.Limit).name.Value.AsString())
		if !o.Shadow && !o.Decision.Allowed {
			violated = append(violated, asked[len(asked)-1])
		}
	}
	for i := range e.Unanswered {
		u := &e.Unanswered[i]
		asked = append(asked, r.policies.of(u.Policy, u.Limit).name.Value.AsString())
	}
	span.SetAttributes(what.outcome.attribute(), policyNames.StringSlice(asked))
	if len(violated) > 0 {
		span.SetAttributes(violatedNames.StringSlice(violated))
	}
	if what.failure != "" {
		span.SetAttributes(errorType.String(string(what.failure)))
		span.SetStatus(codes.Error, string(what.failure))
	}
}
