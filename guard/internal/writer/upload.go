package writer

import (
	"io"
	"net/http"
	"sync/atomic"
)

// Upload returns the body of a request for a handler behind a [Watcher], and a function to call when the response
// begins. [http.MaxBytesReader] tells net/http's own writer, and no other, that a body is too large: the server then does not wait for the rest,
// and closes the connection. Upload closes it, too, if a handler stops reading in the middle, after a read that was filled, and answers with
// an error, unless little is left: net/http reads that. length is how long the body is, or
// negative if it is unknown. over is the writer of the response.
func Upload(body io.ReadCloser, length int64, over http.ResponseWriter) (watched io.ReadCloser, begins func(status int)) {
	u := &upload{ReadCloser: body}
	return u, func(status int) {
		much := length < 0 || length-u.read.Load() > littleLeft
		if status >= http.StatusBadRequest && u.goesOn.Load() && much {
			over.Header().Set("Connection", "close")
		}
	}
}

// littleLeft is how much of a body net/http may read behind a handler that does not.
const littleLeft = 64 << 10

// IsUpload reports whether a body is one that Upload has returned.
func IsUpload(body io.ReadCloser) bool {
	_, is := body.(*upload)
	return is
}

type upload struct {
	io.ReadCloser

	read   atomic.Int64
	goesOn atomic.Bool // the last read was filled, and was not told of an end
}

// Read implements io.Reader.
func (u *upload) Read(p []byte) (int, error) {
	n, err := u.ReadCloser.Read(p)
	u.read.Add(int64(n))
	u.goesOn.Store(n > 0 && n == len(p) && err == nil)
	return n, err
}
