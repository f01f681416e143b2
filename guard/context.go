package guard

import (
	"context"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard/internal/mistakes"
	"github.com/weir-go/ratelimit/headers"
	"github.com/weir-go/ratelimit/internal/dialect"
	"github.com/weir-go/ratelimit/internal/given"
	"github.com/weir-go/ratelimit/keyfuncs"
)

// requestContext is the knowledge of one Guard about one request, and the context of that
// request from then on. Those of the limiters in front are behind it. It does not
// change once the request has been decided about.
//
// A request that meets a Guard takes one allocation for it: there is room in it for the outcome of a plain request, and for the
// values of its fields. Parts that few requests need are elsewhere.
type requestContext struct {
	context.Context //nolint:containedctx // it is one, on top of that which the request came with

	guard   *generation
	given   *http.Request // to Decide
	matched keyfuncs.Matched
	outer   *requestContext // of the limiters in front of the same request, or nil
	parent  *requestContext // the nearest one outside, whatever it knows and of whichever request, or nil
	isOwn   bool            // the parent is that of a request whose handler serves this one
	// shared is the next limiter inside that has left uncharged what one in front has charged.
	shared atomic.Pointer[requestContext]
	// denied is the status of a denial further inside that was answered as another one, or 0.
	denied atomic.Int32
	// outcomes are those of all limiters so far, the outermost first. It is nil until
	// the call is answered.
	outcomes []Outcome
	// reservation may have to be settled; or nil.
	reservation *reservation
	body        *keyBody                   // as the functions of policies and lists have read it; nil: it was not bounded
	leastCosts  atomic.Pointer[leastCosts] // that limiters further inside want; nil: none
	form        *multipart.Form            // whose files are removed when the request ends, or nil
	ownProxy    *mistakes.OwnProxy         // while the key of a ban is read
	routeTold   *string                    // the route that the key functions were told, or nil
	spent       atomic.Int64               // that Spend was told; of the outermost limiter alone
	readsKeys   bool                       // the functions of policies and lists are being called
	asksRoute   bool                       // one of them has asked for the route
	valuesSet   bool                       // the request has the path values that are known, or needs none
	goesOn      bool                       // it is not the limiter that answers the request

	plainOutcome [1]Outcome
	fields       [2]string
}

// newContext returns the context of a request that meets a generation.
func (g *generation) newContext(r *http.Request, matched keyfuncs.Matched) *requestContext {
	rc := &requestContext{Context: r.Context(), guard: g, given: r, matched: matched, readsKeys: true}
	if parent, ok := rc.Context.Value(requestContextKey{}).(*requestContext); ok {
		rc.enclose(parent, r)
	}
	return rc
}

type requestContextKey struct{}

// Value is that of the context, with the knowledge of the Guard.
func (rc *requestContext) Value(key any) any {
	switch key.(type) {
	case requestContextKey, given.LimiterKey:
		return rc
	case keyfuncs.MatchedKey:
		if rc.readsKeys { // others may ask later, and at the same time
			rc.asksRoute = true
		}
		if rc.matched != nil {
			return rc.matched
		}
	case keyfuncs.OwnProxyKey:
		if rc.ownProxy != nil && rc.ownProxy.Watches() {
			return rc.ownProxy
		}
		return nil
	case frameworkKey:
		if rc.matched != nil {
			return rc.matched
		}
	}
	return rc.Context.Value(key)
}

// SetPathValues has functions of the program find the path values that the framework's router knows, or the mux
// that is limited, where functions of this module find them. A value that the request has already stays.
func (rc *requestContext) SetPathValues(r *http.Request) {
	if rc.valuesSet {
		return
	}
	rc.valuesSet = true
	matched := rc.matched
	if matched == nil {
		if matched = keyfuncs.MatchedFrom(rc.Context); matched == nil {
			return
		}
	}
	for route := matched.Route(); ; {
		_, rest, found := strings.Cut(route, "{")
		if !found {
			return
		}
		var name string
		name, route, _ = strings.Cut(rest, "}")
		if name = strings.TrimSuffix(name, "..."); name == "" {
			name = "*" // as echo and chi call it
		}
		if r.PathValue(name) != "" {
			continue
		}
		if value := matched.PathValue(name); value != "" {
			r.SetPathValue(name, value)
		}
	}
}

// keysRead notices that the functions of the policies have said all about a request. Others, which may ask at the same
// time, change nothing.
func (rc *requestContext) keysRead(r *http.Request) {
	rc.valuesSet, rc.readsKeys = true, false
	if rc.asksRoute {
		rc.routeTold = rc.guard.placement.KeysRead(r)
	}
}

// watchOwnProxy remembers the answer of [keyfuncs.IP] about the address of the request.
func (rc *requestContext) watchOwnProxy() {
	if rc.ownProxy == nil {
		rc.ownProxy = new(mistakes.OwnProxy)
	}
	rc.ownProxy.Watch()
}

// FoundNoKey warns of a key function of the program.
func (rc *requestContext) FoundNoKey(ctx context.Context, function given.Function, requests int) {
	rc.guard.placement.FoundNoKey(ctx, function, requests)
}

// String keeps keys out of the text of a printed context.
func (rc *requestContext) String() string { return "ratelimit.requestContext" }

func requestContextFrom(ctx context.Context) *requestContext {
	rc, _ := ctx.Value(requestContextKey{}).(*requestContext)
	return rc.known()
}

// frameworkKey is the key of what an adapter has told [Guard.Decide] of the framework. Unlike
// [keyfuncs.MatchedKey], it does not ask for the route.
type frameworkKey struct{}

// With returns a function of a request for a [Policy], such as LimitFor, Cost or Skip, that
// asks what an adapter has told [Guard.Decide] of its framework: the [keyfuncs.Matched] of
// type M. Adapters make their own With of it, which gives f the framework's context.
//
// Where there is no such M, because another adapter serves the request or because the
// request has ended, the result is the zero T. With panics if f is nil.
func With[M, T any](f func(M) T) func(*http.Request) T {
	if f == nil {
		panic("ratelimit: With: the function is nil")
	}
	return func(r *http.Request) (result T) {
		if m, ok := r.Context().Value(frameworkKey{}).(M); ok {
			return f(m)
		}
		return result
	}
}

// own returns the outcomes that the request context's own Guard has decided.
func (rc *requestContext) own() []Outcome {
	if rc.outer == nil {
		return rc.outcomes
	}
	return rc.outcomes[len(rc.outer.outcomes):]
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

// charged returns where a limiter in front has answered a check for this request before, and
// charged what it costs: the request context, and the index among its own outcomes. It returns
// nil if there is none.
func (rc *requestContext) charged(check *core.Check) (outer *requestContext, index int) {
	inside := rc
	for rc = inside.outer; rc != nil; rc = rc.outer {
		if rc.guard.limiter != inside.guard.limiter {
			continue
		}
		own := rc.own()
		for i := range own {
			o := &own[i]
			same := o.Key == check.Key && o.Shadow == check.Shadow && o.Decision.Limit.Identity() == check.Limit.Identity()
			if same && o.Cost > 0 && !o.Condition && !o.Decision.Waived && inside.share() {
				return rc, i
			}
		}
	}
	return nil, 0
}

// write writes the limits' headers. Their values may take the given room, which belongs to the header from then on.
func (rc *requestContext) write(h http.Header, room *[2]string) {
	g := rc.guard
	if g.plain != nil && rc.outer == nil && len(rc.outcomes) == 1 {
		switch o := &rc.outcomes[0]; {
		case o.Decision.Degraded:
		case g.lone != nil:
			g.lone.WriteLone(h, &o.Decision, room)
		default:
			g.writer.Write(h, []headers.Policy{o.described()})
		}
		return
	}
	if policies := reported(rc.outcomes, make([]headers.Policy, 0, len(rc.outcomes))); len(policies) > 0 {
		g.writer.Write(h, policies)
	}
}

// detached returns a request that can be looked at when it has ended. A framework uses its
// own context for another request then, so only the route is kept of what the adapter knew.
func detached(r *http.Request) *http.Request {
	return r.WithContext(&endedContext{Context: r.Context(), route: endedRoute(mistakes.RouteOf(r))}) //nolint:contextcheck // it is made of the request's
}

// endedContext is the context of a request that has ended.
type endedContext struct {
	context.Context //nolint:containedctx // it is one

	route endedRoute
}

// Value hides what the adapter has told of the framework.
func (c *endedContext) Value(key any) any {
	switch key.(type) {
	case keyfuncs.MatchedKey, frameworkKey:
		return c.route
	}
	return c.Context.Value(key)
}

// endedRoute is what is known of the route of a request that has ended.
type endedRoute string

func (r endedRoute) Route() string         { return string(r) }
func (endedRoute) PathValue(string) string { return "" }
