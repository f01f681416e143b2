package guard

import (
	"net/http"
	"strings"
)

// rpcProtocol is the protocol of a remote procedure call, whose clients understand
// answers of that protocol alone.
type rpcProtocol int

const (
	notRPC   rpcProtocol = iota
	grpcCall             // of gRPC, or of gRPC-Web
	connectCall
	connectStream
)

// longestType bounds the media types that are given back to the client. Nobody has longer
// ones.
const longestType = 64

// rpcOf returns the protocol of a request, and its media type without parameters.
//
// A call of gRPC is a POST over HTTP/2 or later, and one of gRPC-Web a POST, whose
// Content-Type says so. A call of Connect has a version in a header, or in the query if it
// is a GET; a stream of Connect has a Content-Type of its own. Whatever else may look like
// a call is answered as any other request: its client could take 200 for success.
//
// https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md
// https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-WEB.md
// https://connectrpc.com/docs/protocol
func rpcOf(r *http.Request) (rpcProtocol, string) {
	if r.Method == http.MethodGet && isConnectQuery(r.URL.RawQuery) {
		return connectCall, ""
	}
	mediaType, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	mediaType = strings.Trim(mediaType, " \t")
	if r.Method != http.MethodPost || len(mediaType) > longestType {
		return notRPC, ""
	}
	mediaType = strings.ToLower(mediaType)
	switch family, _, isSuffixed := strings.Cut(mediaType, "+"); {
	case family == "application/grpc":
		if r.ProtoMajor >= 2 {
			return grpcCall, mediaType
		}
	case family == "application/grpc-web", family == "application/grpc-web-text":
		return grpcCall, mediaType
	case family == "application/connect" && isSuffixed:
		return connectStream, mediaType
	case strings.HasPrefix(family, "application/") && r.Header.Get("Connect-Protocol-Version") == "1":
		return connectCall, mediaType
	}
	return notRPC, ""
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

// rpcCode is an error code of remote procedure calls: its number in gRPC, and its name in
// Connect.
type rpcCode struct {
	number int
	name   string
}

// rpcCode returns the code that stands for the Status.
func (f *Denial) rpcCode() rpcCode {
	switch f.Status {
	case http.StatusTooManyRequests:
		return rpcCode{8, "resource_exhausted"}
	case http.StatusServiceUnavailable:
		return rpcCode{14, "unavailable"}
	case http.StatusForbidden:
		return rpcCode{7, "permission_denied"}
	case statusClientClosedRequest:
		return rpcCode{1, "canceled"}
	default:
		return rpcCode{13, "internal"}
	}
}
