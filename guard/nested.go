package guard

import (
	"context"
	"net/http"
	"reflect"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/given"
)

// enclose finds the limiters in front of the same request, of which the parent is the nearest. A request of its own, which a
// handler behind those limiters serves, has none.
func (rc *requestContext) enclose(parent *requestContext, r *http.Request) {
	rc.parent = parent
	rc.outer = parent.known()
	if rc.outer != nil && (!same(rc.outer.given, r) || !rc.isOnly()) {
		rc.outer, rc.isOwn = nil, true
	}
}

// isOnly reports whether no other copy of the request has shared a charge of the limiters in front.
func (rc *requestContext) isOnly() bool {
	for outer := rc.parent; outer != nil; outer = outer.parent {
		if first := outer.shared.Load(); first != nil && !rc.isWithin(first) {
			return false
		}
		if outer.isOwn { // the next one is of another request
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

// charged finds the outcome of a limiter in front that has charged the same check for this
// request: its request context, and the index among its own outcomes. It returns
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

// enclosing returns the knowledge of the outer request if its handler serves this one as its own, or nil.
func (rc *requestContext) enclosing() *requestContext {
	for rc.outer != nil {
		rc = rc.outer
	}
	return rc.parent.known()
}

// outermost returns the knowledge of the outermost limiter that has decided about the request.
func (rc *requestContext) outermost() *requestContext {
	for rc.outer != nil {
		rc = rc.outer
	}
	return rc
}

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
// each further one is charged. The units that a request of its own spends are counted for it if a limiter of its own settles, and
// otherwise for the request of the handler.
func AsOwn(ctx context.Context) context.Context { return &ownContext{ctx} }

// ownContext is the context of a request of its own.
type ownContext struct {
	context.Context //nolint:containedctx // it is one
}

// Value hides the knowledge of the request that the context comes from.
func (c *ownContext) Value(key any) any {
	switch key.(type) {
	case requestContextKey, given.MatchedKey, frameworkKey:
		return nil
	}
	return c.Context.Value(key)
}
