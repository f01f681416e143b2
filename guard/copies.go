package guard

import (
	"context"
	"net/http"

	"github.com/weir-go/ratelimit/guard/internal/mistakes"
	"github.com/weir-go/ratelimit/internal/given"
)

// A handler behind a limiter has a copy of the request that the server has made. The fields that it sets there have to be set where the
// server and outer middleware look for them: net/http removes the temporary files of the form in its own request alone.

// shareTrailer makes the trailer of a request one that its copies share: net/http writes an unannounced trailer to
// its own request alone, when the body has been read.
func shareTrailer(r *http.Request) {
	if r.Trailer == nil && r.ContentLength < 0 && hasBody(r) {
		r.Trailer = make(http.Header)
	}
}

// removeForm removes the temporary files of the form when the request ends. The server does that, too, unless
// outer middleware has made a copy of its request. It is called when no handler needs them any more: the context may end
// while one runs.
func (rc *requestContext) removeForm() {
	if form := rc.form; form != nil {
		rc.form = nil
		context.AfterFunc(rc.Context, func() { _ = form.RemoveAll() })
	}
}

// detached returns a request that can be looked at when it has ended. A framework uses its
// own context for another request then, so only the route is kept of the adapter's knowledge.
func detached(r *http.Request) *http.Request {
	return r.WithContext(&endedContext{Context: r.Context(), route: endedRoute(mistakes.RouteOf(r))}) //nolint:contextcheck // it is made of the request's
}

// endedContext is the context of a request that has ended.
type endedContext struct {
	context.Context //nolint:containedctx // it is one

	route endedRoute
}

// Value hides the Matched of the adapter.
func (c *endedContext) Value(key any) any {
	switch key.(type) {
	case given.MatchedKey, frameworkKey:
		return c.route
	}
	return c.Context.Value(key)
}

// endedRoute is the route of a request that has ended, as far as it was known.
type endedRoute string

func (r endedRoute) Route() string         { return string(r) }
func (endedRoute) PathValue(string) string { return "" }

// tellPattern tells the request that was given to Decide which pattern a router further
// inside has found, unless it knows one already.
func (rc *requestContext) tellPattern(r *http.Request, before string) {
	if rc.given.Pattern == before {
		rc.given.Pattern = r.Pattern
	}
}
