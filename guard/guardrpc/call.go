package guardrpc

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/url"

	"github.com/weir-go/ratelimit/guard"
)

// Call is a remote procedure call that a server has received. Only the Procedure is necessary.
type Call struct {
	// Procedure is the full name, "/package.Service/Method", as the server has it registered and not as the client has spelled it.
	Procedure string
	// Unknown says that no such procedure is registered: the client may have made the name up. The key of package keyfuncs' Route is then the one of
	// all requests without a route. Policies of a file still match the name, in all its readings.
	Unknown bool
	// Header is the metadata of the call. Neither Decide nor Serve changes it.
	Header http.Header
	// Host is the authority that the client has named.
	Host string
	// Peer is the address of the client, as in the RemoteAddr of an [http.Request].
	Peer string
	// TLS is the state of the connection, with the identity of the client, or nil.
	TLS *tls.ConnectionState
	// Message is the client's message, or nil if it is not known yet, as at the beginning of a stream.
	Message any
}

// Decide has a Guard decide about a call, as about the request that it is: a POST of its Procedure, whichever HTTP method and protocol the client has used.
// The fields are for the header or the trailer of the answer: those of the limits and, with a denial, Retry-After, Cache-Control and
// Grpc-Retry-Pushback-Ms, the milliseconds after which a client of gRPC tries again by itself, or -1 where it is not to do that.
//
// If nothing denies the call, run its handler by [Serve].
func Decide(ctx context.Context, g *guard.Guard, c Call) (verdict guard.Verdict, fields http.Header) {
	r := &http.Request{
		Method: http.MethodPost, URL: &url.URL{Path: c.Procedure}, RequestURI: c.Procedure, Proto: "HTTP/2.0", ProtoMajor: 2,
		Header: c.Header, Body: http.NoBody, Host: c.Host, RemoteAddr: c.Peer, TLS: c.TLS,
	}
	if r.Header == nil {
		r.Header = make(http.Header)
	}
	matched := route(c.Procedure)
	if c.Unknown {
		matched = ""
	}
	verdict = g.Decide(r.WithContext(context.WithValue(ctx, messageKey{}, c.Message)), matched)
	fields = make(http.Header)
	verdict.WriteHeader(fields) //nolint:contextcheck // the verdict has the one of the request
	if verdict.Denial != nil {
		fields.Set("Grpc-Retry-Pushback-Ms", pushback(verdict.Denial.RetryAfter))
	}
	return verdict, fields
}

// Serve runs the handler of a call, once, and has the call settled by the code that it returns: a Settle and a Strike of a policy are told the HTTP status
// that stands for it, such as 404 for NOT_FOUND. A place of a core.Concurrent limit is held until the handler has returned or panicked. The context of the
// handler has the decisions: see [guard.OutcomesFrom].
func Serve(verdict guard.Verdict, handler func(context.Context) (code uint32)) {
	verdict.Serve(answer{make(http.Header)}, func(w http.ResponseWriter, r *http.Request) (unanswered int) {
		w.WriteHeader(statusOf(handler(r.Context())))
		return 0
	})
}

// Message returns the message of a call, for the key, cost and limit functions of policies, given the context of their request. It is nil when a stream
// begins, and outside of calls. Functions must not change it.
func Message(ctx context.Context) any { return ctx.Value(messageKey{}) }

type messageKey struct{}

// route is the procedure that a server has found.
type route string

// Route implements [keyfuncs.Matched].
func (r route) Route() string { return string(r) }

// PathValue implements [keyfuncs.Matched].
func (r route) PathValue(string) string { return "" }

// WholePath tells package policies that the route stands for the whole path.
func (r route) WholePath() bool { return r != "" }

// answer stands for the response to a call, of which guard is told the status.
type answer struct{ header http.Header }

func (a answer) Header() http.Header         { return a.header }
func (a answer) Write(b []byte) (int, error) { return len(b), nil }
func (a answer) WriteHeader(int)             {}
