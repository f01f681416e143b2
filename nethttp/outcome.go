package ratelimit

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
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
	// Cost is how many units were asked for.
	Cost int
	// Shadow says that the policy only watched.
	Shadow bool
	// Decision is the answer.
	Decision core.Decision
}

// Event tells [Options.Observe] about one request that met one middleware.
type Event struct {
	// Request is the request, as it came to the middleware.
	Request *http.Request
	// Outcomes are what the middleware's policies decided, in their order but with
	// shadow policies last. It is empty if the question was not answered.
	Outcomes []Outcome
	// Status is 0 if the request goes on to the handler, and otherwise the status it
	// is answered with: 429 if it is refused, 503 if the store could not answer and
	// the mode is FailClosed, or if a shaped request's deadline comes first, 500 if a
	// policy could not say what to ask, and 499 if the client went away meanwhile.
	Status int
	// Err is why the question was not answered, or nil. With Status 0 it means that
	// the request went through because the mode is FailOpen.
	Err error
	// Elapsed is how long the question took.
	Elapsed time.Duration
}

// exchange is what the limiters that a request has met have decided about it. It
// does not change once it is in a request's context.
type exchange struct {
	outcomes []Outcome
	limiters []*core.Limiter // who decided each of them
}

type exchangeKey struct{}

func exchangeFrom(ctx context.Context) *exchange {
	x, _ := ctx.Value(exchangeKey{}).(*exchange)
	return x
}

// DecisionFrom returns what the limiters in front of a handler have decided about
// its request, the outermost first. It takes the context of the request. The
// result is nil if no limiter has, or if the store could not answer; it must not
// be changed.
func DecisionFrom(ctx context.Context) []Outcome {
	if x := exchangeFrom(ctx); x != nil {
		return x.outcomes
	}
	return nil
}

// with returns an exchange that has more outcomes, which a limiter has decided.
// Policies that are reported together get different names.
func (x *exchange) with(more []Outcome, by *core.Limiter) *exchange {
	both := &exchange{}
	if x != nil {
		both.outcomes, both.limiters = slices.Clone(x.outcomes), slices.Clone(x.limiters)
	}
	for _, o := range more {
		if !o.Shadow {
			o.Policy = distinct(o.Policy, func(name string) bool { return both.reports(name) })
		}
		both.outcomes, both.limiters = append(both.outcomes, o), append(both.limiters, by)
	}
	return both
}

// reports says whether the client is told of a policy of some name. Header fields
// compare names without regard to case.
func (x *exchange) reports(name string) bool {
	return slices.ContainsFunc(x.outcomes, func(o Outcome) bool { return !o.Shadow && strings.EqualFold(o.Policy, name) })
}

// distinct returns a name that is not taken, if need be with a number.
func distinct(name string, taken func(string) bool) string {
	candidate := name
	for n := 2; taken(candidate); n++ {
		candidate = name + "-" + strconv.Itoa(n)
	}
	return candidate
}

// charged reports whether a limiter has answered a check for this request before,
// and charged what it costs.
func (x *exchange) charged(check *core.Check, by *core.Limiter) bool {
	if x == nil {
		return false
	}
	for i := range x.outcomes {
		o := &x.outcomes[i]
		if x.limiters[i] == by && o.Cost > 0 && o.Key == check.Key && o.Shadow == check.Shadow && o.Decision.Limit.Same(check.Limit) {
			return true
		}
	}
	return false
}

// reported returns what the client is told of the outcomes.
func reported(outcomes []Outcome) []headers.Policy {
	policies := make([]headers.Policy, 0, len(outcomes))
	for i := range outcomes {
		if o := &outcomes[i]; !o.Shadow {
			policies = append(policies, headers.Policy{Name: o.Policy, Decision: o.Decision})
		}
	}
	return policies
}
