package ratelimit

import (
	"net/http"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
)

// Middleware puts a limiter in front of a handler.
type Middleware = func(http.Handler) http.Handler

// New returns a middleware that asks all policies about each request, in one
// round trip, and lets it through if all of them allow it; then all are charged,
// and otherwise none. It panics with the reason if a policy makes no sense.
//
// Limits with the same numbers, the same key and no name are one limit, whichever
// middlewares they are given to: see [core.Limit.Named].
//
// Around an [http.ServeMux], it asks the mux for the pattern that a request is
// going to match, so that [keyfuncs.Route] and [keyfuncs.PathValue] work outside it, too,
// also where there are several limiters around the mux. When the handler has returned, the
// request that came in has the Pattern that was found inside, for outer middleware that counts by
// route. Path values cannot be handed out in the same way.
func New(l *core.Limiter, options Options, policies ...Policy) Middleware {
	return FromGuard(guard.Must(guard.New(l, options, policies...)))
}

// FromGuard returns the middleware of a [guard.Guard], such as that of [guard.Adaptive], or one with limits that change while
// the server runs ([guard.Guard.Swap]). It panics if the Guard is nil.
func FromGuard(g *guard.Guard) Middleware {
	if g == nil {
		panic("ratelimit: FromGuard: the Guard is nil")
	}
	return func(next http.Handler) http.Handler {
		h := &limited{guard: g, next: next}
		if mux, ok := next.(patterns); ok {
			h.mux = mux
			return &limitedMux{h}
		}
		return h
	}
}

// limited is a handler with a limiter in front.
type limited struct {
	guard *guard.Guard
	next  http.Handler
	mux   patterns // next, if it is a mux; or nil
}

func (h *limited) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var matched keyfuncs.Matched
	if h.mux != nil || r.Pattern != "" { // or else an outer router may know more
		matched = muxMatched{h.mux, r}
	}
	verdict := h.guard.Decide(r, matched)
	verdict.WriteHeader(w.Header())
	if verdict.Denial != nil {
		verdict.Denial.ServeHTTP(w, verdict.Request)
		return
	}
	verdict.Serve(w, h.serve)
}

func (h *limited) serve(w http.ResponseWriter, r *http.Request) (unanswered int) {
	h.next.ServeHTTP(w, r)
	return 0
}
