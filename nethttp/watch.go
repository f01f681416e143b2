package ratelimit

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
)

// Watched is a response writer that notices what becomes of a request, for
// [Guard.Settle]. It can do what the one below can: Flush, Hijack, Push, ReadFrom,
// CloseNotify, and all that [http.ResponseController] finds by Unwrap. It can Hijack,
// too, if that is found by Unwrap only, so that it is noticed. What somebody writes who
// unwraps it himself is not.
type Watched interface {
	http.ResponseWriter
	// Served returns what has been noticed until now.
	Served(panicked bool) Served
	// Unwrap returns the writer below.
	Unwrap() http.ResponseWriter
}

// Watch returns a writer that notices what is written to another one.
func Watch(w http.ResponseWriter) Watched { return watch(w) }

// watcher is a Watched.
type watcher interface {
	Watched
	answered() bool
}

func watch(w http.ResponseWriter) watcher {
	watched := &watchedWriter{ResponseWriter: w}
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

type watchedWriter struct {
	http.ResponseWriter

	status   int
	bytes    int64
	hijacked bool
}

type hijackWatched struct{ *watchedWriter }

type pushWatched struct {
	*watchedWriter
	http.Pusher
}

func (w *watchedWriter) Served(panicked bool) Served {
	served := Served{Status: w.status, Bytes: w.bytes, Panicked: panicked, Hijacked: w.hijacked}
	switch {
	case served.Status != 0:
	case w.hijacked:
		served.Status = http.StatusSwitchingProtocols
	case panicked:
		served.Status = http.StatusInternalServerError
	default:
		served.Status = http.StatusOK
	}
	return served
}

// answered reports whether a response has begun, or somebody has taken the connection over.
func (w *watchedWriter) answered() bool { return w.status != 0 || w.hijacked }

func (w *watchedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *watchedWriter) WriteHeader(status int) {
	if status >= http.StatusOK || status == http.StatusSwitchingProtocols {
		w.begin(status)
	}
	w.ResponseWriter.WriteHeader(status)
}

// begin notices that a response begins, if it has not before.
func (w *watchedWriter) begin(status int) {
	if w.status == 0 {
		w.status = status
	}
}

func (w *watchedWriter) Write(p []byte) (int, error) {
	w.begin(http.StatusOK)
	n, err := w.ResponseWriter.Write(p)
	w.bytes += int64(n)
	return n, err
}

// ReadFrom lets the writer below copy as it likes: from a file without a detour.
func (w *watchedWriter) ReadFrom(from io.Reader) (int64, error) {
	below, ok := w.ResponseWriter.(io.ReaderFrom)
	if !ok {
		return io.Copy(struct{ io.Writer }{w}, from) // which has no ReadFrom
	}
	w.begin(http.StatusOK)
	n, err := below.ReadFrom(from)
	w.bytes += n
	return n, err
}

func (w *watchedWriter) Flush() { _ = w.FlushError() }

// FlushError is what [http.ResponseController] calls.
func (w *watchedWriter) FlushError() error {
	err := http.NewResponseController(w.ResponseWriter).Flush()
	if !errors.Is(err, http.ErrNotSupported) {
		w.begin(http.StatusOK)
	}
	return err
}

// CloseNotify is what frameworks call that are older than the context of a request, some
// of them without asking whether it is there. The channel never tells anything if no
// writer below knows.
func (w *watchedWriter) CloseNotify() <-chan bool {
	below, ok := wrapped[http.CloseNotifier](w.ResponseWriter) //nolint:staticcheck // deprecated, and in use
	if !ok {
		return nil
	}
	return below.CloseNotify()
}

func (w *hijackWatched) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	connection, buffer, err := http.NewResponseController(w.ResponseWriter).Hijack()
	w.hijacked = w.hijacked || err == nil
	return connection, buffer, err
}
