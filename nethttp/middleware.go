package ratelimit

import (
	"net/http"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/keyfuncs"
)

// Middleware puts a limiter in front of a handler.
type Middleware = func(http.Handler) http.Handler

// New returns a middleware that asks all policies about each request, in one
// round trip, and lets it through if all of them allow it; then all are charged,
// and otherwise none. It panics where [NewGuard] does.
//
// Around an [http.ServeMux], it asks the mux for the pattern that a request is
// going to match, so that [keyfuncs.Route] works outside it, too.
func New(l *core.Limiter, options Options, policies ...Policy) Middleware {
	guard := NewGuard(l, options, policies...)
	return func(next http.Handler) http.Handler {
		mux, _ := next.(patterns)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			request, refusal := guard.Check(w.Header(), r, matchedBy(mux, r))
			if refusal != nil {
				refusal.ServeHTTP(w, request)
				return
			}
			if guard.Settles(request) {
				guard.serve(w, request, next)
				return
			}
			next.ServeHTTP(w, request)
		})
	}
}

// Leaky returns a middleware with a [core.Leaky] limit: capacity requests at once,
// then as many as drain.
//
// Without by, each peer address has a limit of its own; several functions are
// joined by [keyfuncs.Join]. A limit that makes no sense panics here, not when
// requests come. The functions below work alike.
func Leaky(l *core.Limiter, capacity int, drain core.Rate, by ...keyfuncs.Func) Middleware {
	return New(l, Options{}, PolicyFor(core.Leaky(capacity, drain), by...))
}

// Shaping returns a middleware with a [core.Shaping] limit: requests are held
// and released at an even pace, and refused when capacity of them are waiting or
// being served. A client that goes away while it waits frees its place: those behind it
// on this server move up. See [core.Reservation.Wait], [Policy] for Undelayed and
// [Options] for Draining.
func Shaping(l *core.Limiter, capacity int, drain core.Rate, by ...keyfuncs.Func) Middleware {
	return New(l, Options{}, PolicyFor(core.Shaping(capacity, drain), by...))
}

// TokenBucket returns a middleware with a [core.TokenBucket] limit.
func TokenBucket(l *core.Limiter, capacity int, refill core.Rate, by ...keyfuncs.Func) Middleware {
	return New(l, Options{}, PolicyFor(core.TokenBucket(capacity, refill), by...))
}

// GCRA returns a middleware with a [core.GCRA] limit.
func GCRA(l *core.Limiter, burst int, rate core.Rate, by ...keyfuncs.Func) Middleware {
	return New(l, Options{}, PolicyFor(core.GCRA(burst, rate), by...))
}

// FixedWindow returns a middleware with a [core.FixedWindow] limit.
func FixedWindow(l *core.Limiter, n int, window time.Duration, by ...keyfuncs.Func) Middleware {
	return New(l, Options{}, PolicyFor(core.FixedWindow(n, window), by...))
}

// SlidingWindow returns a middleware with a [core.SlidingWindow] limit.
func SlidingWindow(l *core.Limiter, n int, window time.Duration, by ...keyfuncs.Func) Middleware {
	return New(l, Options{}, PolicyFor(core.SlidingWindow(n, window), by...))
}

// SlidingLog returns a middleware with a [core.SlidingLog] limit.
func SlidingLog(l *core.Limiter, n int, window time.Duration, by ...keyfuncs.Func) Middleware {
	return New(l, Options{}, PolicyFor(core.SlidingLog(n, window), by...))
}

// PolicyFor returns the policy that the functions named after the algorithms use:
// a limit by the join of some key functions, or by the peer's address if there
// are none.
func PolicyFor(limit core.Limit, by ...keyfuncs.Func) Policy {
	policy := Policy{Limit: limit}
	if len(by) > 0 {
		policy.By = keyfuncs.Join(by...)
	}
	return policy
}

// patterns is the part of an [http.ServeMux] that finds the pattern of a request.
type patterns interface {
	Handler(*http.Request) (http.Handler, string)
}

// muxMatched tells the key functions what the mux that a limiter wraps is going
// to match.
type muxMatched struct {
	mux patterns
	r   *http.Request
}

// matchedBy returns what is known of the route of a request: nothing more than the
// request itself says, unless the next handler is a mux.
func matchedBy(mux patterns, r *http.Request) keyfuncs.Matched {
	if mux == nil && r.Pattern == "" {
		return nil // an outer router may know more
	}
	return muxMatched{mux, r}
}

func (m muxMatched) Route() string {
	pattern := m.r.Pattern
	if m.mux != nil {
		_, pattern = m.mux.Handler(m.r)
	}
	return keyfuncs.RouteFromPattern(pattern)
}

func (m muxMatched) PathValue(name string) string { return m.r.PathValue(name) }
