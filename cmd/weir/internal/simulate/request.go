package simulate

import (
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/weir-go/ratelimit/cmd/weir/internal/accesslog"
)

// A maker makes requests from a log, one after the other: each takes the place of the one before, which must not be used any more.
type maker struct {
	made   http.Request
	target url.URL
	header http.Header
	values []string // of the header
}

// peer returns the address of a request as net/http has it, with a port.
func peer(logged *accesslog.Request) string {
	address := logged.Address
	if strings.IndexByte(address, ':') < 0 {
		return strings.Trim(address, "[]") + ":1"
	}
	if _, _, err := net.SplitHostPort(address); err != nil {
		address = net.JoinHostPort(strings.Trim(address, "[]"), "1")
	}
	return address
}

// request returns the request that a log tells of, and false if it tells of none.
func (m *maker) request(logged *accesslog.Request, peer string) (*http.Request, bool) {
	target, ok := accesslog.Target(logged.Path)
	if !ok {
		return nil, false
	}
	m.target = target
	if m.header == nil {
		m.header = make(http.Header)
	}
	clear(m.header)
	m.values = m.values[:0]
	for _, field := range logged.Header {
		m.values = append(m.values, field.Value) // if the space moves, earlier values stay where they are
		last := len(m.values)
		m.header[field.Name] = m.values[last-1 : last : last]
	}
	method := logged.Method
	if method == "" {
		method = http.MethodGet
	}
	m.made = http.Request{
		Method: method, URL: &m.target, Host: logged.Host, Header: m.header, RemoteAddr: peer, RequestURI: logged.Path,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Body: http.NoBody,
	}
	return &m.made, true
}

// discard is a response without a reader.
type discard http.Header

// Header implements http.ResponseWriter.
func (d discard) Header() http.Header { return http.Header(d) }

// Write implements http.ResponseWriter.
func (d discard) Write(text []byte) (int, error) { return len(text), nil }

// WriteHeader implements http.ResponseWriter.
func (d discard) WriteHeader(int) {}
