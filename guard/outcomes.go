package guard

import (
	"context"
	"slices"
	"strings"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/dialect"
)

// OutcomesFrom returns the outcomes of the limiters in front of a handler for
// its request, the outermost first. It takes the context of the request. The
// result is nil if no limiter has decided, or if the store could not answer; it must not
// be changed.
func OutcomesFrom(ctx context.Context) []Outcome {
	if rc := requestContextFrom(ctx); rc != nil {
		return rc.outcomes
	}
	return nil
}

// setOutcomes sets the outcomes: those of the limiters in front, and these. Policies
// that are reported together get different names.
func (rc *requestContext) setOutcomes(c *call, decisions []core.Decision) {
	var into []Outcome
	if rc.outer != nil {
		into = slices.Clone(rc.outer.outcomes)
	}
	into = slices.Grow(into, len(c.Checks))
	rc.outcomes = outcomes(c, decisions, into)
	for i := len(rc.outcomes) - len(c.Checks); i < len(rc.outcomes); i++ {
		if o := &rc.outcomes[i]; !o.Shadow && !o.Condition && reports(rc.outcomes[:i], o.Policy) {
			o.Policy = dialect.DistinctName(o.Policy, func(name string) bool { return reports(rc.outcomes[:i], name) })
		}
	}
}

// reports says whether the client is told of a policy of some name. Header fields
// compare names without regard to case.
func reports(outcomes []Outcome, name string) bool {
	for i := range outcomes {
		if o := &outcomes[i]; !o.Shadow && !o.Condition && strings.EqualFold(o.Policy, name) {
			return true
		}
	}
	return false
}

// outcomes appends the outcomes of a call.
func outcomes(c *call, decisions []core.Decision, into []Outcome) []Outcome {
	for i := range c.Checks {
		check, t := &c.Checks[i], &c.Terms[i]
		into = append(into, Outcome{
			Policy: t.Name, Key: check.Key, Unit: t.Unit, Cost: check.Cost,
			Shadow: check.Shadow, Condition: check.Mode == core.Condition, Decision: decisions[i],
		})
	}
	return into
}
