package guard

import (
	"context"
	"net/http"
	"slices"

	"github.com/weir-go/ratelimit/guard/internal/writer"
	"github.com/weir-go/ratelimit/headers"
)

// MergeUpstream makes one set of limit headers out of those of the limiters in front of a
// reverse proxy and those of the upstream server's response. Wrap the proxy:
//
//	limit(ratelimit.MergeUpstream(&httputil.ReverseProxy{Rewrite: …}))
//
// Without it the proxy adds upstream's fields to ours, which makes two values in fields that may
// have one, and two policies of one name. With it, the lists of [headers.Draft] become one
// list, ours first. If upstream has a policy of the same name, a number is added to it, the
// same one in both fields. The other dialects have room for one policy: all fields come from
// the side that has less remaining. Only the policies that [headers.Draft6] lists are joined.
// A malformed field of upstream's is dropped if the limiters write a field of that name.
// Fields that they do not write stay. The fields of a Writer of your own replace those of
// upstream. Where nested limiters write different dialects, the innermost one that writes a
// field decides how it is merged. The response to a request that no limiter has decided
// about stays as it is, and so does Retry-After, which is upstream's own.
//
// It takes our fields out of the header before the proxy runs and merges them when the
// response begins. The proxy can stream, upgrade the
// connection, send informational responses and trailers, and answer by its ErrorHandler. The
// request must have the context of the one that the limiters let through. A middleware
// between them may keep a header of its own, as [http.TimeoutHandler] does. The proxy may be
// any handler that copies the header of another server's response. If it sets the limits'
// fields itself, they are merged with ours as well.
//
// It panics if the proxy is nil.
func MergeUpstream(proxy http.Handler) http.Handler {
	if proxy == nil {
		panic("ratelimit: MergeUpstream: the proxy is nil")
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		own, names, as := written(r.Context())
		if len(names) == 0 {
			proxy.ServeHTTP(w, r)
			return
		}
		merging, begin := writer.Merge(w, own, names, as)
		defer begin() // others may answer in its place, also after a panic
		proxy.ServeHTTP(merging, r)
	})
}

// written returns the fields that the limiters in front of a handler have written, the
// names of those fields and of others that an inner one has removed, and the Writer that has.
func written(ctx context.Context) (own http.Header, names map[string]bool, as headers.Writer) {
	var nested []*requestContext
	for rc := requestContextFrom(ctx); rc != nil; rc = rc.outer {
		nested = append(nested, rc)
	}
	own, names = make(http.Header), make(map[string]bool)
	writers := make([]headers.Writer, 0, len(nested))
	for _, rc := range slices.Backward(nested) {
		rc.write(own, new([2]string))
		writers = append(writers, rc.guard.options.Headers)
		for name := range own {
			names[name] = true
		}
	}
	return own, names, headers.Join(writers...)
}
