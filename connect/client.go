package connectratelimit

import (
	"cmp"
	"context"
	"errors"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weir-go/ratelimit/core"
)

// Client returns an interceptor that keeps the calls of a program within the limit of a key, for the whole fleet, and its streams when they begin. A call waits
// until the limit admits it, within its context. If it cannot be made in time, it fails with resource_exhausted at once, has not been sent, and costs nothing.
// An error with google.rpc.RetryInfo holds the key back for all of the fleet. Where the store cannot answer, the call is made all the same. It panics if the
// limiter is nil, or the key is empty. In a server, the interceptor does nothing.
func Client(l *core.Limiter, key string, limit core.Quota) connect.Interceptor {
	if l == nil || key == "" {
		panic("connectratelimit: the limiter is nil, or the key is empty")
	}
	return client{l, key, limit}
}

type client struct {
	limiter *core.Limiter
	key     string
	limit   core.Quota
}

// WrapUnary implements [connect.Interceptor].
func (c client) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
		if !request.Spec().IsClient {
			return next(ctx, request)
		}
		if err := c.wait(ctx); err != nil {
			return nil, err
		}
		answer, err := next(ctx, request)
		c.holdBack(ctx, err)
		return answer, err
	}
}

// WrapStreamingHandler implements [connect.Interceptor].
func (c client) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}

// WrapStreamingClient implements [connect.Interceptor].
func (c client) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return func(ctx context.Context, spec connect.Spec) connect.StreamingClientConn {
		denied := c.wait(ctx)
		own := ctx
		if denied != nil {
			var cancel context.CancelFunc
			own, cancel = context.WithCancel(ctx)
			cancel() // so that nothing is sent
		}
		return &limitedStream{next(own, spec), ctx, c, denied}
	}
}

// limitedStream is a stream of a client, which does not begin if it is denied.
type limitedStream struct {
	connect.StreamingClientConn

	ctx    context.Context //nolint:containedctx // its methods have none
	client client
	denied error
}

// Send implements [connect.StreamingClientConn].
func (s *limitedStream) Send(message any) error {
	return cmp.Or(s.denied, s.StreamingClientConn.Send(message))
}

// Receive implements [connect.StreamingClientConn].
func (s *limitedStream) Receive(message any) error {
	err := s.StreamingClientConn.Receive(message)
	s.client.holdBack(s.ctx, err)
	return cmp.Or(s.denied, err)
}

// CloseRequest implements [connect.StreamingClientConn].
func (s *limitedStream) CloseRequest() error {
	return cmp.Or(s.denied, s.StreamingClientConn.CloseRequest())
}

// wait returns when a call may be made, or the reason why it may not.
func (c client) wait(ctx context.Context) error {
	err := c.limiter.Wait(ctx, c.key, c.limit, core.WithHoldBack())
	if limited, denied := errors.AsType[*core.LimitedError](err); denied {
		return connect.NewError(connect.CodeResourceExhausted, limited)
	}
	if ctx.Err() != nil {
		return connect.NewError(connect.Code(codeOf(ctx.Err())), ctx.Err())
	}
	return nil
}

// holdBack holds the key back for as long as an error says.
func (c client) holdBack(ctx context.Context, err error) {
	failed, _ := errors.AsType[*connect.Error](err)
	if failed == nil {
		return
	}
	for _, detail := range failed.Details() {
		if wait := waitIn(detail); wait > 0 {
			_ = c.limiter.HoldBack(context.WithoutCancel(ctx), c.key, wait) // without it, the next call is answered so again
		}
	}
}

// waitIn returns the wait of a google.rpc.RetryInfo, or 0. Its only field is a google.protobuf.Duration, in bytes.
func waitIn(detail *connect.ErrorDetail) time.Duration {
	var info wrapperspb.BytesValue
	var wait durationpb.Duration
	if detail.Type() != "google.rpc.RetryInfo" || proto.Unmarshal(detail.Bytes(), &info) != nil || proto.Unmarshal(info.GetValue(), &wait) != nil {
		return 0
	}
	return wait.AsDuration()
}
