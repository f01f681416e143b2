package outbound

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
)

// outcome is the news that a call brings about its host.
type outcome int

const (
	unknown  outcome = iota // nothing: the call was not made, or the caller ended it
	accepted                // the host has done its work
	rejected                // the host has not
)

// outcomeOf returns the outcome of a call, with the body that it was made with.
func (t *Transport) outcomeOf(r *http.Request, response *http.Response, body *sentBody, err error) outcome {
	if err == nil && response == nil {
		return unknown
	}
	if err != nil {
		if _, unmade := errors.AsType[*notMadeError](err); unmade || body.isMissing() || errors.Is(r.Context().Err(), context.Canceled) {
			return unknown
		}
		response = nil // net/http drops it, too
	}
	if t.options.Rejected(response, err) {
		return rejected
	}
	if err != nil {
		return unknown
	}
	return accepted
}

// isRejected is the default of Options.Rejected. Errors that a request causes by itself, such as a header that cannot be sent,
// are not about the host.
func isRejected(response *http.Response, err error) bool {
	if err != nil {
		_, network := errors.AsType[net.Error](err)
		return network || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
	}
	switch response.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// isOfKey returns whether an answer is about the account that By names, and not about the host.
func (t *Transport) isOfKey(response *http.Response) bool {
	return t.hosts.accounts && response != nil && response.StatusCode == http.StatusTooManyRequests
}

// notMadeError is why a call was not made, or not once more. It may come from another Transport, the Base of this one.
type notMadeError struct {
	made   int // how many times the call was made before
	reason error
}

func (e *notMadeError) Error() string {
	switch e.made {
	case 0:
		return "outbound: the call was not made: " + e.reason.Error()
	case 1:
		return "outbound: the call was made once, and not again: " + e.reason.Error()
	}
	return fmt.Sprintf("outbound: the call was made %d times, and not again: %v", e.made, e.reason)
}

func (e *notMadeError) Unwrap() error { return e.reason }

// sentBody is the body of a request, and tells whether the call waits for it in vain. A nil sentBody is none.
type sentBody struct {
	io.ReadCloser

	wanting atomic.Bool // it is being read, or reading it has failed
}

// watched returns a request with a body that is watched while it is sent.
func watched(r *http.Request) (*http.Request, *sentBody) {
	if r.Body == nil || r.Body == http.NoBody {
		return r, nil
	}
	body := &sentBody{ReadCloser: r.Body}
	next := r.WithContext(r.Context())
	next.Body = body
	return next, body
}

// Read reads the body.
func (b *sentBody) Read(p []byte) (n int, err error) {
	b.wanting.Store(true)
	n, err = b.ReadCloser.Read(p)
	if err == nil || errors.Is(err, io.EOF) {
		b.wanting.Store(false)
	}
	return n, err
}

// isMissing returns whether the host has not got the body so far, because its sender breaks off or is slow. A client of a
// proxy could do that on purpose.
func (b *sentBody) isMissing() bool { return b != nil && b.wanting.Load() }
