package guard

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard/internal/rpc"
	"github.com/weir-go/ratelimit/guard/internal/writer"
	"github.com/weir-go/ratelimit/headers"
)

const statusClientClosedRequest = rpc.StatusClientClosedRequest

// Denial is the answer to a request that may not go on. It is an [http.Handler]
// that writes it. [Verdict.WriteHeader] has to write its headers first.
type Denial struct {
	// Status says why: 429 if a policy denied the request; 403 if a list or a ban did; 413 if the body is longer than
	// Options.MaxKeyBody; 503 if the store could not
	// answer, if the request's deadline has passed, or if the request could not be held
	// until its turn; 500 if a policy could not name its check; 499 if the client went
	// away; 414 if the path is too long to find its policies. It is the status of the answer, except for calls of gRPC and streams of
	// Connect, which are answered by a code that stands for it: see [Denial.ServeHTTP].
	Status int
	// ViolatedPolicies are the names of the policies that denied the request. It is nil
	// unless Status is 429 or a ban denied it.
	ViolatedPolicies []string
	// Banned says that a ban denied the request: a [Policy].Ban. Status is then 403, or 429 with Ban.Tell.
	Banned bool
	// RetryAfter is the time after which the client may try again. With 429 it is the
	// longest RetryAfter of the violated policies, and [core.Never] if no wait can help. It
	// is 0 where nothing is known. The field Retry-After says it in whole seconds, rounded
	// up.
	RetryAfter time.Duration

	upload bool // the client may still be sending the body

	hook  func(http.ResponseWriter, *http.Request, *Denial) // Options.Denied
	outer *requestContext                                   // of the limiters in front, which are told of the Status
}

// Problem is a problem document of RFC 9457, with the types that
// draft-ietf-httpapi-ratelimit-headers defines. It says nothing about keys,
// addresses or the store.
type Problem struct {
	// Type is a URI that names the kind of problem.
	Type string `json:"type"`
	// Title says it in words. It is the same for all problems of a type.
	Title string `json:"title"`
	// Status is the status of the response.
	Status int `json:"status"`
	// ViolatedPolicies are the names of the policies that denied the request.
	ViolatedPolicies []string `json:"violated-policies,omitempty"`
}

// ProblemType is the media type of a [Problem].
const ProblemType = "application/problem+json"

// Problem returns the problem document that the answer consists of.
func (d *Denial) Problem() Problem {
	if d.Banned {
		return Problem{
			Type:             "https://iana.org/assignments/http-problem-types#abnormal-usage-detected",
			Title:            "Request not satisfied due to detection of abnormal request pattern",
			Status:           d.Status,
			ViolatedPolicies: d.ViolatedPolicies,
		}
	}
	switch d.Status {
	case http.StatusTooManyRequests:
		return Problem{
			Type:             "https://iana.org/assignments/http-problem-types#quota-exceeded",
			Title:            "Request cannot be satisfied as assigned quota has been exceeded",
			Status:           d.Status,
			ViolatedPolicies: d.ViolatedPolicies,
		}
	case http.StatusServiceUnavailable:
		return Problem{
			Type:   "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",
			Title:  "Request cannot be satisfied due to temporary server capacity constraints",
			Status: d.Status,
		}
	case statusClientClosedRequest:
		return Problem{Type: "about:blank", Title: "Client Closed Request", Status: d.Status}
	default:
		return Problem{Type: "about:blank", Title: http.StatusText(d.Status), Status: d.Status}
	}
}

// Native reports whether ServeHTTP answers with the problem document: there is no
// [Options.Denied], the request is no call of gRPC, gRPC-Web or Connect, and the client
// does not prefer plain text.
func (d *Denial) Native(r *http.Request) bool {
	return d.Returnable(r) && !prefersPlainText(r.Header.Values("Accept"))
}

// Returnable reports whether a framework with handlers that return errors may return the
// denial as one, for its error handler to answer, with [Denial.Problem] in it: there is no
// [Options.Denied], and the request is no call of gRPC, gRPC-Web or Connect. Clients of those
// understand the answer of ServeHTTP alone.
func (d *Denial) Returnable(r *http.Request) bool {
	_, isRPC := rpc.CallOf(r)
	return !d.hooked() && !isRPC
}

// ServeHTTP writes the answer: that of [Options.Denied] if there is one, else a problem
// document, or plain text if the client ranks that above JSON. The answer to a HEAD has no
// body.
//
// A remote procedure call is answered in its own protocol, with the same header fields,
// because its clients take a bare 429 for a server that is unavailable:
//
//	                          answer
//	gRPC (a POST over HTTP/2) 200, the outcome in grpc-status, no body
//	gRPC-Web                  the same
//	Connect, unary            Status, a JSON document with the error's code
//	Connect, streaming        200, a stream that ends with the error
//
// [SettlePolicy].Cost, Strike and Options.Observe of limiters in front are told the Status.
//
// The code is RESOURCE_EXHAUSTED for 429, UNAVAILABLE for 503, PERMISSION_DENIED for 403,
// INTERNAL for 500, RESOURCE_EXHAUSTED for 413. It comes with the detail google.rpc.RetryInfo, which is RetryAfter;
// with gRPC and gRPC-Web there is grpc-retry-pushback-ms besides, after which a client retries
// by itself. It is -1, which is not to retry, if the wait is longer than five seconds and if no
// wait can help: a client would sleep for all of it, even beyond its deadline.
func (d *Denial) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if d.hooked() {
		d.serveHook(w, r)
		return
	}
	if call, isRPC := rpc.CallOf(r); isRPC {
		for rc := d.outer; rc != nil; rc = rc.outer {
			rc.denied.Store(int32(d.Status))
		}
		call.Deny(w, rpc.Denial{Status: d.Status, Message: d.text(), RetryAfter: d.RetryAfter})
		return
	}
	d.serveProblem(w, r)
}

// serveProblem answers with the problem document, or its title.
func (d *Denial) serveProblem(w http.ResponseWriter, r *http.Request) {
	plain := prefersPlainText(r.Header.Values("Accept"))
	if plain {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	} else {
		w.Header().Set("Content-Type", ProblemType)
	}
	w.WriteHeader(d.Status)
	switch {
	case r.Method == http.MethodHead:
	case plain:
		_, _ = fmt.Fprintln(w, d.text()) // the client is gone if this fails
	default:
		_ = json.NewEncoder(w).Encode(d.Problem())
	}
}

// hooked reports whether Options.Denied answers. A client that went away gets no answer
// that is worth one.
func (d *Denial) hooked() bool { return d.hook != nil && d.Status != statusClientClosedRequest }

// serveHook has Options.Denied answer, and answers with the bare status if it does not.
// The denial that it is given has no hook, so that its ServeHTTP is the usual answer.
func (d *Denial) serveHook(w http.ResponseWriter, r *http.Request) {
	watched := writer.Watch(w, r, nil, nil)
	usual := *d
	usual.hook = nil
	if rc, ok := r.Context().(*requestContext); ok {
		defer func() { // also after a panic
			rc.tellGiven(r)
			rc.removeForm()
		}()
	}
	d.hook(watched, r, &usual)
	if !watched.Answered() {
		w.WriteHeader(d.Status)
	}
}

func (d *Denial) text() string {
	text := d.Problem().Title
	if seconds, ok := d.retryAfter(); ok {
		text += fmt.Sprintf(", retry after %d s", seconds)
	}
	return text
}

// retryAfter returns the value of the field Retry-After, or false if there is none.
func (d *Denial) retryAfter() (seconds int64, ok bool) {
	if d.RetryAfter <= 0 {
		return 0, false
	}
	return headers.RetryAfter([]headers.Outcome{{Decision: core.Decision{RetryAfter: d.RetryAfter}}})
}

// writeHeader sets the fields of every denial, and removes those by which outer code describes
// a response that will not be sent.
func (d *Denial) writeHeader(h http.Header) {
	for name := range h {
		if describesPage(name) {
			delete(h, name)
		}
	}
	h.Set("Cache-Control", "no-store")
	if d.upload {
		h.Set("Connection", "close") // or net/http reads up to 256 KB before it answers
	}
	if seconds, ok := d.retryAfter(); ok {
		h.Set("Retry-After", strconv.FormatInt(seconds, 10))
	}
}

// describesPage reports whether a field describes the page that the client does not get, or
// tells a cache to store it. RFC 9213 lets a cache heed a field of its own, such as
// CDN-Cache-Control, in place of Cache-Control.
func describesPage(field string) bool {
	field = http.CanonicalHeaderKey(field)
	switch field {
	case "Etag", "Last-Modified", "Content-Length", "Content-Type", "Retry-After",
		"Age", "Cache-Control", "Edge-Control", "Expires", "Surrogate-Control", "X-Accel-Expires":
		return true
	}
	return strings.HasSuffix(field, "-Cache-Control")
}
