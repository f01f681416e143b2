package outbound

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"

	"github.com/weir-go/ratelimit/core"
)

// place is what a call holds under a [core.Concurrent] limit. A nil place is none.
type place struct {
	of   *core.Reservation
	once sync.Once
}

// acquire waits for a place.
func acquire(ctx context.Context, l *core.Limiter, key string, limit core.Limit, waits []core.WaitOption) (*place, error) {
	r, err := l.WaitAll(ctx, []core.Check{{Key: key, Limit: limit}}, waits...)
	if err != nil {
		return nil, err //nolint:wrapcheck // the transport says what was not made
	}
	return &place{of: r}, nil
}

// release gives the place back in the background.
func (p *place) release() {
	p.once.Do(func() { _ = p.of.SettleLater(make([]int, len(p.of.Decisions()))...) })
}

// roundTrip makes a call, which holds the place until it is over.
func (p *place) roundTrip(base http.RoundTripper, r *http.Request) (response *http.Response, err error) {
	if p == nil {
		return base.RoundTrip(r) //nolint:wrapcheck // it is the base's
	}
	defer func() { // also after a panic
		if response == nil {
			p.release()
		}
	}()
	if response, err = base.RoundTrip(r); response == nil {
		return nil, err //nolint:wrapcheck // it is the base's
	}
	if response.Body == http.NoBody { // which not everybody closes
		p.release()
		return response, err //nolint:wrapcheck // it is the base's
	}
	body := &heldBody{ReadCloser: response.Body, place: p}
	response.Body = body
	if w, ok := body.ReadCloser.(io.Writer); ok { // of a connection that speaks another protocol now
		response.Body = &heldConnection{heldBody: body, Writer: w}
	}
	return response, err //nolint:wrapcheck // it is the base's
}

// heldBody is the body of a response whose call holds a place.
type heldBody struct {
	io.ReadCloser

	place *place
}

// Read gives the place back at the end of the body.
func (b *heldBody) Read(p []byte) (n int, err error) {
	n, err = b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		b.place.release()
	}
	return n, err
}

// Close gives the place back.
func (b *heldBody) Close() error {
	defer b.place.release()
	return b.ReadCloser.Close() //nolint:wrapcheck // it is the body's
}

// heldConnection is a heldBody that can be written to.
type heldConnection struct {
	*heldBody
	io.Writer
}
