package guard

import (
	"context"
	"mime/multipart"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/weir-go/ratelimit/guard/internal/mistakes"
	"github.com/weir-go/ratelimit/internal/given"
	"github.com/weir-go/ratelimit/keyfuncs"
)

// requestContext is the knowledge of one Guard about one request, and the context of that
// request from then on. Those of the limiters in front are behind it. It does not
// change once the request has been decided about.
//
// A request that meets a Guard takes one allocation for it: there is room in it for the copy of the request, for the outcome of a plain
// request, and for the values of its fields. Parts that few requests need are elsewhere.
type requestContext struct {
	context.Context //nolint:containedctx // it is one, on top of the request's own

	guard   *generation
	given   *http.Request // to Decide
	request http.Request  // the copy of it that has this context
	matched keyfuncs.Matched
	outer   *requestContext // of the limiters in front of the same request, or nil
	parent  *requestContext // the nearest one outside, maybe of another request, or nil
	// shared is the next limiter inside that has not charged a check again.
	shared atomic.Pointer[requestContext]
	// outcomes are those of all limiters so far, the outermost first. It is nil until
	// the call is answered.
	outcomes []Outcome
	// reservation may have to be settled; or nil.
	reservation *reservation
	leastCosts  atomic.Pointer[leastCosts] // that limiters further inside want; nil: none
	form        *multipart.Form            // its files are removed when the request ends; or nil
	ownProxy    *mistakes.OwnProxy         // while the key of a ban is read
	routeTold   *string                    // the route that the key functions were told, or nil
	spent       atomic.Int64               // that Spend was told; of the outermost limiter alone
	readsKeys   bool                       // the functions of policies and lists are being called
	asksRoute   bool                       // one of them has asked for the route
	valuesSet   bool                       // the request has the path values that are known, or needs none
	isOwn       bool                       // the handler of the parent's request serves this one
	denied      atomic.Int32               // the status of a denial further inside that was answered as another one, or 0

	plainOutcome [1]Outcome
	fields       [2]string
}

type requestContextKey struct{}

// Value is that of the context, with the knowledge of the Guard.
func (rc *requestContext) Value(key any) any {
	switch key.(type) {
	case requestContextKey, given.LimiterKey:
		return rc
	case given.MatchedKey:
		if rc.readsKeys { // others may ask later, and at the same time
			rc.asksRoute = true
		}
		if rc.matched != nil {
			return rc.matched
		}
	case given.OwnProxyKey:
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
		if matched = given.MatchedFrom(rc.Context); matched == nil {
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

// frameworkKey is the key of the Matched of [Guard.Decide]. Unlike
// [given.MatchedKey], it does not ask for the route.
type frameworkKey struct{}

// With returns a function of a request for a [Policy], such as LimitFor, Cost or Skip, that
// asks the [keyfuncs.Matched] that the adapter has given to [Guard.Decide], of
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

// known returns the request context, or the nearest one outside for the same request, that has outcomes.
func (rc *requestContext) known() *requestContext {
	for ; rc != nil && rc.outcomes == nil; rc = rc.parent {
		if rc.isOwn {
			return nil
		}
	}
	return rc
}

// tellGiven sets the forms and the trailer of a copy on the request that was given to Decide, unless it has its own.
func (rc *requestContext) tellGiven(r *http.Request) {
	given := rc.given
	if given == r {
		return
	}
	if given.Form == nil {
		given.Form = r.Form
	}
	if given.PostForm == nil {
		given.PostForm = r.PostForm
	}
	if given.Trailer == nil {
		given.Trailer = r.Trailer
	}
	if form := r.MultipartForm; form != nil && given.MultipartForm == nil {
		given.MultipartForm, rc.form = form, form
	}
}
