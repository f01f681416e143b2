package grpcratelimit

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/weir-go/ratelimit/guard"
)

// Unary returns an interceptor that has a Guard decide about each unary call of a server. The context of the handler has the decisions:
// [guard.OutcomesFrom]. A place of a core.Concurrent limit is held until the handler has returned. A Settle and a Strike are told the HTTP status that
// stands for the code of the call, such as 404 for NOT_FOUND. It panics if the Guard is nil.
func Unary(g *guard.Guard) grpc.UnaryServerInterceptor {
	mustHave(g)
	return func(ctx context.Context, message any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (answer any, err error) {
		verdict, fields := decide(ctx, g, info.FullMethod, message)
		_ = grpc.SetTrailer(ctx, fields) // it fails only where there is no call
		if verdict.Denial != nil {
			return nil, errorOf(verdict.Denial)
		}
		serve(verdict, func(ctx context.Context) error {
			answer, err = handler(ctx, message)
			return err
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
		verdict, fields := decide(stream.Context(), g, info.FullMethod, nil)
		stream.SetTrailer(fields)
		if verdict.Denial != nil {
			return errorOf(verdict.Denial)
		}
		serve(verdict, func(ctx context.Context) error {
			err = handler(service, &limitedStream{stream, ctx, messages, info.FullMethod})
			return err
		})
		return err
	}
}

// limitedStream is a stream of which each message is decided about.
type limitedStream struct {
	grpc.ServerStream

	ctx      context.Context //nolint:containedctx // grpc.ServerStream has one
	messages *guard.Guard
	method   string
}

// Context implements [grpc.ServerStream].
func (s *limitedStream) Context() context.Context { return s.ctx }

// RecvMsg implements [grpc.ServerStream].
func (s *limitedStream) RecvMsg(message any) error {
	if err := s.ServerStream.RecvMsg(message); err != nil || s.messages == nil {
		return err
	}
	verdict, fields := decide(guard.AsOwn(s.ctx), s.messages, s.method, message)
	if verdict.Denial != nil {
		s.SetTrailer(fields)
		return errorOf(verdict.Denial)
	}
	serve(verdict, func(context.Context) error { return nil })
	return nil
}

// Message returns the message of a call, for the key, cost and limit functions of policies, given the context of their request. It is nil when a stream
// begins. Functions must not change it.
func Message(ctx context.Context) any { return ctx.Value(messageKey{}) }

type messageKey struct{}

func mustHave(g *guard.Guard) {
	if g == nil {
		panic("grpcratelimit: the Guard is nil")
	}
}

// route is the full method of a call, which its server has found.
type route string

func (r route) Route() string           { return string(r) }
func (r route) WholePath() bool         { return true }
func (r route) PathValue(string) string { return "" }

// decide has a Guard decide about a call. The trailer of the call has the fields.
func decide(ctx context.Context, g *guard.Guard, method string, message any) (guard.Verdict, metadata.MD) {
	path := "/" + strings.TrimPrefix(method, "/") // a client may leave the slash out
	r := &http.Request{
		Method: http.MethodPost, URL: &url.URL{Path: path}, RequestURI: path, Header: make(http.Header), Body: http.NoBody, Proto: "HTTP/2.0", ProtoMajor: 2,
	}
	sent, _ := metadata.FromIncomingContext(ctx)
	for name, values := range sent {
		if name == ":authority" && len(values) > 0 {
			r.Host = values[0]
		} else if !strings.HasPrefix(name, ":") {
			r.Header[http.CanonicalHeaderKey(name)] = values
		}
	}
	if p, known := peer.FromContext(ctx); known {
		r.RemoteAddr = p.Addr.String()
		if info, secure := p.AuthInfo.(credentials.TLSInfo); secure {
			r.TLS = &info.State
		}
	}
	verdict := g.Decide(r.WithContext(context.WithValue(ctx, messageKey{}, message)), route(path))
	header := make(http.Header)
	verdict.WriteHeader(header) //nolint:contextcheck // the verdict has the one of the request
	fields := make(metadata.MD, len(header))
	for name, values := range header {
		if name != "Cache-Control" { // which is for caches of HTTP
			fields[strings.ToLower(name)] = values
		}
	}
	if verdict.Denial != nil {
		fields.Set("grpc-retry-pushback-ms", pushback(verdict.Denial.RetryAfter))
	}
	return verdict, fields
}

// serve runs the handler of a call, and has the call settled by its code.
func serve(verdict guard.Verdict, handler func(context.Context) error) {
	verdict.Serve(answer{make(http.Header)}, func(w http.ResponseWriter, r *http.Request) (unanswered int) {
		code := status.Code(handler(r.Context()))
		if int(code) >= len(statusOf) { // one of the program's own
			code = codes.Unknown
		}
		w.WriteHeader(statusOf[code])
		return 0
	})
}

// answer stands for the response to a call, of which guard is told the status.
type answer struct{ header http.Header }

func (a answer) Header() http.Header         { return a.header }
func (a answer) Write(b []byte) (int, error) { return len(b), nil }
func (a answer) WriteHeader(int)             {}
