package guard

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"slices"

	"github.com/weir-go/ratelimit/headers"
	"github.com/weir-go/ratelimit/internal/dialect"
)

// MergeUpstream makes one set of limit headers out of those of the limiters in front of a
// reverse proxy and those of the upstream server's response. Wrap the proxy:
//
//	limit(ratelimit.MergeUpstream(&httputil.ReverseProxy{Rewrite: …}))
//
// Without it the proxy adds upstream's fields to ours, which makes two values of what may
// have one, and two policies of one name. With it, the lists of [headers.Draft] become one
// list, ours first. A policy of upstream's whose name is taken gets a number after it, the
// same one in both fields. The other dialects have room for one policy: all fields come from
// the side that has less remaining. Only the policies that [headers.Draft6] lists are joined.
// A malformed field of upstream's is dropped if the limiters write a field of that
// name, and fields that they do not write stay. The fields of a Writer of your own replace
// those of upstream. Where nested limiters speak different dialects, the innermost one that
// writes a field decides how it is merged. The response to a request that no limiter has decided about is left
// alone, and so is Retry-After, which is upstream's own.
//
// It takes our fields out of the header before the proxy runs and merges them when the
// response begins. Whatever the proxy can do, it can still do: stream, upgrade the
// connection, send informational responses and trailers, answer by its ErrorHandler. The
// request must have the context of the one that the limiters met. What stands between them
// may keep a header of its own, as [http.TimeoutHandler] does. The proxy may be any handler
// that copies the header of another server's response; one that does not, and sets the
// limits' fields itself, has them merged with ours.
//
// It panics if the proxy is nil.
func MergeUpstream(proxy http.Handler) http.Handler {
	if proxy == nil {
		panic("ratelimit: MergeUpstream: the proxy is nil")
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		own, names, writer := written(r.Context())
		if len(names) == 0 {
			proxy.ServeHTTP(w, r)
			return
		}
		m := &mergingWriter{ResponseWriter: w, own: own, writer: writer, foreign: takeOut(w.Header(), names)}
		defer m.begin() // for whoever answers in its place, also after a panic
		proxy.ServeHTTP(m.able(), r)
	})
}

// written returns the fields that the limiters in front of a handler have written, the
// names of those fields and of others that an inner one has removed, and the Writer that has.
func written(ctx context.Context) (own http.Header, names map[string]bool, writer headers.Writer) {
	var nested []*requestContext
	for rc := requestContextFrom(ctx); rc != nil; rc = rc.outer {
		nested = append(nested, rc)
	}
	own, names = make(http.Header), make(map[string]bool)
	writers := make([]headers.Writer, 0, len(nested))
	for _, rc := range slices.Backward(nested) {
		rc.write(own, nil)
		writers = append(writers, rc.guard.options.Headers)
		for name := range own {
			names[name] = true
		}
	}
	return own, names, headers.Join(writers...)
}

// mergingWriter merges the limits' fields with those of upstream when the response begins.
// What it does not do itself, [http.ResponseController] finds by Unwrap.
type mergingWriter struct {
	http.ResponseWriter

	own      http.Header // the limits' fields, as they are in the header once it has begun
	writer   headers.Writer
	foreign  []string // fields of the limits that are in another header than this one
	begun    bool
	hijacked bool
}

type hijackMerging struct{ *mergingWriter }

type pushMerging struct {
	*mergingWriter
	http.Pusher
}

// takeOut removes fields from a header, so that the proxy does not add upstream's to them.
// It returns those that were not there.
func takeOut(h http.Header, names map[string]bool) (foreign []string) {
	for name := range names {
		if _, ok := h[name]; !ok {
			foreign = append(foreign, name)
		}
		delete(h, name)
	}
	return foreign
}

// able returns the writer with those abilities that only some have.
func (w *mergingWriter) able() http.ResponseWriter {
	if _, ok := wrapped[http.Hijacker](w.ResponseWriter); ok {
		return &hijackMerging{w}
	}
	if below, ok := w.ResponseWriter.(http.Pusher); ok {
		return &pushMerging{w, below}
	}
	return w
}

// begin merges the fields, if that has not been done.
func (w *mergingWriter) begin() {
	if w.begun {
		return
	}
	w.merge()
	w.begun = true
}

// merge merges the limits' fields with what the header has besides.
func (w *mergingWriter) merge() {
	h := w.ResponseWriter.Header()
	if w.begun {
		w.leaveAdded(h)
	}
	dialect.Merge(w.writer, w.own, h)
	for name := range w.own {
		w.own[name] = slices.Clone(h[name])
	}
	for _, name := range w.foreign {
		if len(h[name]) == 0 {
			h[name] = nil // which is no field, and removes ours where this header is copied over the one that has it
		}
	}
}

// leaveAdded leaves in the header what has been added since the fields were merged.
func (w *mergingWriter) leaveAdded(h http.Header) {
	for name, merged := range w.own {
		switch values := h[name]; {
		case len(merged) == 0:
			delete(w.own, name) // upstream's took the place of it, which lacks this field
		case slices.Equal(merged, values):
			delete(h, name)
		case len(merged) < len(values) && slices.Equal(merged, values[:len(merged)]):
			h[name] = values[len(merged):]
		}
	}
}

// Header returns the header. When [httputil.ReverseProxy] upgrades a connection, it adds
// upstream's fields after it has taken the connection over, and sends what Header returns
// then.
//
// [httputil.ReverseProxy]: https://pkg.go.dev/net/http/httputil#ReverseProxy
func (w *mergingWriter) Header() http.Header {
	if w.hijacked {
		w.merge()
	}
	return w.ResponseWriter.Header()
}

func (w *mergingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *mergingWriter) WriteHeader(status int) {
	if status >= http.StatusOK || status == http.StatusSwitchingProtocols {
		w.begin()
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *mergingWriter) Write(p []byte) (int, error) {
	w.begin()
	return w.ResponseWriter.Write(p)
}

// ReadFrom lets the writer below copy as it likes: from a file without a detour.
func (w *mergingWriter) ReadFrom(from io.Reader) (int64, error) {
	w.begin()
	if below, ok := w.ResponseWriter.(io.ReaderFrom); ok {
		return below.ReadFrom(from)
	}
	return io.Copy(struct{ io.Writer }{w}, from) // which has no ReadFrom
}

func (w *mergingWriter) Flush() { _ = w.FlushError() }

// FlushError is what [http.ResponseController] calls.
func (w *mergingWriter) FlushError() error {
	w.begin()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

func (w *hijackMerging) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	w.begin()
	connection, buffer, err := http.NewResponseController(w.ResponseWriter).Hijack()
	w.hijacked = w.hijacked || err == nil
	return connection, buffer, err
}
