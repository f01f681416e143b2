package ratelimit

import (
	"net/http"
	"time"

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
// request that came in has the Pattern that was found inside, for whoever counts by route
// outside. Path values cannot be handed out in the same way.
func New(l *core.Limiter, options Options, policies ...Policy) Middleware {
	g := guard.Must(guard.New(l, options, policies...))
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
	mux   patterns // what next knows of patterns, or nil
}

func (h *limited) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	request, refusal := h.guard.Check(w.Header(), r, matchedBy(h.mux, r))
	if refusal != nil {
		refusal.ServeHTTP(w, request)
		return
	}
	h.guard.Serve(w, request, h.serve)
}

func (h *limited) serve(w http.ResponseWriter, r *http.Request) (unanswered int) {
	h.next.ServeHTTP(w, r)
	return 0
}

// Leaky returns a middleware with a [core.Leaky] limit: capacity requests at once,
// then as many as drain.
//
// Without by, each peer address has a limit of its own: behind a proxy, that is the
// proxy's, so name your proxies to [keyfuncs.IP] there. Several functions are joined by
// [keyfuncs.Join].
//
// Two middlewares with the same numbers and the same key are one limit, and count for
// each other, on whichever routes they are. To keep them apart, add [keyfuncs.Route] to
// the key (keyfuncs.RemoteIP, keyfuncs.Route), or give their limits names: New(l,
// Options{}, PolicyFor(core.Leaky(10, core.PerSecond(1)).Named("search"))).
//
// A limit that makes no sense panics here, not when requests come. The functions below
// work alike.
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

// Layered returns a middleware with a limit for each address, and inside of it one
// for each user, API key or whatever else user.By reads from the request:
//
//	ratelimit.Layered(limiter, ratelimit.Options{},
//		ratelimit.PolicyFor(core.Leaky(100, core.PerSecond(20)).Named("address")),
//		ratelimit.PolicyFor(core.TokenBucket(20, core.PerSecond(5)).Named("user"), keyfuncs.Header("X-API-Key")))
//
// A limit by something that the client chooses does not limit the client, who
// chooses something else for each request, and has the store keep all of it. The
// address is what he cannot choose. Both are asked in one question, which leaves
// nothing behind if the address is refused: a client makes no more keys than his
// address may make requests.
//
// address.By is [keyfuncs.RemoteIP] by default; name your proxies to [keyfuncs.IP].
// A request without a key of user.By's kind has its address for one, as address.By
// reads it. Give the address what several users behind one address need.
//
// It panics where [New] does, if user.By is nil, and if the limit by address is
// a Shadow, which protects nothing. Do not exempt from it by Skip, or by a Cost of
// 0, what you would not exempt altogether.
func Layered(l *core.Limiter, options Options, address, user Policy) Middleware {
	return New(l, options, Layers(address, user)...)
}
