package ratelimit

import (
	"net/http"
	"slices"

	"github.com/weir-go/ratelimit/headers"
)

// MergeUpstream makes one set of limit headers out of those of the limiters in
// front of a reverse proxy and those of the upstream server's response. Give it to
// the proxy:
//
//	proxy := &httputil.ReverseProxy{Rewrite: …, ModifyResponse: ratelimit.MergeUpstream}
//
// Without it the proxy adds upstream's fields to ours, which makes two values of
// what may have one, and two policies of one name. [headers.Merge] says what
// becomes of each dialect: lists of policies become one list, single values are
// those of the tighter limit. Of nested limiters with different dialects each field
// is merged as the innermost does that writes it. A response to a request that no
// limiter has decided about is left alone, and so is Retry-After, which is upstream's
// own.
//
// It never fails. The request that the response answers must have the context of
// the one that the limiters met, as it does in [httputil.ReverseProxy].
//
// [httputil.ReverseProxy]: https://pkg.go.dev/net/http/httputil#ReverseProxy
func MergeUpstream(response *http.Response) error {
	if response.Request == nil {
		return nil
	}
	var nested []*exchange
	for x := exchangeFrom(response.Request.Context()); x != nil; x = x.outer {
		nested = append(nested, x)
	}
	own := make(http.Header)
	writers := make([]headers.Writer, 0, len(nested))
	for _, x := range slices.Backward(nested) { // as they have written
		x.write(own)
		writers = append(writers, x.guard.options.Headers)
		for name := range own {
			delete(x.header, name) // the proxy is going to add the response's
		}
	}
	headers.Merge(headers.Join(writers...), own, response.Header)
	return nil
}
