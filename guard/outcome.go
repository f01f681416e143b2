package guard

import (
	"context"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/headers"
)

// Outcome is what one policy decided about a request.
type Outcome struct {
	// Policy is the policy's name in headers and problem documents: that of its
	// limit, with a number after it if several policies of the request would have
	// the same.
	Policy string
	// Key says whose traffic the request was taken for. It may name a person: think
	// before you log it.
	Key string
	// Unit is what the policy counts: see [Policy].
	Unit string
	// Cost is how many units were asked for.
	Cost int
	// Shadow says that the policy only watched.
	Shadow bool
	// Decision is the answer.
	Decision core.Decision
}

// DecisionFrom returns what the limiters in front of a handler have decided about
// its request, the outermost first. It takes the context of the request. The
// result is nil if no limiter has, or if the store could not answer; it must not
// be changed.
func DecisionFrom(ctx context.Context) []Outcome {
	if rc := requestContextFrom(ctx); rc != nil {
		return rc.outcomes
	}
	return nil
}

func outcomes(asked *call, decisions []core.Decision, into []Outcome) []Outcome {
	for i := range asked.checks {
		c, a := &asked.checks[i], &asked.terms[i]
		into = append(into, Outcome{Policy: a.name, Key: c.Key, Unit: a.unit, Cost: c.Cost, Shadow: c.Shadow, Decision: decisions[i]})
	}
	return into
}

func denied(o *Outcome) bool { return !o.Shadow && !o.Decision.Allowed }

// reported appends what the client is told of the outcomes. Of those that this
// process has made up by itself it is not.
func reported(outcomes []Outcome, into []headers.Policy) []headers.Policy {
	for i := range outcomes {
		if o := &outcomes[i]; !o.Shadow && !o.Decision.Degraded {
			into = append(into, o.described())
		}
	}
	return into
}

// described returns the outcome as headers describe it.
func (o *Outcome) described() headers.Policy {
	return headers.Policy{Name: o.Policy, Unit: o.Unit, Decision: o.Decision, Key: o.Key}
}

// delay returns how long an admitted request has to be held back.
func delay(outcomes []Outcome) time.Duration {
	var longest time.Duration
	for i := range outcomes {
		if o := &outcomes[i]; !o.Shadow {
			longest = max(longest, o.Decision.Delay)
		}
	}
	return longest
}
