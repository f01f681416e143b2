package guard

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
)

// watcher is a response writer that notices what becomes of a request. It can do what the
// one below can: Flush, Hijack, Push, ReadFrom, WriteString, CloseNotify, and all that
// [http.ResponseController] finds by Unwrap. It can Hijack, too, if that is found by Unwrap
// only, so that it is noticed. What somebody writes who unwraps it himself is not.
type watcher interface {
	http.ResponseWriter
	// served returns what has been noticed until now.
	served(panicked bool) Served
	// answered reports whether a response has begun, or somebody has taken the connection
	// over.
	answered() bool
}

// watch returns a writer that notices what is written to another one.
func watch(w http.ResponseWriter) watcher { return watchFor(w, func(int) {}) }

// watchFor is watch, and tells when the response begins, before it does.
func watchFor(w http.ResponseWriter, begins func(status int)) watcher {
	watched := &watchedWriter{ResponseWriter: w, begins: begins}
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

	begins   func(status int)
	status   int
	bytes    int64
	hijacked bool
}

type hijackWatched struct{ *watchedWriter }

type pushWatched struct {
	*watchedWriter
	http.Pusher
}

func (w *watchedWriter) served(panicked bool) Served {
	served := Served{Status: w.status, Bytes: w.bytes, Panicked: panicked, Hijacked: w.hijacked}
	if served.Status == 0 {
		served.Status = http.StatusOK
	}
	return served
}

func (w *watchedWriter) answered() bool { return w.status != 0 }

func (w *watchedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *watchedWriter) WriteHeader(status int) {
	if final(status) {
		w.begin(status)
	}
	w.ResponseWriter.WriteHeader(status)
}

// final reports whether a status is that of a response, not of an informational one.
func final(status int) bool {
	return status >= http.StatusOK || status == http.StatusSwitchingProtocols
}

// begin notices that a response begins, if it has not before. Nothing can be written to a
// connection that was taken over.
func (w *watchedWriter) begin(status int) {
	if !w.answered() {
		w.status = status
		w.begins(status)
	}
}

// Write begins the response even if there is nothing to write, or that fails, as it does
// in net/http.
func (w *watchedWriter) Write(p []byte) (int, error) {
	w.begin(http.StatusOK)
	n, err := w.ResponseWriter.Write(p)
	w.bytes += int64(n)
	return n, err
}

// WriteString lets the writer below take the string as it is.
func (w *watchedWriter) WriteString(s string) (int, error) {
	w.begin(http.StatusOK)
	n, err := io.WriteString(w.ResponseWriter, s)
	w.bytes += int64(n)
	return n, err
}

// ReadFrom lets the writer below copy as it likes: from a file without a detour. If there
// was nothing to copy, the response has not begun: somebody may still answer that reading
// has failed.
func (w *watchedWriter) ReadFrom(from io.Reader) (int64, error) {
	below, ok := w.ResponseWriter.(io.ReaderFrom)
	if !ok {
		return io.Copy(struct{ io.Writer }{w}, from) // which has no ReadFrom
	}
	n, err := below.ReadFrom(from)
	if n > 0 {
		w.begin(http.StatusOK)
		w.bytes += n
	}
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
	if err == nil {
		w.begin(http.StatusSwitchingProtocols)
		w.hijacked = true
	}
	return connection, buffer, err
}
