package ratelimit

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
)

// statusClientClosedRequest is nginx's status for a client that went away before
// its answer. Nobody reads it but access logs.
const statusClientClosedRequest = 499

// Refusal is the answer to a request that may not go on. It is an [http.Handler]
// that writes it. Its headers have been written by [Guard.Check].
type Refusal struct {
	// Status is the status of the answer, as in [Event]. A call of gRPC is told by a
	// status of gRPC that stands for it.
	Status int

	violated   []string // the names of the policies that refused
	retryAfter int64    // in seconds; 0 if no wait is known to help
	denied     http.Handler
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
	// ViolatedPolicies are the names of the policies that refused the request.
	ViolatedPolicies []string `json:"violated-policies,omitempty"`
}

// ProblemType is the media type of a [Problem].
const ProblemType = "application/problem+json"

// Problem returns the problem document that the answer consists of.
func (f *Refusal) Problem() Problem {
	switch f.Status {
	case http.StatusTooManyRequests:
		return Problem{
			Type:             "https://iana.org/assignments/http-problem-types#quota-exceeded",
			Title:            "Request cannot be satisfied as assigned quota has been exceeded",
			Status:           f.Status,
			ViolatedPolicies: f.violated,
		}
	case http.StatusServiceUnavailable:
		return Problem{
			Type:   "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",
			Title:  "Request cannot be satisfied due to temporary server capacity constraints",
			Status: f.Status,
		}
	case statusClientClosedRequest:
		return Problem{Type: "about:blank", Title: "Client Closed Request", Status: f.Status}
	default:
		return Problem{Type: "about:blank", Title: http.StatusText(f.Status), Status: f.Status}
	}
}

// Native reports whether a framework may render [Refusal.Problem] by its own
// error handler and still give the answer that ServeHTTP would: the options have
// no Denied handler, and the request is no call of gRPC and does not prefer plain text. The media type
// to give it is [ProblemType].
func (f *Refusal) Native(r *http.Request) bool {
	return f.deniedHandler() == nil && !isGRPC(r) && !prefersPlainText(r.Header.Values("Accept"))
}

// ServeHTTP writes the answer: that of [Options.Denied] if the request was
// refused and there is one, else a problem document, or plain text if the request
// ranks that above JSON. The answer to a HEAD has no body.
//
// A call of gRPC or gRPC-Web is answered by grpc-status instead, with 200 and
// without a body: RESOURCE_EXHAUSTED (8) for 429, UNAVAILABLE (14) for 503,
// INTERNAL (13) for 500. It says in grpc-retry-pushback-ms what Retry-After says,
// or -1 when no wait can help.
func (f *Refusal) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if denied := f.deniedHandler(); denied != nil {
		written := &writtenWriter{ResponseWriter: w}
		denied.ServeHTTP(written, r)
		if !written.written {
			w.WriteHeader(f.Status)
		}
		return
	}
	if mediaType, ok := grpcType(r); ok {
		f.serveGRPC(w, mediaType)
		return
	}
	plain := prefersPlainText(r.Header.Values("Accept"))
	if plain {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	} else {
		w.Header().Set("Content-Type", ProblemType)
	}
	w.WriteHeader(f.Status)
	switch {
	case r.Method == http.MethodHead:
	case plain:
		_, _ = fmt.Fprintln(w, f.text()) // the client is gone if this fails
	default:
		_ = json.NewEncoder(w).Encode(f.Problem())
	}
}

func (f *Refusal) deniedHandler() http.Handler {
	if f.Status != http.StatusTooManyRequests {
		return nil
	}
	return f.denied
}

func (f *Refusal) text() string {
	text := f.Problem().Title
	if f.retryAfter > 0 {
		text += fmt.Sprintf(", retry after %d s", f.retryAfter)
	}
	return text
}

// writeHeaders sets what every refusal has to say, and takes back what outer code
// has said of a response that will not be.
func (f *Refusal) writeHeaders(h http.Header) {
	for _, name := range [...]string{"Etag", "Last-Modified", "Expires", "Age", "Content-Length", "Content-Type", "Retry-After"} {
		delete(h, name)
	}
	h.Set("Cache-Control", "no-store")
	if f.retryAfter > 0 {
		h.Set("Retry-After", strconv.FormatInt(f.retryAfter, 10))
	}
}

// writtenWriter notices whether anything is written.
type writtenWriter struct {
	http.ResponseWriter

	written bool
}

func (w *writtenWriter) WriteHeader(status int) {
	w.written = w.written || status >= 200 // 1xx are not the answer
	w.ResponseWriter.WriteHeader(status)
}

func (w *writtenWriter) Write(p []byte) (int, error) {
	w.written = true
	return w.ResponseWriter.Write(p)
}

// Unwrap lets [http.ResponseController] find the writer's other abilities.
func (w *writtenWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Flush makes the writer an [http.Flusher], which older handlers look for.
func (w *writtenWriter) Flush() {
	w.written = true
	_ = http.NewResponseController(w.ResponseWriter).Flush()
}
