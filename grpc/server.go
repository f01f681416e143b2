package grpcratelimit

import (
	"context"
	"net/http"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/guard/guardrpc"
)

// Unary returns an interceptor that has a Guard decide about each unary call of a server. The context of the handler has the decisions:
// [guard.OutcomesFrom]. A place of a core.Concurrent limit is held until the handler has returned. A Settle and a Strike are told the HTTP status that
// stands for the code of the call, such as 404 for NOT_FOUND. It panics if the Guard is nil.
func Unary(g *guard.Guard) grpc.UnaryServerInterceptor {
	mustHave(g)
	return func(ctx context.Context, message any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (answer any, err error) {
		verdict, fields := decide(ctx, g, guardrpc.Call{Procedure: info.FullMethod, Message: message})
		_ = grpc.SetTrailer(ctx, fields) // it fails only where there is no call
		if verdict.Denial != nil {
			return nil, errorOf(verdict.Denial)
		}
		guardrpc.Serve(verdict, func(ctx context.Context) uint32 {
			answer, err = handler(ctx, message)
			return uint32(grpcstatus.Code(err))
		})
		return answer, err
	}
}

// Stream returns an interceptor that has a Guard decide about each stream of a server when it begins. A place of a core.Concurrent limit is held until
// the handler has returned. If messages is not nil, it decides about each message that the server receives as well, as about a call of its own, and the
// first one that it denies ends the stream. Use a Guard without core.Concurrent limits there: a place would be given back when the message has been received.
// It panics if the first Guard is nil.
func Stream(g, messages *guard.Guard) grpc.StreamServerInterceptor {
	mustHave(g)
	return func(service any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
		call := guardrpc.Call{Procedure: info.FullMethod, Unknown: service == nil} // a handler of unknown services has no service
		verdict, fields := decide(stream.Context(), g, call)
		stream.SetTrailer(fields)
		if verdict.Denial != nil {
			return errorOf(verdict.Denial)
		}
		guardrpc.Serve(verdict, func(ctx context.Context) uint32 {
			err = handler(service, &limitedStream{ServerStream: stream, ctx: ctx, messages: messages, call: call})
			return uint32(grpcstatus.Code(err))
		})
		return err
	}
}

// limitedStream is a stream of which each message is decided about. grpc allows one goroutine to receive.
type limitedStream struct {
	grpc.ServerStream

	ctx      context.Context //nolint:containedctx // grpc.ServerStream has one
	messages *guard.Guard
	call     guardrpc.Call
	denied   error // of a message; no other is received after that
}

// Context implements [grpc.ServerStream].
func (s *limitedStream) Context() context.Context { return s.ctx }

// RecvMsg implements [grpc.ServerStream].
func (s *limitedStream) RecvMsg(message any) error {
	if s.denied != nil {
		return s.denied
	}
	if err := s.ServerStream.RecvMsg(message); err != nil || s.messages == nil {
		return err
	}
	s.call.Message = message
	verdict, fields := decide(guard.AsOwn(s.ctx), s.messages, s.call)
	if verdict.Denial != nil {
		s.SetTrailer(fields)
		s.denied = errorOf(verdict.Denial)
		return s.denied
	}
	guardrpc.Serve(verdict, func(context.Context) (ok uint32) { return 0 })
	return nil
}

// Message returns the message of a call, for the key, cost and limit functions of policies, given the context of their request. It is nil when a stream
// begins. Functions must not change it.
func Message(ctx context.Context) any { return guardrpc.Message(ctx) }

func mustHave(g *guard.Guard) {
	if g == nil {
		panic("grpcratelimit: the Guard is nil")
	}
}

// decide has a Guard decide about a call. The trailer of the call has the fields.
func decide(ctx context.Context, g *guard.Guard, call guardrpc.Call) (guard.Verdict, metadata.MD) {
	call.Procedure = "/" + strings.TrimPrefix(call.Procedure, "/") // a client may leave the slash out
	sent, _ := metadata.FromIncomingContext(ctx)
	call.Header = make(http.Header, len(sent))
	for name, values := range sent {
		if name == ":authority" && len(values) > 0 {
			call.Host = values[0]
		} else if !strings.HasPrefix(name, ":") {
			call.Header[http.CanonicalHeaderKey(name)] = values
		}
	}
	if p, known := peer.FromContext(ctx); known {
		call.Peer = p.Addr.String()
		if info, secure := p.AuthInfo.(credentials.TLSInfo); secure {
			call.TLS = &info.State
		}
	}
	verdict, header := guardrpc.Decide(ctx, g, call)
	header.Del("Cache-Control") // which is for caches of HTTP
	fields := make(metadata.MD, len(header))
	for name, values := range header {
		fields[strings.ToLower(name)] = values
	}
	return verdict, fields
}

// errorOf returns the error of a call that is denied.
func errorOf(denial *guard.Denial) error {
	denied := guardrpc.ErrorOf(denial)
	details := make([]*anypb.Any, len(denied.Details))
	for i, detail := range denied.Details {
		details[i] = &anypb.Any{TypeUrl: "type.googleapis.com/" + detail.Type, Value: detail.Value}
	}
	return grpcstatus.FromProto(&status.Status{Code: int32(denied.Code), Message: denied.Message, Details: details}).Err()
}
