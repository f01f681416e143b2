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
	mustLimit(l, key)
	return func(ctx context.Context, method string, question, answer any, conn *grpc.ClientConn, call grpc.UnaryInvoker, options ...grpc.CallOption) error {
		if err := wait(ctx, l, key, limit); err != nil {
			return err
		}
		err := call(ctx, method, question, answer, conn, options...)
		holdBack(ctx, l, key, err)
		return err
	}
}

// StreamClient returns an interceptor for the beginning of streams, as [UnaryClient] is one for calls.
func StreamClient(l *core.Limiter, key string, limit core.Quota) grpc.StreamClientInterceptor {
	mustLimit(l, key)
	return func(
		ctx context.Context, about *grpc.StreamDesc, conn *grpc.ClientConn, method string, begin grpc.Streamer, options ...grpc.CallOption,
	) (grpc.ClientStream, error) {
		if err := wait(ctx, l, key, limit); err != nil {
			return nil, err
		}
		stream, err := begin(ctx, about, conn, method, options...)
		holdBack(ctx, l, key, err)
		return stream, err
	}
}

func mustLimit(l *core.Limiter, key string) {
	if l == nil || key == "" {
		panic("grpcratelimit: the limiter is nil, or the key is empty")
	}
}

// wait returns when a call may be made, or the reason why it may not.
func wait(ctx context.Context, l *core.Limiter, key string, limit core.Quota) error {
	err := l.Wait(ctx, key, limit, core.WithHoldBack())
	if limited, denied := errors.AsType[*core.LimitedError](err); denied {
		return status.Error(codes.ResourceExhausted, limited.Error())
	}
	if ctx.Err() != nil {
		return status.FromContextError(ctx.Err()).Err()
	}
	return nil
}

// holdBack holds a key back for as long as an answer says.
func holdBack(ctx context.Context, l *core.Limiter, key string, err error) {
	for _, detail := range status.Convert(err).Details() {
		if info, is := detail.(*errdetails.RetryInfo); is && info.GetRetryDelay().AsDuration() > 0 {
			_ = l.HoldBack(context.WithoutCancel(ctx), key, info.GetRetryDelay().AsDuration()) // without it, the next call is answered so again
		}
	}
}
