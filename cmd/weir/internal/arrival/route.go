package arrival

import (
	"fmt"
	"net/http"
	"net/url"

	"github.com/weir-go/ratelimit/cmd/weir/internal/accesslog"
)

// Route is a set of patterns of net/http, such as "POST /orders/{id}". It may be used concurrently.
type Route struct {
	mux *http.ServeMux
}

// NewRoute returns the route of these patterns. A pattern that net/http refuses, or that conflicts with another, is an error.
func NewRoute(patterns ...string) (route *Route, err error) {
	mux := http.NewServeMux()
	for _, p := range patterns {
		func() {
			defer func() {
				if refused := recover(); refused != nil {
					err = fmt.Errorf("route %q: %v", p, refused)
				}
			}()
			mux.Handle(p, http.NotFoundHandler())
		}()
		if err != nil {
			return nil, err
		}
	}
	return &Route{mux}, nil
}

// matcher asks a route with one request that it uses again and again.
type matcher struct {
	route   *Route
	request http.Request
	url     url.URL
}

func (m *matcher) matches(r *accesslog.Record) bool {
	target, ok := accesslog.Target(string(r.Path))
	if !ok {
		return false
	}
	m.url = target
	m.request.Method = string(r.Method)
	if m.request.Method == "" {
		m.request.Method = http.MethodGet
	}
	m.request.Host = string(r.Host)
	m.request.URL = &m.url
	_, pattern := m.route.mux.Handler(&m.request)
	return pattern != ""
}
