package simulate

import (
	"net/http"
	"net/url"
	"slices"

	"github.com/weir-go/ratelimit/cmd/weir/internal/accesslog"
)

// A maker makes requests from a log, one after the other: each takes the place of the one before, which must not be used any more.
type maker struct {
	made   http.Request
	target url.URL
	header http.Header
	fields []accesslog.Text // that the header has
	values []string         // of the header, in the order of the fields
}

// request returns the request that a log tells of, and false if it tells of none.
func (m *maker) request(logged *accesslog.Request) (*http.Request, bool) {
	target, ok := accesslog.Target(logged.Path)
	if !ok {
		return nil, false
	}
	m.target = target
	m.setHeader(logged.Header)
	method := logged.Method
	if method == "" {
		method = http.MethodGet
	}
	m.made = http.Request{
		Method: method, URL: &m.target, Host: logged.Host, Header: m.header, RemoteAddr: logged.Peer, RequestURI: logged.Path,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Body: http.NoBody,
	}
	return &m.made, true
}

// setHeader sets the fields of the header. Most lines of a log have the same fields as the line before, so that only their values change.
func (m *maker) setHeader(fields []accesslog.Text) {
	if !slices.EqualFunc(m.fields, fields, func(a, b accesslog.Text) bool { return a.Name == b.Name }) || m.header == nil {
		if m.header == nil {
			m.header = make(http.Header)
		}
		clear(m.header)
		m.values = slices.Grow(m.values[:0], len(fields))[:len(fields)]
		for i := range fields {
			m.header[fields[i].Name] = m.values[i : i+1 : i+1]
		}
	}
	m.fields = fields
	for i := range fields {
		m.values[i] = fields[i].Value
	}
}

// discard is a response without a reader.
type discard http.Header

// Header implements http.ResponseWriter.
func (d discard) Header() http.Header { return http.Header(d) }

// Write implements http.ResponseWriter.
func (d discard) Write(text []byte) (int, error) { return len(text), nil }

// WriteHeader implements http.ResponseWriter.
func (d discard) WriteHeader(int) {}
