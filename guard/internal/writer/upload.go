package writer

import (
	"io"
	"net/http"
	"sync/atomic"
)

// Upload returns the body of a request as a handler is to have it behind a [Watcher], and what to call when the response to it
// begins. [http.MaxBytesReader] tells net/http's own writer, and no other, that a body is too large. Then the rest is not
// waited for, and the connection is closed. So whoever stops reading in the middle, after a read that was filled, and answers with
// an error has the connection closed as well. over is the writer of the response.
func Upload(body io.ReadCloser, over http.ResponseWriter) (watched io.ReadCloser, begins func(status int)) {
	u := &upload{ReadCloser: body}
	return u, func(status int) {
		if status >= http.StatusBadRequest && u.goesOn.Load() {
			over.Header().Set("Connection", "close")
		}
	}
}

// IsUpload reports whether a body is one that Upload has returned.
func IsUpload(body io.ReadCloser) bool {
	_, is := body.(*upload)
	return is
}

type upload struct {
	io.ReadCloser

	goesOn atomic.Bool // the last read was filled, and was not told of an end
}

// Read implements io.Reader.
func (u *upload) Read(p []byte) (int, error) {
	n, err := u.ReadCloser.Read(p)
	u.goesOn.Store(n > 0 && n == len(p) && err == nil)
	return n, err //nolint:wrapcheck // it is the body's
}
