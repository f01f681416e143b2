package guardtest

import (
	"net/http"
	"slices"
	"testing"
)

// Features are the features that a framework may lack: see Adapter.Without. Combine them by |.
type Features uint

// The features. A framework of net/http has all of them.
const (
	// NetHTTP: a handler is given the response writer and the request of net/http themselves, or ones that wrap them, so that a
	// limiter inside of another one knows the request again.
	NetHTTP Features = 1 << iota
	// HTTP2: requests of HTTP/2 come to the limiter as such. Calls of gRPC do.
	HTTP2
	// Hijacking: a handler, and [guard.Options].Denied, may take the connection over, by [http.Hijacker].
	Hijacking
	// Streaming: the writes of a handler are noticed, and can be sent, while it runs; so can informational responses.
	Streaming
	// StreamedBodies: the body of a request is read from the connection when the limiter, or the handler, reads it.
	StreamedBodies
	// RouteAround: a limiter around a whole site knows the route and the values of the path, as the router has found them.
	RouteAround
	// AnyMethod: requests with unknown methods come to a limiter around a site, too.
	AnyMethod
	// AnyCase: a response may have fields with names that are not in canonical case.
	AnyCase
)

// need skips a test if the framework is without one of these features.
func (s *suite) need(t *testing.T, features Features) {
	t.Helper()
	if s.without&features != 0 {
		t.Skip("the framework is without a feature that this case is about")
	}
}

// routed are the places of limiters that know the route.
func (s *suite) routed() []func(*fixture, ...middleware) http.Handler {
	if s.without&RouteAround != 0 {
		return []func(*fixture, ...middleware) http.Handler{(*fixture).inside}
	}
	return []func(*fixture, ...middleware) http.Handler{(*fixture).inside, (*fixture).around}
}

// passed are the requests that come to a limiter around a site.
func (s *suite) passed(requests []*http.Request) []*http.Request {
	if s.without&AnyMethod == 0 {
		return requests
	}
	known := []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions}
	return slices.DeleteFunc(slices.Clone(requests), func(r *http.Request) bool { return !slices.Contains(known, r.Method) })
}

// needScenes skips a test if the adapter cannot play scenes.
func (s *suite) needScenes(t *testing.T) {
	t.Helper()
	if s.play == nil {
		t.Skip("the adapter plays no scenes")
	}
}
