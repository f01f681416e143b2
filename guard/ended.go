package guard

import (
	"context"
	"net/http"

	"github.com/weir-go/ratelimit/keyfuncs"
)

// detached returns a request that can be looked at when it has ended. A framework uses its
// own context for another request then, so only the route is kept of what the adapter knew.
func detached(r *http.Request) *http.Request {
	return r.WithContext(&endedContext{Context: r.Context(), route: endedRoute(routeOf(r))}) //nolint:contextcheck // it is made of the request's
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
