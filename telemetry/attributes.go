package telemetry

import (
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
)

const (
	policyName   = attribute.Key("ratelimit.policy")
	algorithmKey = attribute.Key("ratelimit.algorithm")
	outcomeKey   = attribute.Key("ratelimit.outcome")
	errorMode    = attribute.Key("ratelimit.error_mode")
	direction    = attribute.Key("ratelimit.settlement.direction")
	breakerState = attribute.Key("ratelimit.breaker.state")
	leaseKey     = attribute.Key("ratelimit.lease")
	fateKey      = attribute.Key("ratelimit.leased.fate")
	// As the semantic conventions of OpenTelemetry have them.
	errorType     = attribute.Key("error.type")
	serverAddress = attribute.Key("server.address")
	serverPort    = attribute.Key("server.port")
)

// other stands for all policies or servers beyond a bound.
const other = "other"

// outcome is the outcome of a request, or of a policy's decision about it.
type outcome int

const (
	allowed outcome = iota
	denied
	shadowAllowed
	shadowDenied
	degraded
	errored
	gaveUp
	outcomes int = iota
)

func (o outcome) String() string {
	return [...]string{"allowed", "denied", "shadow-allowed", "shadow-denied", "degraded", "error", "gave-up"}[o]
}

func (o outcome) attribute() attribute.KeyValue { return outcomeKey.String(o.String()) }

// modes are the names of error modes in attributes.
var modes = map[guard.ErrorMode]string{
	guard.FailOpen: "fail-open", guard.FailClosed: "fail-closed", guard.Fallback: "fallback",
}

// withAttributes returns the options of a measurement with some attributes. Frequent options are made once.
func withAttributes(attributes ...attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(attributes...))
}

func added(attributes ...attribute.KeyValue) []metric.AddOption {
	return []metric.AddOption{withAttributes(attributes...)}
}

func recorded(attributes ...attribute.KeyValue) []metric.RecordOption {
	return []metric.RecordOption{withAttributes(attributes...)}
}

// withFailure adds why something has failed to its attributes, if it has.
func withFailure(failure core.Failure, attributes ...attribute.KeyValue) []attribute.KeyValue {
	if failure == "" {
		return attributes
	}
	return append(attributes, errorType.String(string(failure)))
}

// failedBy returns the options of a measurement with a failure, or without one.
func failedBy(failure core.Failure) []metric.RecordOption {
	if failure == "" {
		return nil
	}
	return recorded(withFailure(failure)...)
}

// answered are the options of the durations of checks without a failure.
var answered = func() (all [outcomes][]metric.RecordOption) {
	for i := range outcomes {
		all[i] = recorded(outcome(i).attribute())
	}
	return all
}()

// The options of requests that a list has decided about.
var (
	listAllowed = added(outcomeKey.String("list-allowed"))
	listDenied  = added(outcomeKey.String("list-denied"))
)

// checked returns the options of the duration of a request's checks.
func checked(what about) []metric.RecordOption {
	if what.failure == "" {
		return answered[what.outcome]
	}
	return recorded(withFailure(what.failure, what.outcome.attribute())...)
}
