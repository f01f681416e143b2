package guard

import (
	"net"
	"net/http"

	"github.com/weir-go/ratelimit/guard/internal/writer"
	"github.com/weir-go/ratelimit/headers"
)

// Verdict is the decision of a [Guard] about one request. An adapter writes its headers
// with [Verdict.WriteHeader]. Then it answers with Denial, or, if that is nil, runs the
// handler with [Verdict.Serve].
//
// A Verdict belongs to the policies that have decided, also after a [Guard.Swap]. It is for the goroutine that serves the
// request, except for [Verdict.Answered]. The zero value is of no use.
type Verdict struct {
	// Request is the request to go on with. [OutcomesFrom] understands its context.
	Request *http.Request
	// Denial is the answer to give, or nil if the request may go on.
	Denial *Denial

	rc     *requestContext // nil: no policy decides about the request
	inside *users          // of the capacity of an Adaptive Guard, or nil
	outer  *requestContext // of the limiters in front, where an Adaptive Guard has denied the request
	given  *http.Request   // to an Adaptive Guard, of which Request is a copy, or nil
}

// WriteHeader writes the decision into the header of the response: the limits' fields,
// and, of a denial, Retry-After and Cache-Control, and over HTTP/1 Connection: close if the request's body was not read.
// It then also removes the fields by which outer code describes a response that will not be sent.
//
// If the Writer of [Options] panics, the units that the request has reserved are given back.
func (v Verdict) WriteHeader(h http.Header) {
	rc := v.rc
	switch {
	case rc == nil:
	case rc.reservation == nil:
		rc.write(h, &rc.fields)
	default:
		v.writeReserved(h)
	}
	if v.Denial == nil {
		return
	}
	if v.Denial.Status == http.StatusServiceUnavailable || v.Denial.Status == http.StatusForbidden || v.Denial.Banned {
		if rc == nil {
			rc = v.outer
		}
		for ; rc != nil; rc = rc.outer {
			for _, field := range rc.guard.fields { // neither tells of a quota
				h.Del(field)
			}
		}
	}
	v.Denial.writeHeader(h)
}

// writeReserved writes the limits' fields of a request that has reserved something.
func (v Verdict) writeReserved(h http.Header) {
	written := false
	defer func() {
		if !written && v.Denial == nil {
			v.rc.giveBack()
		}
	}()
	v.rc.write(h, &v.rc.fields)
	written = true
}

// Serve runs the handler of a request that may go on, and settles the cost of the
// request, once. Every adapter calls it, for every such request.
//
// next is called once, with the Request and the writer to hand to the handler. That is w
// itself, or, where a policy has Settle, Strike or Forgive, a place is held or the Guard is [Adaptive], a writer around it that notices the response. It
// can do the same as w, and has to stay in use for an answer later on.
//
// next returns 0 if nothing is left to be answered. In a framework where handlers return
// errors, which are answered further out, it returns the status that the error is going to
// have, or 500 if it has none. The request is then settled when the response begins, or
// when the request ends. A panic is left to be answered in the same way, and goes on.
//
// After the handler, the request that was given to Decide has the Pattern that an inner
// router has found, and the forms that were parsed inside. If the key functions have asked for the route before it was known,
// Options.Logger is warned, once.
func (v Verdict) Serve(w http.ResponseWriter, next func(http.ResponseWriter, *http.Request) (unanswered int)) {
	rc, r := v.rc, v.Request
	if v.inside != nil {
		v.serveInside(w, next)
		return
	}
	if rc == nil {
		next(w, r)
		return
	}
	before := r.Pattern
	defer func() { // also after a panic
		rc.tellGiven(r)
		if r.Pattern != before {
			rc.tellPattern(r, before)
		}
		if rc.form != nil {
			rc.removeForm()
		}
	}()
	if rc.reservation != nil && rc.reservation.watches() {
		v.serveWatched(w, next)
	} else {
		next(w, r)
	}
	if r.Pattern != before { // the adapter's Matched may look there
		rc.tellPattern(r, before)
	}
	if rc.routeTold != nil {
		rc.guard.placement.Returned(*rc.routeTold, r)
	}
}

// serveWatched runs a handler, and settles its cost.
func (v Verdict) serveWatched(w http.ResponseWriter, next func(http.ResponseWriter, *http.Request) int) {
	var takenOver func(net.Conn) net.Conn // the places are held until it is closed
	if v.rc.reservation.holdsPlaces() {
		takenOver = v.rc.reservation.places.users.takenOver
	}
	watched := v.watch(w, v.Answered, takenOver)
	unanswered := http.StatusInternalServerError // of a panic
	returned := false
	soFar := func() Served {
		response := watched.Response()
		served := Served{Status: response.Status, Bytes: response.Bytes, Hijacked: response.Hijacked, ClientGone: response.ClientGone}
		if served.ClientGone && !watched.Answered() {
			served.Status = statusClientClosedRequest
		}
		if denied := v.rc.denied.Load(); denied != 0 && served.Status == http.StatusOK {
			served.Status = int(denied)
		}
		return served
	}
	v.rc.reservation.begun = watched.Answered
	v.rc.reservation.served = func() (*http.Request, Served) { return v.Request, soFar() }
	defer func() {
		served := soFar()
		served.Panicked = !returned
		if unanswered != 0 && !watched.Answered() {
			served.Status, served.Unanswered = unanswered, true
		}
		v.rc.guard.settle(v.rc, v.Request, served)
	}()
	unanswered = next(watched, v.Request)
	returned = true
}

// watch returns a writer that notices the response to the request. A response that begins during the upload closes the connection.
func (v Verdict) watch(w http.ResponseWriter, begins func(int), takenOver func(net.Conn) net.Conn) writer.Watcher {
	if r := v.Request; r.ProtoMajor == 1 && hasBody(r) && !writer.IsUpload(r.Body) {
		body, refuse := writer.Upload(r.Body, r.ContentLength, w)
		r.Body = body
		told := begins
		begins = func(status int) {
			refuse(status)
			if told != nil {
				told(status)
			}
		}
	}
	return writer.Watch(w, v.Request, begins, takenOver)
}

// Answered tells that the response to a request begins, with its status. The writer that
// [Verdict.Serve] gives to the handler notices that by itself. So an adapter needs this only
// where a framework can answer past that writer and has a hook for it. It matters only
// when the handler has left the answer to others, and then once. Informational responses do
// not count. It may be called by many goroutines at once.
func (v Verdict) Answered(status int) {
	rc := v.rc
	if rc == nil || rc.reservation == nil || !writer.Final(status) {
		return
	}
	if served, waited := rc.reservation.settlement.answered(); waited {
		served.Status, served.Unanswered, served.ClientGone = status, false, writer.Gone(v.Request)
		rc.guard.settleBy(rc, v.Request, served, false)
	}
}

// Replaced tells that a framework has put another request in place of the [Verdict].Request, as middleware of gin and echo
// does. An adapter calls it when the handler has returned or panicked, before next of [Verdict.Serve] returns. The forms that the handler has
// parsed are then removed with the request.
func (v Verdict) Replaced(by *http.Request) {
	if v.rc != nil && by != v.Request {
		inner := requestContext{Context: v.rc.Context, given: v.Request}
		inner.tellGiven(by)
		inner.removeForm()
	}
}

// serveInside runs a handler that is inside until it has returned.
func (v Verdict) serveInside(w http.ResponseWriter, next func(http.ResponseWriter, *http.Request) (unanswered int)) {
	defer v.inside.leave()
	if v.given != nil {
		rc := requestContext{Context: v.given.Context(), given: v.given}
		defer func() { // also after a panic
			rc.tellGiven(v.Request)
			rc.removeForm()
		}()
	}
	next(v.watch(w, nil, v.inside.takenOver), v.Request)
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
			g.writer.Write(h, []headers.Outcome{o.described()})
		}
		return
	}
	if policies := reported(rc.outcomes, make([]headers.Outcome, 0, len(rc.outcomes))); len(policies) > 0 {
		g.writer.Write(h, policies)
	}
}
