package ratelimit

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
)

// Middleware puts a limiter in front of the handlers that follow it.
type Middleware = gin.HandlerFunc

// These are the types of package guard.
type (
	Policy     = guard.Policy
	Options    = guard.Options
	ErrorMode  = guard.ErrorMode
	Event      = guard.Event
	Outcome    = guard.Outcome
	Unanswered = guard.Unanswered
	Refusal    = guard.Refusal
	Problem    = guard.Problem
	Served     = guard.Served
)

// ProblemType is the media type of a [Problem].
const ProblemType = guard.ProblemType

// What happens to a request when the store cannot answer; see package nethttp.
const (
	FailOpen   = guard.FailOpen
	FailClosed = guard.FailClosed
	Fallback   = guard.Fallback
)

// New returns a middleware that asks all policies about each request, in one
// round trip, and lets it through if all of them allow it; then all are charged,
// and otherwise none. It panics with the reason if a policy makes no sense.
//
// Limits with the same numbers, the same key and no name are one limit, whichever
// middlewares they are given to: see [core.Limit.Named].
func New(l *core.Limiter, options Options, policies ...Policy) Middleware {
	g := guard.Must(guard.New(l, options, policies...))
	return func(c *gin.Context) {
		request, refusal := g.Check(c.Writer.Header(), c.Request, matched{c})
		c.Request = request
		if refusal != nil {
			c.Abort()
			refusal.ServeHTTP(c.Writer, request)
			return
		}
		g.Serve(c.Writer, request, func(w http.ResponseWriter, _ *http.Request) (unanswered int) {
			return serve(c, w)
		})
	}
}

// serve runs the handlers that follow, with a writer that may notice the response. If they
// leave an error behind and no answer, it returns the status that they have set, or 500:
// somebody further out may answer it.
func serve(c *gin.Context, w http.ResponseWriter) (unanswered int) {
	if _, same := w.(gin.ResponseWriter); same { // there is nothing to notice
		c.Next()
		return 0
	}
	outside, before := c.Writer, len(c.Errors)
	noticed := &noticed{ResponseWriter: outside, below: w}
	c.Writer = noticed
	defer func() { noticed.left = true }()
	c.Next()
	switch set := outside.Status() != http.StatusOK; { // gin itself sends a status that handlers have set
	case len(c.Errors) == before && set:
		noticed.begin()
	case len(c.Errors) == before:
	case set:
		return outside.Status()
	default:
		return http.StatusInternalServerError
	}
	return 0
}

// noticed is gin's writer, and tells the one below, which writes to it, when the response
// begins, and with which status.
type noticed struct {
	gin.ResponseWriter

	below http.ResponseWriter
	begun bool
	left  bool // the handlers have returned, and what sets a status is the answer
}

func (w *noticed) begin() {
	if !w.begun {
		w.begun = true
		w.below.WriteHeader(w.Status())
	}
}

// WriteHeader sets the status, which gin sends with the first byte.
func (w *noticed) WriteHeader(status int) {
	w.ResponseWriter.WriteHeader(status)
	if w.left && w.Status() == status {
		w.begin()
	}
}

func (w *noticed) WriteHeaderNow() {
	w.begin()
	w.ResponseWriter.WriteHeaderNow()
}

func (w *noticed) Write(p []byte) (int, error) {
	w.begin()
	return w.below.Write(p)
}

func (w *noticed) WriteString(s string) (int, error) {
	w.begin()
	return io.WriteString(w.below, s)
}

func (w *noticed) Flush() {
	w.begin()
	w.ResponseWriter.Flush()
}

func (w *noticed) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return http.NewResponseController(w.below).Hijack()
}

// Unwrap lets [http.ResponseController] find the writer's other abilities.
func (w *noticed) Unwrap() http.ResponseWriter { return w.ResponseWriter }

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
// for each user, API key or whatever else user.By reads, which the client may
// choose: he makes no more keys than his address may make requests. See package
// nethttp.
func Layered(l *core.Limiter, options Options, address, user Policy) Middleware {
	return New(l, options, guard.Layers(address, user)...)
}

// PolicyFor returns a policy for a limit by the join of some key functions, or by
// the peer's address if there are none.
func PolicyFor(limit core.Limit, by ...keyfuncs.Func) Policy {
	return guard.PolicyFor(limit, by...)
}

// DecisionFrom returns what the limiters in front of a handler have decided about
// its request, given the context of that request; see package nethttp.
func DecisionFrom(ctx context.Context) []Outcome { return guard.DecisionFrom(ctx) }

// Compare returns an Options.Observe that counts how the verdicts of a shadow policy
// compare with what is enforced; see package nethttp.
func Compare(c *core.Comparison, candidate string, next func(Event)) func(Event) {
	return guard.Compare(c, candidate, next)
}

// MergeUpstream makes one set of limit headers out of those of the limiters in front of a
// reverse proxy and those of the upstream server's response; see package nethttp. Wrap the
// proxy:
//
//	router.Any("/*path", gin.WrapH(ratelimit.MergeUpstream(proxy)))
//
// It panics if the proxy is nil.
func MergeUpstream(proxy http.Handler) http.Handler { return guard.MergeUpstream(proxy) }

// User names the requests of a user, "user:42", by what earlier middleware has
// put into the [gin.Context]: User("user_id") reads c.Get("user_id"), which must
// be a string, an integer or a [fmt.Stringer]; see [keyfuncs.UserValue]. A request
// without it is limited by its peer's address. The limiter must run after the
// authentication. It panics if key is empty.
func User(key string) keyfuncs.Func {
	if key == "" {
		panic("ratelimit: User: the key is empty")
	}
	return keyfuncs.UserValue(func(r *http.Request) any {
		m, ok := keyfuncs.MatchedFrom(r.Context()).(matched)
		if !ok {
			return nil
		}
		value, _ := m.c.Get(key)
		return value
	})
}

// ClientIP names requests by what gin takes for the client's address
// ([gin.Context.ClientIP]), read again and brought into the notation of
// [keyfuncs.IP], whose options for the lengths of prefixes it takes. Where gin has
// no address to tell, the peer pays.
//
// Use it only after engine.SetTrustedProxies: an engine that has not been told its
// proxies believes everybody's X-Forwarded-For, so that anybody can be anybody. gin
// also falls through from a malformed X-Forwarded-For to X-Real-IP, which
// [keyfuncs.TrustedProxies] never does. It panics if an option is a trust model.
func ClientIP(options ...keyfuncs.Trust) keyfuncs.Func {
	return keyfuncs.IP(append([]keyfuncs.Trust{keyfuncs.Resolver(func(r *http.Request) string {
		m, ok := keyfuncs.MatchedFrom(r.Context()).(matched)
		if !ok {
			return ""
		}
		return clientIP(m.c) //nolint:contextcheck // gin keeps it in m.c
	})}, options...)...)
}

// clientIP asks gin for the client's address. Older versions read but the first line
// of a header, which is the client's own where a proxy adds a line, so it is shown
// all of them in one.
func clientIP(c *gin.Context) string {
	request := c.Request
	for name, lines := range request.Header {
		if len(lines) < 2 {
			continue
		}
		if c.Request == request {
			c.Request = request.Clone(request.Context())
			defer func() { c.Request = request }()
		}
		c.Request.Header[name] = []string{strings.Join(lines, ",")}
	}
	return c.ClientIP()
}

// matched tells the key functions what gin's router knows.
type matched struct{ c *gin.Context }

func (m matched) Route() string { return keyfuncs.RouteFromColons(m.c.FullPath()) }

func (m matched) PathValue(name string) string {
	return strings.TrimPrefix(m.c.Param(name), "/") // gin keeps the slash of a catch-all
}
