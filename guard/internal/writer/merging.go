package writer

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"slices"

	"github.com/weir-go/ratelimit/headers"
	"github.com/weir-go/ratelimit/internal/dialect"
)

// Merge takes the limits' fields out of the header of w. It returns a writer for a handler
// that copies the header of another server's response, and merges own with that server's
// fields when the response begins. fields are the names of all fields of the limits; as says
// how they are written.
//
// The caller has to call begin when the handler has returned or panicked: others may answer in
// its place. It may be called more than once.
func Merge(w http.ResponseWriter, own http.Header, fields map[string]bool, as headers.Writer) (merging http.ResponseWriter, begin func()) {
	m := &merger{ResponseWriter: w, own: own, writer: as, foreign: takeOut(w.Header(), fields)}
	return m.able(), m.begin
}

// merger merges the limits' fields with those of another server, upstream, when the response
// begins. [http.ResponseController] finds the other abilities by Unwrap.
type merger struct {
	http.ResponseWriter

	own      http.Header // the limits' fields, as they are in the header once it has begun
	writer   headers.Writer
	foreign  []string // fields of the limits that are in another header than this one
	begun    bool
	hijacked bool
}

type hijackMerging struct{ *merger }

type pushMerging struct {
	*merger
	http.Pusher
}

// takeOut removes fields from a header, so that the proxy does not add upstream's to them.
// It returns the fields that were not there.
func takeOut(h http.Header, names map[string]bool) (foreign []string) {
	for name := range names {
		if _, ok := h[name]; !ok {
			foreign = append(foreign, name)
		}
		delete(h, name)
	}
	return foreign
}

// able returns the writer with the optional abilities of the writer below.
func (w *merger) able() http.ResponseWriter {
	if _, ok := wrapped[http.Hijacker](w.ResponseWriter); ok {
		return &hijackMerging{w}
	}
	if below, ok := w.ResponseWriter.(http.Pusher); ok {
		return &pushMerging{w, below}
	}
	return w
}

// begin merges the fields, if that has not been done.
func (w *merger) begin() {
	if w.begun {
		return
	}
	w.merge()
	w.begun = true
}

// merge merges the limits' fields with the rest of the header.
func (w *merger) merge() {
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

// leaveAdded removes the merged fields from the header, but for values that have been added since.
func (w *merger) leaveAdded(h http.Header) {
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
// upstream's fields after it has taken the connection over, and sends the result of Header
// then.
//
// [httputil.ReverseProxy]: https://pkg.go.dev/net/http/httputil#ReverseProxy
func (w *merger) Header() http.Header {
	if w.hijacked {
		w.merge()
	}
	return w.ResponseWriter.Header()
}

func (w *merger) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *merger) WriteHeader(status int) {
	if Final(status) {
		w.begin()
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *merger) Write(p []byte) (int, error) {
	w.begin()
	return w.ResponseWriter.Write(p)
}

// ReadFrom lets the writer below copy as it likes: from a file without a detour.
func (w *merger) ReadFrom(from io.Reader) (int64, error) {
	w.begin()
	if below, ok := w.ResponseWriter.(io.ReaderFrom); ok {
		return below.ReadFrom(from)
	}
	return io.Copy(struct{ io.Writer }{w}, from) // which has no ReadFrom
}

func (w *merger) Flush() { _ = w.FlushError() }

// FlushError is for [http.ResponseController].
func (w *merger) FlushError() error {
	w.begin()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

func (w *hijackMerging) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	w.begin()
	connection, buffer, err := http.NewResponseController(w.ResponseWriter).Hijack()
	w.hijacked = w.hijacked || err == nil
	return connection, buffer, err
}
