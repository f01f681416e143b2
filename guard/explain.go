package guard

import (
	"net/http"

	"github.com/weir-go/ratelimit/keyfuncs"
)

// Explain returns the event that an observer would be told if the request came now: the policies that it meets, with their keys, costs and
// decisions, and the status of the answer. It charges nothing, and leaves no trace: a body that the functions of policies read can be read
// again. Remaining are the units left now, before the request
// is charged. It knows nothing of limiters in front of this one and of [Adaptive],
// and does not wait for a place, as a MaxWait would.
//
// If the store cannot be asked, Err says why, and Unanswered has the policies. matched is as for [Guard.Decide].
func (g *Guard) Explain(r *http.Request, matched keyfuncs.Matched) Event {
	return g.met(r, matched).explain(r, matched)
}

// explain is [Guard.Explain] for one generation.
func (g *generation) explain(r *http.Request, matched keyfuncs.Matched) Event {
	rc := &requestContext{Context: r.Context(), guard: g, given: r, matched: matched}
	e := Event{Request: r.WithContext(rc)} //nolint:contextcheck // it is made of the request's
	if g.capacity != nil {
		return e
	}
	body := g.boundBody(e.Request)
	body.keep()
	c, decided := g.readKeys(rc, &e, body, call{})
	if body != nil {
		r.Body = body.rewind()
	}
	if form := e.Request.MultipartForm; form != nil && form != r.MultipartForm {
		_ = form.RemoveAll()
	}
	if decided || len(c.Checks) == 0 {
		return e
	}
	decisions, err := g.limiter.PeekAll(r.Context(), c.Checks...)
	if err != nil {
		e.Unanswered, e.Err = unanswered(&c, nil), err
		return e
	}
	g.conclude(rc, &e, c, decisions)
	return e
}
