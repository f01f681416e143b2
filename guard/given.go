package guard

import (
	"context"
	"net/http"
)

// A handler behind a limiter has a copy of the request that the server has made. What it sets there has to be where the
// server and those outside look for it: net/http removes the temporary files of the form in its own request alone.

// shareTrailer makes the trailer of a request one that its copies share: net/http writes one that nobody has announced to
// its own request alone, when the body has been read.
func shareTrailer(r *http.Request) {
	if r.Trailer == nil && r.ContentLength < 0 && hasBody(r) {
		r.Trailer = make(http.Header)
	}
}

// tellGiven tells the request that was given to Decide what was set on a copy of it, unless it has some of its own.
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

// removeForm removes the temporary files of the form that was told when the request ends. The server does that, too, unless
// somebody outside has made a copy of its request. It is called when no handler needs them any more: the context may end
// while one runs.
func (rc *requestContext) removeForm() {
	if form := rc.form; form != nil {
		rc.form = nil
		context.AfterFunc(rc.Context, func() { _ = form.RemoveAll() })
	}
}

// Replaced tells that a framework has put another request in place of the [Verdict].Request, as middleware of gin and echo
// does. An adapter calls it when the handler has returned or panicked, before next of [Verdict.Serve] returns. What the handler has
// parsed is then removed with the request.
func (v Verdict) Replaced(by *http.Request) {
	if v.rc != nil && by != v.Request {
		inner := requestContext{Context: v.rc.Context, given: v.Request}
		inner.tellGiven(by)
		inner.removeForm()
	}
}
