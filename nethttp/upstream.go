package ratelimit

import (
	"net/http"

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
// those of the tighter limit. A response to a request that no limiter has decided
// about is left alone, and so is Retry-After, which is upstream's own.
//
// It never fails. The request that the response answers must have the context of
// the one that the limiters met, as it does in [httputil.ReverseProxy].
//
// [httputil.ReverseProxy]: https://pkg.go.dev/net/http/httputil#ReverseProxy
func MergeUpstream(response *http.Response) error {
	if response.Request == nil {
		return nil
	}
	merged := make(map[string]bool)
	for x := exchangeFrom(response.Request.Context()); x != nil; x = x.outer {
		own := make(http.Header)
		x.write(own)
		if anyOf(own, merged) {
			continue // a limiter further inside has told of this one's policies
		}
		headers.Merge(x.guard.options.Headers, own, response.Header)
		for name := range own {
			merged[name] = true
			x.header.Del(name) // the proxy is going to add the response's
		}
	}
	return nil
}

func anyOf(h http.Header, names map[string]bool) bool {
	for name := range h {
		if names[name] {
			return true
		}
	}
	return false
}
