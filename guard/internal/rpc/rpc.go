// Package rpc denies remote procedure calls in their own protocol: gRPC, gRPC-Web and Connect.
// Their clients take a bare 429 for a server that is unavailable.
package rpc

import (
	"net/http"
	"strings"
	"time"
)

// Call is a remote procedure call, as far as its denial depends on it.
type Call struct {
	protocol  protocol
	mediaType string // without parameters
}

// protocol is the protocol of a call. Its clients understand answers of that protocol alone.
type protocol int

const (
	grpc protocol = iota // or gRPC-Web
	connect
	connectStream
)

// Denial is the answer to a call.
type Denial struct {
	// Status is the HTTP status that another request would get: 429, 503, 403, 413, 499 or 500.
	Status int
	// Message says why, in plain ASCII without a percent sign.
	Message string
	// RetryAfter is when the client may try again: core.Never if no wait can help, 0 if
	// nothing is known.
	RetryAfter time.Duration
}

// longestType bounds the media types that are given back to the client. It is longer than all that are in use.
const longestType = 64

// CallOf returns the call that a request is, or false if it is none.
//
// A call of gRPC is a POST over HTTP/2 or later, and one of gRPC-Web is a POST; the
// Content-Type says so. A call of Connect has a version in a header, or in the query if it is
// a GET. A stream of Connect has a Content-Type of its own. All other requests
// are no calls: their clients could take 200 for success.
//
// https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md
// https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-WEB.md
// https://connectrpc.com/docs/protocol
func CallOf(r *http.Request) (Call, bool) {
	if r.Method == http.MethodGet && isConnectQuery(r.URL.RawQuery) {
		return Call{connect, ""}, true
	}
	mediaType, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	mediaType = strings.Trim(mediaType, " \t")
	if r.Method != http.MethodPost || len(mediaType) > longestType {
		return Call{}, false
	}
	mediaType = strings.ToLower(mediaType)
	switch family, _, isSuffixed := strings.Cut(mediaType, "+"); {
	case family == "application/grpc":
		if r.ProtoMajor >= 2 {
			return Call{grpc, mediaType}, true
		}
	case family == "application/grpc-web", family == "application/grpc-web-text":
		return Call{grpc, mediaType}, true
	case family == "application/connect" && isSuffixed:
		return Call{connectStream, mediaType}, true
	case strings.HasPrefix(family, "application/") && r.Header.Get("Connect-Protocol-Version") == "1":
		return Call{connect, mediaType}, true
	}
	return Call{}, false
}

// isConnectQuery reports whether a query is that of a call of Connect.
func isConnectQuery(query string) bool {
	for parameter := range strings.SplitSeq(query, "&") {
		if parameter == "connect=v1" {
			return true
		}
	}
	return false
}

// Deny answers the call with a denial.
func (c Call) Deny(w http.ResponseWriter, d Denial) {
	switch c.protocol {
	case grpc:
		d.serveGRPC(w, c.mediaType)
	case connect:
		d.serveConnect(w)
	case connectStream:
		d.serveConnectStream(w, c.mediaType)
	}
}

// StatusClientClosedRequest is nginx's status for a client that went away before its answer.
// Only access logs tell it.
const StatusClientClosedRequest = 499

// code is an error code of remote procedure calls: its number in gRPC, and its name in Connect.
type code struct {
	number int
	name   string
}

// code returns the code that stands for the Status.
func (d Denial) code() code {
	switch d.Status {
	case http.StatusTooManyRequests, http.StatusRequestEntityTooLarge, http.StatusRequestURITooLong:
		return code{8, "resource_exhausted"}
	case http.StatusServiceUnavailable:
		return code{14, "unavailable"}
	case http.StatusForbidden:
		return code{7, "permission_denied"}
	case StatusClientClosedRequest:
		return code{1, "canceled"}
	default:
		return code{13, "internal"}
	}
}
