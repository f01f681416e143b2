// Package writer wraps an [http.ResponseWriter] for two purposes: [Watch] notices the
// answer, and [Merge] merges the limits' fields with those of another server. A wrapped
// writer has the abilities of the writer below.
package writer

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"
)

// Watcher is a response writer that notices the response. It has the abilities of the one
// below: Flush, Hijack, Push, ReadFrom, WriteString, CloseNotify, and all that
// [http.ResponseController] finds by Unwrap. It can Hijack, too, if only Unwrap finds that, so
// that the Watcher notices it. It does not notice a response that is written to the writer below.
type Watcher interface {
	http.ResponseWriter
	// Response returns the response until now.
	Response() Response
	// Answered reports whether a response has begun, or a handler has taken the connection over.
	Answered() bool
}

// Response is a response as far as it was noticed.
type Response struct {
	// Status is the status: 200 if none was set, 101 if the connection was taken over.
	Status int
	// Bytes is how much of the body was written.
	Bytes int64
	// Hijacked says that the connection was taken over.
	Hijacked bool
	// ClientGone says that the client had gone when the response began, or has gone and none has begun.
	ClientGone bool
}

// Watch returns a writer that notices the response to r, and writes it to w. It calls begins, unless that is
// nil, when the response begins, before the writer below is told. A handler that takes the connection over gets the
// result of takenOver, unless that is nil.
func Watch(w http.ResponseWriter, r *http.Request, begins func(status int), takenOver func(net.Conn) net.Conn) Watcher {
	watched := &watched{ResponseWriter: w, request: r, begins: begins, takenOver: takenOver}
	if _, ok := wrapped[http.Hijacker](w); ok {
		return &hijackWatched{watched}
	}
	if below, ok := w.(http.Pusher); ok {
		return &pushWatched{watched, below}
	}
	return watched
}

// wrapped returns the writer that [http.ResponseController] would find for a method of
// T: this one, or the nearest that it wraps.
func wrapped[T any](w http.ResponseWriter) (found T, ok bool) {
	for {
		if found, ok = w.(T); ok {
			return found, true
		}
		wrapper, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return found, false
		}
		w = wrapper.Unwrap()
	}
}

type watched struct {
	http.ResponseWriter

	request   *http.Request
	begins    func(status int)
	takenOver func(net.Conn) net.Conn
	// The response may be looked at while a handler writes that has timed out.
	status   atomic.Int32
	bytes    atomic.Int64
	hijacked atomic.Bool
	gone     atomic.Bool
}

type hijackWatched struct{ *watched }

type pushWatched struct {
	*watched
	http.Pusher
}

// Response implements Watcher.
func (w *watched) Response() Response {
	response := Response{Status: int(w.status.Load()), Bytes: w.bytes.Load(), Hijacked: w.hijacked.Load()}
	response.ClientGone = w.gone.Load()
	if response.Status == 0 {
		response.Status, response.ClientGone = http.StatusOK, Gone(w.request)
	}
	return response
}

// Answered implements Watcher.
func (w *watched) Answered() bool { return w.status.Load() != 0 }

func (w *watched) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *watched) WriteHeader(status int) {
	if Final(status) {
		w.begin(status)
	}
	w.ResponseWriter.WriteHeader(status)
}

// Final reports whether a status is that of a response, not of an informational one.
func Final(status int) bool {
	return status >= http.StatusOK || status == http.StatusSwitchingProtocols
}

// begin notices that a response begins, if it has not before. Nothing can be written to a
// connection that was taken over.
func (w *watched) begin(status int) {
	if w.status.Load() == 0 && Gone(w.request) {
		w.gone.Store(true)
	}
	if w.status.CompareAndSwap(0, int32(status)) && w.begins != nil {
		w.begins(status)
	}
}

// Gone reports whether the client of a request has gone. A server ends its patience by a deadline, and is no client that has gone.
func Gone(r *http.Request) bool { return errors.Is(r.Context().Err(), context.Canceled) }

// Write begins the response even if there is nothing to write, or that fails, as it does
// in net/http.
func (w *watched) Write(p []byte) (int, error) {
	w.begin(http.StatusOK)
	n, err := w.ResponseWriter.Write(p)
	w.bytes.Add(int64(n))
	return n, err
}

// WriteString lets the writer below take the string as it is.
func (w *watched) WriteString(s string) (int, error) {
	w.begin(http.StatusOK)
	n, err := io.WriteString(w.ResponseWriter, s)
	w.bytes.Add(int64(n))
	return n, err
}

// ReadFrom lets the writer below copy as it likes: from a file without a detour. If there
// was nothing to copy, the response has not begun: the answer may still be that reading
// has failed.
func (w *watched) ReadFrom(from io.Reader) (int64, error) {
	below, ok := w.ResponseWriter.(io.ReaderFrom)
	if !ok {
		return io.Copy(struct{ io.Writer }{w}, from) // which has no ReadFrom
	}
	n, err := below.ReadFrom(from)
	if n > 0 {
		w.begin(http.StatusOK)
		w.bytes.Add(n)
	}
	return n, err
}

func (w *watched) Flush() { _ = w.FlushError() }

// FlushError is for [http.ResponseController].
func (w *watched) FlushError() error {
	err := http.NewResponseController(w.ResponseWriter).Flush()
	if !errors.Is(err, http.ErrNotSupported) {
		w.begin(http.StatusOK)
	}
	return err
}

// CloseNotify is for frameworks that are older than the context of a request. Some
// call it without asking whether it is there. Without such a writer below, the channel never
// tells anything.
func (w *watched) CloseNotify() <-chan bool {
	below, ok := wrapped[http.CloseNotifier](w.ResponseWriter) //nolint:staticcheck // deprecated, and in use
	if !ok {
		return nil
	}
	return below.CloseNotify()
}

func (w *hijackWatched) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	connection, buffer, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err == nil {
		w.begin(http.StatusSwitchingProtocols)
		w.hijacked.Store(true)
		if w.takenOver != nil {
			connection = w.takenOver(connection)
		}
	}
	return connection, buffer, err
}
