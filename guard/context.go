package guard

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/headers"
	"github.com/weir-go/ratelimit/keyfuncs"
)

// exchange is what one Guard knows about one request, and the context of that
// request from then on. Those of the limiters in front are behind it. It does not
// change once the request has been decided about.
//
// A request that meets a Guard is one exchange in memory: what a single policy
// needs has its room in it.
type exchange struct {
	context.Context //nolint:containedctx // it is one, on top of that which the request came with

	guard   *Guard
	given   *http.Request // to Check
	matched keyfuncs.Matched
	outer   *exchange // of the limiters in front, or nil
	// outcomes are those of all limiters so far, the outermost first. It is nil until
	// the question is answered.
	outcomes []Outcome
	// reservation is what may have to be settled, or nil.
	reservation *reservation
	raised      raised
	routeAsked  routeAsked

	room struct {
		check   [1]core.Check
		asker   [1]asker
		outcome [1]Outcome
		report  [1]headers.Policy
	}
}

type exchangeKey struct{}

// Value is that of the context, with what the Guard knows.
func (x *exchange) Value(key any) any {
	switch key.(type) {
	case exchangeKey:
		if x.outcomes != nil {
			return x
		}
	case keyfuncs.MatchedKey:
		x.routeAsked.ask()
		if x.matched != nil {
			return x.matched
		}
	}
	return x.Context.Value(key)
}

// String keeps whoever prints the context from printing keys.
func (x *exchange) String() string { return "ratelimit.exchange" }

func exchangeFrom(ctx context.Context) *exchange {
	x, _ := ctx.Value(exchangeKey{}).(*exchange)
	return x
}

// own returns the outcomes that the exchange's own Guard has decided.
func (x *exchange) own() []Outcome {
	if x.outer == nil {
		return x.outcomes
	}
	return x.outcomes[len(x.outer.outcomes):]
}

// decided sets the outcomes: those of the limiters in front, and these. Policies
// that are reported together get different names.
func (x *exchange) decided(asked *question, decisions []core.Decision) {
	into := x.room.outcome[:0]
	if x.outer != nil {
		into = slices.Clone(x.outer.outcomes)
	}
	into = slices.Grow(into, len(asked.checks))
	x.outcomes = outcomes(asked, decisions, into)
	for i := len(x.outcomes) - len(asked.checks); i < len(x.outcomes); i++ {
		if o := &x.outcomes[i]; !o.Shadow && reports(x.outcomes[:i], o.Policy) {
			o.Policy = headers.DistinctName(o.Policy, func(name string) bool { return reports(x.outcomes[:i], name) })
		}
	}
}

// reports says whether the client is told of a policy of some name. Header fields
// compare names without regard to case.
func reports(outcomes []Outcome, name string) bool {
	for i := range outcomes {
		if o := &outcomes[i]; !o.Shadow && strings.EqualFold(o.Policy, name) {
			return true
		}
	}
	return false
}

// charged returns where a limiter has answered a check for this request before, and
// charged what it costs: the exchange, and the place among its own outcomes. It returns
// nil if there is none.
func (x *exchange) charged(check *core.Check, by *core.Limiter) (*exchange, int) {
	for ; x != nil; x = x.outer {
		if x.guard.limiter != by {
			continue
		}
		own := x.own()
		for i := range own {
			if o := &own[i]; o.Cost > 0 && o.Key == check.Key && o.Shadow == check.Shadow && o.Decision.Limit.Same(check.Limit) {
				return x, i
			}
		}
	}
	return nil, 0
}

// write writes the limits' headers. The policies that they tell of take the given room.
func (x *exchange) write(h http.Header, room []headers.Policy) {
	if policies := reported(x.outcomes, slices.Grow(room, len(x.outcomes))); len(policies) > 0 {
		x.guard.writer.Write(h, policies)
	}
}
