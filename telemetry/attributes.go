package telemetry

import (
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/weir-go/ratelimit/core"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
)

const (
	policyName   = attribute.Key("ratelimit.policy")
	algorithm    = attribute.Key("ratelimit.algorithm")
	outcomeKey   = attribute.Key("ratelimit.outcome")
	errorMode    = attribute.Key("ratelimit.error_mode")
	operationKey = attribute.Key("ratelimit.operation")
	direction    = attribute.Key("ratelimit.settlement.direction")
	breakerState = attribute.Key("ratelimit.breaker.state")
	// As the semantic conventions of OpenTelemetry have them.
	errorType     = attribute.Key("error.type")
	serverAddress = attribute.Key("server.address")
	serverPort    = attribute.Key("server.port")
)

// other is what is too many to be told apart.
const other = "other"

// outcome is what became of a request, or of a policy's decision about it.
type outcome int

const (
	allowed outcome = iota
	refused
	shadowAllowed
	shadowRefused
	degraded
	errored
	gaveUp
	outcomes int = iota
)

func (o outcome) String() string {
	return [...]string{"allowed", "refused", "shadow-allowed", "shadow-refused", "degraded", "error", "gave-up"}[o]
}

func (o outcome) attribute() attribute.KeyValue { return outcomeKey.String(o.String()) }

// operation is what a store is asked.
type operation int

const (
	decide operation = iota
	settle
	operations int = iota
)

func (o operation) String() string { return [...]string{"decide", "settle"}[o] }

// modes are what error modes are called in attributes.
var modes = map[ratelimit.ErrorMode]string{
	ratelimit.FailOpen: "fail-open", ratelimit.FailClosed: "fail-closed", ratelimit.Fallback: "fallback",
}

// withAttributes returns the options of a measurement with some attributes. What is
// reported often is made once.
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

// answered are the options of the durations of questions without a failure.
var answered = func() (all [operations][outcomes][]metric.RecordOption) {
	for does := range operations {
		for became := range outcomes {
			all[does][became] = recorded(operationKey.String(operation(does).String()), outcome(became).attribute())
		}
	}
	return all
}()

func questionOptions(does operation, what about) []metric.RecordOption {
	if what.failure == "" {
		return answered[does][what.outcome]
	}
	return recorded(withFailure(what.failure, operationKey.String(does.String()), what.outcome.attribute())...)
}
