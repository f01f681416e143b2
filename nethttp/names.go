package ratelimit

import (
	"context"
	"net/http"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
)

// These are the types of package guard.
type (
	Policy     = guard.Policy
	Options    = guard.Options
	ErrorMode  = guard.ErrorMode
	Event      = guard.Event
	Outcome    = guard.Outcome
	Unanswered = guard.Unanswered
	Refusal    = guard.Refusal
	Problem    = guard.Problem
	Served     = guard.Served
)

// ProblemType is the media type of a [Problem].
const ProblemType = guard.ProblemType

// What happens to a request when the store cannot answer; see package guard.
const (
	FailOpen   = guard.FailOpen
	FailClosed = guard.FailClosed
	Fallback   = guard.Fallback
)

// Layers is that of package guard.
func Layers(address, user Policy) []Policy { return guard.Layers(address, user) }

// PolicyFor is that of package guard.
func PolicyFor(limit core.Limit, by ...keyfuncs.Func) Policy { return guard.PolicyFor(limit, by...) }

// DecisionFrom is that of package guard.
func DecisionFrom(ctx context.Context) []Outcome { return guard.DecisionFrom(ctx) }

// Compare is that of package guard.
func Compare(c *core.Comparison, candidate string, next func(Event)) func(Event) {
	return guard.Compare(c, candidate, next)
}

// MergeUpstream is that of package guard.
func MergeUpstream(proxy http.Handler) http.Handler { return guard.MergeUpstream(proxy) }
