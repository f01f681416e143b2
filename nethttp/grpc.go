package ratelimit

import (
	"net/http"
	"strconv"
	"strings"
)

// The status codes of gRPC that a refusal may have.
const (
	grpcCanceled          = 1
	grpcResourceExhausted = 8
	grpcInternal          = 13
	grpcUnavailable       = 14
)

// isGRPC reports whether a request is a call of gRPC, or of gRPC-Web, by its
// Content-Type: application/grpc, application/grpc+proto, application/grpc-web-text
// and so on.
func isGRPC(r *http.Request) bool {
	_, ok := grpcType(r)
	return ok
}

// longestType bounds the media types that are given back to the client. Longer ones
// are nobody's.
const longestType = 64

// grpcType returns the media type of a call of gRPC, without parameters.
func grpcType(r *http.Request) (string, bool) {
	const base = "application/grpc"
	mediaType, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	mediaType = strings.Trim(mediaType, " \t")
	if len(mediaType) < len(base) || !strings.EqualFold(mediaType[:len(base)], base) {
		return "", false
	}
	if subtype := mediaType[len(base):]; subtype != "" && subtype[0] != '+' && subtype[0] != '-' {
		return "", false
	}
	if len(mediaType) > longestType {
		return base, true
	}
	return strings.ToLower(mediaType), true
}

// serveGRPC answers a call as gRPC does that fails at once: with 200, the outcome
// in grpc-status, and no body ("Trailers-Only"). A client that is given a bare 429
// or 503 would take it for UNAVAILABLE, and most try that again at once.
//
// https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md
// https://github.com/grpc/proposal/blob/master/A6-client-retries.md#pushback
func (f *Refusal) serveGRPC(w http.ResponseWriter, mediaType string) {
	h := w.Header()
	h.Set("Content-Type", mediaType)
	h.Set("Grpc-Status", strconv.Itoa(f.grpcStatus()))
	h.Set("Grpc-Message", f.text()) // plain ASCII without a percent sign, so it need not be encoded
	switch {
	case f.retryAfter > 0:
		h.Set("Grpc-Retry-Pushback-Ms", strconv.FormatInt(f.retryAfter*1000, 10))
	case f.Status == http.StatusTooManyRequests:
		h.Set("Grpc-Retry-Pushback-Ms", "-1") // never
	}
	w.WriteHeader(http.StatusOK)
}

func (f *Refusal) grpcStatus() int {
	switch f.Status {
	case http.StatusTooManyRequests:
		return grpcResourceExhausted
	case http.StatusServiceUnavailable:
		return grpcUnavailable
	case statusClientClosedRequest:
		return grpcCanceled
	default:
		return grpcInternal
	}
}
