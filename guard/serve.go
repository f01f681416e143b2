package guard

import "net/http"

// Serve runs the handler of a request that [Guard.Check] has returned and let through, and
// settles what the request has cost, once. Every adapter calls it, for every such request.
//
// next is called once, with r and the writer to hand to the handler. That is w itself, or,
// where a policy has Settle, a writer around it that notices the response. It can do what w
// can do, and it has to stay in use for whatever answers the request later on.
//
// next returns 0 if nothing is left to be answered. A framework whose handlers return
// errors, which are answered further out, returns the status that the error is going to
// have, or 500 if it has none. The request is then settled when the response begins, or
// when the request ends. A panic is left to be answered in the same way, and goes on.
//
// After the handler, the request that was given to Check has the Pattern that an inner
// router has found. If the key functions have asked for the route before it was known,
// Options.Logger is warned, once.
func (g *Guard) Serve(w http.ResponseWriter, r *http.Request, next func(http.ResponseWriter, *http.Request) (unanswered int)) {
	rc, ok := r.Context().(*requestContext)
	if !ok || rc.guard != g { // Check has not asked about it
		next(w, r)
		return
	}
	before := r.Pattern
	defer rc.tellPattern(r, before) // also after a panic
	if rc.settles() {
		g.serveWatched(rc, w, r, next)
	} else {
		next(w, r)
	}
	rc.tellPattern(r, before) // the adapter's Matched may look there
	g.returned(rc, r)
}

// serveWatched runs a handler, and settles what that has cost.
func (g *Guard) serveWatched(rc *requestContext, w http.ResponseWriter, r *http.Request, next func(http.ResponseWriter, *http.Request) int) {
	watched := watchFor(w, func(status int) { g.Answered(r, status) })
	unanswered := http.StatusInternalServerError // of a panic
	returned := false
	defer func() {
		served := watched.served(!returned)
		if unanswered != 0 && !watched.answered() {
			served.Status, served.Unanswered = unanswered, true
		}
		g.settle(rc, r, served)
	}()
	unanswered = next(watched, r)
	returned = true
}

// tellPattern tells the request that was given to Check what pattern a router further
// inside has found, unless somebody else has told it.
func (rc *requestContext) tellPattern(r *http.Request, before string) {
	if r.Pattern != before && rc.given.Pattern == before {
		rc.given.Pattern = r.Pattern
	}
}
