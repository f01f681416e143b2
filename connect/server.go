package connectratelimit

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/guard/guardrpc"
)

// New returns an interceptor that has a Guard decide about each call of a server, and about each stream when it begins. The context of the handler has the
// decisions: [guard.OutcomesFrom]. A place of a core.Concurrent limit is held until the handler has returned. A Settle and a Strike are told the HTTP status
// that stands for the code of the call, such as 404 for not_found.
//
// If messages is not nil, it decides about each message that the server receives from a stream as well, as about a call of its own, and the first one that it
// denies ends the stream: no other one is received. Use a Guard without core.Concurrent limits there: a place would be given back when the message has been
// received.
//
// It panics if the first Guard is nil. In a client, the interceptor does nothing.
func New(g, messages *guard.Guard) connect.Interceptor {
	if g == nil {
		panic("connectratelimit: the Guard is nil")
	}
	return server{g, messages}
}

type server struct{ calls, messages *guard.Guard }

// WrapUnary implements [connect.Interceptor].
func (s server) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, request connect.AnyRequest) (answer connect.AnyResponse, err error) {
		if request.Spec().IsClient {
			return next(ctx, request)
		}
		call := callOf(request.Spec(), request.Peer(), request.Header())
		call.Message = request.Any()
		verdict, fields := guardrpc.Decide(ctx, s.calls, call)
		if verdict.Denial != nil {
			return nil, errorOf(verdict.Denial, fields, request.Peer())
		}
		if info, known := connect.CallInfoForHandlerContext(ctx); known { // also of an answer that is an error
			maps.Copy(info.ResponseHeader(), fields)
		}
		guardrpc.Serve(verdict, func(ctx context.Context) uint32 {
			answer, err = next(ctx, request)
			return codeOf(err)
		})
		return answer, err
	}
}

// WrapStreamingHandler implements [connect.Interceptor].
func (s server) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) (err error) {
		call := callOf(conn.Spec(), conn.Peer(), conn.RequestHeader())
		verdict, fields := guardrpc.Decide(ctx, s.calls, call)
		if verdict.Denial != nil {
			return errorOf(verdict.Denial, fields, conn.Peer())
		}
		maps.Copy(conn.ResponseHeader(), fields)
		guardrpc.Serve(verdict, func(ctx context.Context) uint32 {
			if s.messages != nil {
				conn = &limitedConn{StreamingHandlerConn: conn, ctx: ctx, messages: s.messages, call: call}
			}
			err = next(ctx, conn)
			return codeOf(err)
		})
		return err
	}
}

// WrapStreamingClient implements [connect.Interceptor].
func (s server) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// limitedConn is a stream of which each message is decided about. connect-go allows one goroutine to receive.
type limitedConn struct {
	connect.StreamingHandlerConn

	ctx      context.Context //nolint:containedctx // Receive has none
	messages *guard.Guard
	call     guardrpc.Call
	denied   error // of a message; no other is received after that
}

// Receive implements [connect.StreamingHandlerConn].
func (c *limitedConn) Receive(message any) error {
	if c.denied != nil {
		return c.denied
	}
	if err := c.StreamingHandlerConn.Receive(message); err != nil {
		return err
	}
	c.call.Message = message
	verdict, fields := guardrpc.Decide(guard.AsOwn(c.ctx), c.messages, c.call)
	if verdict.Denial != nil {
		c.denied = errorOf(verdict.Denial, fields, c.Peer())
		return c.denied
	}
	guardrpc.Serve(verdict, func(context.Context) (ok uint32) { return 0 })
	return nil
}

// callOf returns a call to a procedure that is registered.
func callOf(spec connect.Spec, peer connect.Peer, header http.Header) guardrpc.Call {
	return guardrpc.Call{Procedure: spec.Procedure, Header: decoded(header), Host: header.Get("Host"), Peer: peer.Addr}
}

// decoded returns a header with the bytes of its binary fields in place of their encodings, of which there are several. Fields that are not valid are left out.
func decoded(header http.Header) http.Header {
	own := maps.Clone(header)
	for name, values := range header {
		if !strings.HasSuffix(name, "-Bin") {
			continue
		}
		delete(own, name)
		for value := range strings.SplitSeq(strings.Join(values, ","), ",") {
			if bytes, err := connect.DecodeBinaryHeader(strings.TrimSpace(value)); err == nil {
				own[name] = append(own[name], string(bytes))
			}
		}
	}
	return own
}

// codeOf returns the code that a call ends with.
func codeOf(err error) uint32 {
	switch {
	case err == nil, connect.IsNotModifiedError(err):
		return 0
	case errors.Is(err, context.Canceled):
		return uint32(connect.CodeCanceled)
	case errors.Is(err, context.DeadlineExceeded):
		return uint32(connect.CodeDeadlineExceeded)
	}
	return uint32(connect.CodeOf(err))
}

// errorOf returns the error of a call that is denied.
func errorOf(denial *guard.Denial, fields http.Header, peer connect.Peer) error {
	denied := guardrpc.ErrorOf(denial)
	err := connect.NewError(connect.Code(denied.Code), errors.New(denied.Message))
	for _, detail := range denied.Details {
		if own, invalid := connect.NewErrorDetail(&anypb.Any{TypeUrl: "type.googleapis.com/" + detail.Type, Value: detail.Value}); invalid == nil {
			err.AddDetail(own)
		}
	}
	fields.Del("Grpc-Retry-Pushback-Ms")          // clients do not heed it behind a header, which connect-go always sends
	if peer.Protocol != connect.ProtocolConnect { // these must not be trailers of HTTP
		fields.Del("Retry-After")
		fields.Del("Cache-Control")
	}
	maps.Copy(err.Meta(), fields)
	return err
}
