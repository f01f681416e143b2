package outbound

import (
	"context"
	"io"
	"net/http"
	"sync"
	"weak"

	"github.com/weir-go/ratelimit/core"
)

// place is a call's place under a [core.Concurrent] limit. A nil place is none.
type place struct {
	of     *core.Reservation
	once   sync.Once
	forget func() bool // undoes releaseAfter; may be nil
}

// acquire waits for a place.
func acquire(ctx context.Context, l *core.Limiter, key string, limit core.Places, waits []core.WaitOption) (*place, error) {
	r, err := l.WaitAll(ctx, []core.Check{{Key: key, Limit: limit}}, waits...)
	if err != nil {
		return nil, err
	}
	return &place{of: r}, nil
}

// release gives the place back in the background.
func (p *place) release() {
	if p.forget != nil {
		p.forget()
	}
	p.giveBack()
}

func (p *place) giveBack() {
	p.once.Do(func() { _ = p.of.SettleLater(make([]int, len(p.of.Decisions()))...) })
}

// roundTrip makes a call, which holds the place until it is over.
func (p *place) roundTrip(base http.RoundTripper, r *http.Request) (response *http.Response, err error) {
	if p == nil {
		return base.RoundTrip(r)
	}
	held := false
	defer func() { //nolint:contextcheck // also after a panic; the warning of a settlement belongs to no request
		if !held {
			p.release()
		}
	}()
	response, err = base.RoundTrip(r)
	if err != nil || response == nil || response.Body == nil || response.Body == http.NoBody { // some callers do not close these
		return response, err
	}
	held = true
	body := &heldBody{ReadCloser: response.Body, place: p}
	response.Body = body
	if w, ok := body.ReadCloser.(io.Writer); ok { // of a connection that speaks another protocol now, and outlives the context
		response.Body = &heldConnection{heldBody: body, Writer: w}
	} else {
		p.releaseAfter(r.Context())
	}
	return response, nil
}

// releaseAfter gives the place back when a context ends, since nothing can be read after that. The context does not keep
// the place reachable: if the caller has forgotten the body, its place is given back when its lease is due.
func (p *place) releaseAfter(ctx context.Context) {
	own := weak.Make(p)
	p.forget = context.AfterFunc(ctx, func() { //nolint:contextcheck // as above
		if p := own.Value(); p != nil {
			p.giveBack()
		}
	})
}

// heldBody is the body of a response. The call holds its place until the body ends or is closed.
type heldBody struct {
	io.ReadCloser

	place *place
}

// Read gives the place back at the end of the body; any error is one.
func (b *heldBody) Read(p []byte) (n int, err error) {
	n, err = b.ReadCloser.Read(p)
	if err != nil {
		b.place.release()
	}
	return n, err
}

// Close gives the place back.
func (b *heldBody) Close() error {
	defer b.place.release()
	return b.ReadCloser.Close()
}

// heldConnection is a heldBody that can be written to.
type heldConnection struct {
	*heldBody
	io.Writer
}
