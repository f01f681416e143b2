package grpcratelimit

import (
	"context"
	"errors"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weir-go/ratelimit/core"
)

// UnaryClient returns an interceptor that keeps the unary calls of a program within the limit of a key, for the whole fleet. A call waits until the limit
// admits it, within its context. If it cannot be made in time, it fails with RESOURCE_EXHAUSTED at once, has not been sent, and costs nothing. An answer with
// google.rpc.RetryInfo holds the key back for all of the fleet. Where the store cannot answer, the call is made all the same. It panics if the limiter is nil,
// or the key is empty.
func UnaryClient(l *core.Limiter, key string, limit core.Quota) grpc.UnaryClientInterceptor {
	own := mustLimit(l, key, limit)
	return func(ctx context.Context, method string, question, answer any, conn *grpc.ClientConn, call grpc.UnaryInvoker, options ...grpc.CallOption) error {
		return own.keep(ctx, func() error { return call(ctx, method, question, answer, conn, options...) })
	}
}

// StreamClient returns an interceptor for the beginning of streams, as [UnaryClient] is one for calls.
func StreamClient(l *core.Limiter, key string, limit core.Quota) grpc.StreamClientInterceptor {
	own := mustLimit(l, key, limit)
	return func(
		ctx context.Context, about *grpc.StreamDesc, conn *grpc.ClientConn, method string, begin grpc.Streamer, options ...grpc.CallOption,
	) (stream grpc.ClientStream, err error) {
		err = own.keep(ctx, func() error {
			stream, err = begin(ctx, about, conn, method, options...)
			return err
		})
		return stream, err
	}
}

// outgoing is the limit of the calls that a program makes.
type outgoing struct {
	limiter *core.Limiter
	key     string
	limit   core.Quota
}

func mustLimit(l *core.Limiter, key string, limit core.Quota) outgoing {
	if l == nil || key == "" {
		panic("grpcratelimit: the limiter is nil, or the key is empty")
	}
	return outgoing{l, key, limit}
}

// keep makes a call when it may be made, and holds the key back for as long as the answer says.
func (o outgoing) keep(ctx context.Context, call func() error) error {
	err := o.limiter.Wait(ctx, o.key, o.limit, core.WithHoldBack())
	if limited, denied := errors.AsType[*core.LimitedError](err); denied {
		return status.Error(codes.ResourceExhausted, limited.Error())
	}
	if ctx.Err() != nil {
		return status.FromContextError(ctx.Err()).Err()
	}
	err = call()
	for _, detail := range status.Convert(err).Details() {
		if info, is := detail.(*errdetails.RetryInfo); is && info.GetRetryDelay().AsDuration() > 0 {
			_ = o.limiter.HoldBack(context.WithoutCancel(ctx), o.key, info.GetRetryDelay().AsDuration()) // without it, the next call is answered so again
		}
	}
	return err
}
