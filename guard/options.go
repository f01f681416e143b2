package guard

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/weir-go/ratelimit/headers"
)

// Options say how a middleware answers. The zero value is ready to use.
type Options struct {
	// Headers writes the limits' headers. The default is [headers.Draft].
	Headers headers.Writer

	// Denied answers a request that may not go on, in place of the problem document,
	// for every reason: the Denial tells which one. Retry-After, Cache-Control and the
	// limits' headers are set already and may be changed; [OutcomesFrom] has the
	// decisions. The default is nil, which is [Denial.ServeHTTP].
	//
	// If it neither writes nor takes the connection over, the answer is an empty one of the
	// Denial's Status. denial.ServeHTTP(w, r) gives the usual answer, so that a hook can
	// only add a header, say. The hook is asked about calls of gRPC and Connect as well, though their
	// clients understand the usual answer alone. [Denial.Native] tells whether the usual answer
	// is the problem document.
	//
	// It is called by many goroutines at once, but not for a client that went away (499).
	Denied func(w http.ResponseWriter, r *http.Request, denial *Denial)

	// Lists let clients pass, and deny clients, before any policy is asked: clients that pass are
	// exempt from all of them, and denied clients get 403. The default is no list.
	Lists Lists

	// ExemptPreflights exempts CORS preflights from all policies but bans and, beside a ban by response ([BanPolicy].Strike),
	// [core.Concurrent] limits, which bound the guesses in flight. A preflight is an
	// OPTIONS request with Origin and Access-Control-Request-Method. Lists and bans decide about
	// it all the same, and one with a body is not exempt.
	//
	// The default is to count and to deny preflights like all other requests: a client writes the two
	// fields as it likes, and a router may run the handler of a route for OPTIONS, too. Leave it so, and
	// put CORS middleware around the limiter, which answers preflights itself. Exempt them only where
	// something inside has to answer them, and no handler does anything for OPTIONS that a limit is for.
	ExemptPreflights bool

	// MaxKeyBody is how many bytes of a request's body the functions of policies and lists may read in all: a key function
	// that parses a form, or a Cost that looks for the model in a document. The default, 0, is 1 MiB. Less than 0 is an
	// error. A request is answered with 413, and charges nothing, if one of them wants to read more of its body, even the function
	// of a Shadow. The handler finds a form that they have parsed, and reads the rest of the body: it has no such bound.
	MaxKeyBody int64

	// Draining ends when the server begins to shut down, as the context of
	// [signal.NotifyContext] does: requests that wait for their turn under a
	// [core.Shaping] limit, or for a place of a [core.Concurrent] one, are then answered with 503
	// and give their slots back. So is a request that would have to wait. [http.Server.Shutdown] then does not wait for a whole
	// queue. Nil never ends.
	//
	// [signal.NotifyContext]: https://pkg.go.dev/os/signal#NotifyContext
	Draining context.Context //nolint:containedctx // it belongs to the server, not to a call

	// OnError is the mode for when the store cannot answer, for policies that have
	// none of their own. The default is FailOpen.
	OnError ErrorMode

	// OnOverload is the mode of all policies for when the store was not asked because
	// too many calls wait for it in this process already ([core.Overloaded]). The default
	// is FailClosed: the store is well, and a crowd must not pass because it is one. Where
	// another server of a cluster or ring has failed as well, the stricter one of OnOverload
	// and OnError decides.
	OnOverload ErrorMode

	// Replicas is how many processes share the limits, for the [Fallback] mode. The
	// default is 1: each process keeps the whole limit by itself.
	Replicas int

	// Observe is told the decision about each request that a list or a policy applied to, before
	// the request goes on or is answered. It is called on the request's goroutine, except
	// for a settlement beside the response or after the end of the request. It must not block. The default is no
	// observer. Package telemetry reports to OpenTelemetry.
	Observe func(Event)

	// Logger is told of denied requests at level debug. If it panics, that changes nothing. It is told at level warn of calls
	// that could not be answered, once in ten seconds at the most and with the number of
	// calls left out, and once each of the mistakes that the package
	// documentation lists. It is never told the key of a request, but an error of a key
	// function or a LimitFor of yours is logged as it is. The default is [slog.Default] at
	// the time; slog.New(slog.DiscardHandler) logs nothing.
	Logger *slog.Logger
}

// replicas returns how many processes share the limits.
func (o *Options) replicas() int { return max(1, o.Replicas) }

// check returns the reason why options make no sense, if they do not.
func (o *Options) check() error {
	if !o.OnError.known() {
		return fmt.Errorf("OnError is %v, want FailOpen, FailClosed or Fallback", o.OnError)
	}
	if !o.OnOverload.known() {
		return fmt.Errorf("OnOverload is %v, want FailOpen, FailClosed or Fallback", o.OnOverload)
	}
	if o.Replicas < 0 {
		return fmt.Errorf("%d replicas are less than none: give the number of processes that share the limits, or 0 for one", o.Replicas)
	}
	if o.MaxKeyBody < 0 {
		return fmt.Errorf("a MaxKeyBody of %d bytes is negative", o.MaxKeyBody)
	}
	return o.Lists.check()
}

// defaultKeyBody is the default of Options.MaxKeyBody.
const defaultKeyBody = 1 << 20

// maxKeyBody returns how much of a body the functions of policies and lists may read.
func (o *Options) maxKeyBody() int64 {
	if o.MaxKeyBody == 0 {
		return defaultKeyBody
	}
	return o.MaxKeyBody
}
