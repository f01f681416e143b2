package guard

import (
	"errors"
	"fmt"
	"io"
	"net/http"
)

// ErrBodyTooLong means that a function of a policy or of a list wanted to read more of a request's body than
// Options.MaxKeyBody. It is in [Event].Err, and the request is answered with 413.
var ErrBodyTooLong = errors.New("the body is longer than Options.MaxKeyBody")

// hasBody reports whether a request has a body that can be read.
func hasBody(r *http.Request) bool { return r.Body != nil && r.Body != http.NoBody }

// keyBody is the body of a request while the functions of policies and lists look at it: they can read a part of bounded
// length. The bound is lifted after that. It is used by the goroutine of the request.
type keyBody struct {
	io.ReadCloser // the body itself

	most, left int64
	exceeded   bool
	ended      bool // the body was read to its end
	lifted     bool
	ahead      []byte // was read, and is to be read again
	seen       []byte // all that was read, if it is kept
	keeps      bool
}

// Read implements io.Reader.
func (b *keyBody) Read(p []byte) (int, error) {
	if b.lifted {
		if len(b.ahead) > 0 {
			n := copy(p, b.ahead)
			b.ahead = b.ahead[n:]
			return n, nil
		}
		return b.ReadCloser.Read(p)
	}
	if len(p) == 0 {
		return 0, nil
	}
	if b.left == 0 {
		return b.end()
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	b.ended = err == io.EOF
	if b.keeps {
		b.seen = append(b.seen, p[:n]...)
	}
	return n, err
}

// end is Read at the bound: the body ends there, or is too long.
func (b *keyBody) end() (int, error) {
	if !b.exceeded {
		var next [1]byte
		n, err := io.ReadFull(b.ReadCloser, next[:])
		if n == 0 {
			b.ended = err == io.EOF
			return 0, err
		}
		b.exceeded, b.ahead = true, next[:]
	}
	return 0, &http.MaxBytesError{Limit: b.most}
}

// isUpload reports whether a client may still be sending the body of a request that is not going to be read. HTTP/2 tells
// the client to stop.
func (b *keyBody) isUpload(r *http.Request) bool {
	return r.ProtoMajor == 1 && hasBody(r) && (b == nil || !b.ended)
}

// lift ends the bound. A nil keyBody has none.
func (b *keyBody) lift(r *http.Request) {
	if b == nil {
		return
	}
	b.lifted = true
	if r.Body == io.ReadCloser(b) && len(b.ahead) == 0 {
		r.Body = b.ReadCloser
	}
}

// tooLong returns an error if a function wanted to read more than it may.
func (b *keyBody) tooLong() error {
	if b == nil || !b.exceeded {
		return nil
	}
	return fmt.Errorf("ratelimit: %w: %w", ErrBodyTooLong, &http.MaxBytesError{Limit: b.most})
}

// keep keeps all that is read, so that rewind can give it back.
func (b *keyBody) keep() {
	if b != nil {
		b.keeps = true
	}
}

// rewind returns the body from its beginning, after keep.
func (b *keyBody) rewind() io.ReadCloser {
	b.lifted, b.ahead = true, append(b.seen, b.ahead...)
	return b
}
