package guard

import (
	"context"
	"net/http"
	"reflect"

	"github.com/weir-go/ratelimit/keyfuncs"
)

// AsOwn returns a context for a request that a handler makes and serves itself, such as one of a batch, out of the
// context of the request that it serves. Limiters decide about such a request as about any other, and charge it by itself.
// [OutcomesFrom], [Spend], [Grow], [Settle] and [PermitFrom] know nothing of the handler's own request there, nor do
// key functions know its route. Deadline and values of the program's own stay.
//
//	for _, part := range batch {
//		own, err := http.NewRequestWithContext(guard.AsOwn(r.Context()), part.Method, part.Path, part.Body)
//		...
//		own.RemoteAddr = r.RemoteAddr // for limits by address
//		router.ServeHTTP(recorder, own)
//	}
//
// Without AsOwn, a request that was made anew is still charged by itself, unless it was read from text, as by [http.ReadRequest], with the
// target of the handler's own request: use AsOwn for those. A copy of the handler's request cannot be told
// from that request on its way through middleware: the first copy that meets a limit again is charged nothing there, and
// each further one is charged. What a request of its own spends is counted for it if a limiter of its own settles, and
// otherwise for the request of the handler.
func AsOwn(ctx context.Context) context.Context { return &ownContext{ctx} }

// ownContext is the context of a request of its own.
type ownContext struct {
	context.Context //nolint:containedctx // it is one
}

// Value hides what is known of the request that the context comes from.
func (c *ownContext) Value(key any) any {
	switch key.(type) {
	case requestContextKey, keyfuncs.MatchedKey, frameworkKey:
		return nil
	}
	return c.Context.Value(key)
}

// enclose finds out what the limiters in front know of the request, of which the parent is the nearest, unless it is one of its
// own: a handler behind those limiters serves it.
func (rc *requestContext) enclose(parent *requestContext, r *http.Request) {
	rc.parent = parent
	rc.outer = parent.known()
	if rc.outer != nil && (!same(rc.outer.given, r) || !rc.isOnly()) {
		rc.outer, rc.isOwn = nil, true
	}
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

// enclosing returns what is known of the request whose handler serves this one as its own, or nil.
func (rc *requestContext) enclosing() *requestContext {
	for rc.outer != nil {
		rc = rc.outer
	}
	return rc.parent.known()
}

// isOnly reports whether no other copy of the request has shared a charge of the limiters in front.
func (rc *requestContext) isOnly() bool {
	for outer := rc.parent; outer != nil; outer = outer.parent {
		if first := outer.shared.Load(); first != nil && !rc.isWithin(first) {
			return false
		}
		if outer.isOwn { // what is outside of it is of another request
			break
		}
	}
	return true
}

// share reports whether the limiter may leave a check uncharged that one in front has charged. That is for one copy of the
// request, and for all limiters that it meets.
func (rc *requestContext) share() bool {
	return rc.parent.shared.CompareAndSwap(nil, rc) || rc.parent.shared.Load() == rc
}

// isWithin reports whether a limiter is another one, or stands inside of it.
func (rc *requestContext) isWithin(other *requestContext) bool {
	for ; rc != nil; rc = rc.parent {
		if rc == other {
			return true
		}
	}
	return false
}

// same reports whether a request may be a copy of another one. Middleware that copies a request, strips its prefix or limits
// its body leaves the target that the client has sent, and a request that was made anew has another one, or none.
func same(given, r *http.Request) bool {
	switch {
	case given.URL == r.URL:
		return true
	case given.RequestURI != "" || r.RequestURI != "":
		return given.RequestURI == r.RequestURI
	case reflect.ValueOf(given.Header).Pointer() == reflect.ValueOf(r.Header).Pointer():
		return true
	}
	return given.Method == r.Method && given.Host == r.Host && given.URL != nil && r.URL != nil && given.URL.String() == r.URL.String()
}
