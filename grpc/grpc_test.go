package grpcratelimit_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/weir-go/ratelimit/core"
	grpcratelimit "github.com/weir-go/ratelimit/grpc"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
	"github.com/weir-go/ratelimit/policies"
)

// service answers calls, and counts those that have reached it.
type service struct {
	pb.UnimplementedTestServiceServer

	calls atomic.Int64
	fail  codes.Code
	saw   func(context.Context)
}

func (s *service) EmptyCall(ctx context.Context, _ *pb.Empty) (*pb.Empty, error) {
	s.calls.Add(1)
	if s.saw != nil {
		s.saw(ctx)
	}
	return &pb.Empty{}, status.Error(s.fail, "failed")
}

func (s *service) UnaryCall(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	s.calls.Add(1)
	return &pb.SimpleResponse{}, nil
}

func (s *service) FullDuplexCall(stream grpc.BidiStreamingServer[pb.StreamingOutputCallRequest, pb.StreamingOutputCallResponse]) error {
	for {
		_, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		s.calls.Add(1)
		if err := stream.Send(&pb.StreamingOutputCallResponse{}); err != nil {
			return err
		}
	}
}

func limiter(t *testing.T, url string) *core.Limiter {
	t.Helper()
	l, err := core.Open(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

var quiet = guard.Options{Logger: slog.New(slog.DiscardHandler)}

func guardOf(t *testing.T, policies ...guard.Policy) *guard.Guard {
	t.Helper()
	return guard.Must(guard.New(limiter(t, "memory:"), quiet, policies...))
}

// dial starts a server with the interceptors, and returns a connection to it.
func dial(t *testing.T, s *service, g, messages *guard.Guard, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.UnaryInterceptor(grpcratelimit.Unary(g)), grpc.StreamInterceptor(grpcratelimit.Stream(g, messages)))
	pb.RegisterTestServiceServer(server, s)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient(listener.Addr().String(), append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// A call that is denied never reaches its handler, and says which policy has denied it, and when to try again.
func TestDenials(t *testing.T) {
	var outcomes int
	s := &service{saw: func(ctx context.Context) { outcomes = len(guard.OutcomesFrom(ctx)) }}
	c := pb.NewTestServiceClient(dial(t, s, guardOf(t, guard.Policy{Limit: core.FixedWindow(1, time.Hour).Named("calls"), By: keyfuncs.RemoteIP}), nil))
	var trailer metadata.MD
	if _, err := c.EmptyCall(t.Context(), &pb.Empty{}, grpc.Trailer(&trailer)); err != nil || outcomes != 1 || len(trailer["ratelimit"]) != 1 {
		t.Errorf("%v, %d outcomes, %v", err, outcomes, trailer)
	}
	_, err := c.EmptyCall(t.Context(), &pb.Empty{}, grpc.Trailer(&trailer))
	var info *errdetails.ErrorInfo
	var retry *errdetails.RetryInfo
	var quota *errdetails.QuotaFailure
	for _, detail := range status.Convert(err).Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			info = detail
		case *errdetails.RetryInfo:
			retry = detail
		case *errdetails.QuotaFailure:
			quota = detail
		}
	}
	if status.Code(err) != codes.ResourceExhausted || info.GetReason() != "RATE_LIMITED" || len(quota.GetViolations()) != 1 || quota.GetViolations()[0].GetQuotaId() != "calls" {
		t.Errorf("%v, %v, %v", err, info, quota)
	}
	if d := retry.GetRetryDelay().AsDuration(); d <= 0 || d > time.Hour {
		t.Errorf("retry after %v", d)
	}
	if strings.Join(trailer["grpc-retry-pushback-ms"], " ") != "-1" || len(trailer["ratelimit-policy"]) != 1 || len(trailer["retry-after"]) != 1 {
		t.Errorf("the trailer is %v", trailer)
	}
	if s.calls.Load() != 1 {
		t.Errorf("%d calls have reached the handler", s.calls.Load())
	}
}

// grpc's own retry waits for as long as it is told, and gets through.
func TestRetriesWaitAsTold(t *testing.T) {
	const retry = `{"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 5, "initialBackoff": "3600s", "maxBackoff": "3600s", "backoffMultiplier": 1,
		"retryableStatusCodes": ["RESOURCE_EXHAUSTED"]}}]}`
	s := new(service)
	c := pb.NewTestServiceClient(dial(t, s, guardOf(t, guard.Policy{Limit: core.Leaky(1, core.PerSecond(20)), By: keyfuncs.RemoteIP}), nil, grpc.WithDefaultServiceConfig(retry)))
	for range 3 {
		if _, err := c.EmptyCall(t.Context(), &pb.Empty{}); err != nil {
			t.Error(err)
		}
	}
	if s.calls.Load() != 3 {
		t.Errorf("%d calls have been served", s.calls.Load())
	}
}

// followed returns a Guard that decides by a file, with a key by the type of the message.
func followed(t *testing.T, text string) *guard.Guard {
	t.Helper()
	document, err := policies.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	set, err := document.Set(policies.Options{Keys: map[string]keyfuncs.Func{"size": func(r *http.Request) (string, error) {
		if message, is := grpcratelimit.Message(r.Context()).(*pb.SimpleRequest); is {
			return "size:" + strconv.Itoa(int(message.GetResponseSize())), nil
		}
		return "", keyfuncs.ErrNoKey
	}}})
	if err != nil {
		t.Fatal(err)
	}
	return guard.Must(guard.Follow(limiter(t, "memory:"), quiet, set))
}

// The policies of a file match the full method, and keys are of the peer, of the metadata, of the method and of the message.
func TestPoliciesAndKeys(t *testing.T) {
	c := pb.NewTestServiceClient(dial(t, new(service), followed(t, `
policies:
  - limit: fixed-window 2, 1h
    match: POST /grpc.testing.TestService/EmptyCall
    key: ip and route
  - limit: fixed-window 1, 1h
    match: /grpc.testing.TestService/
    key: header X-API-Key and size
`), nil))
	empty := func() error {
		_, err := c.EmptyCall(t.Context(), &pb.Empty{})
		return err
	}
	unary := func(key string, size int32) error {
		_, err := c.UnaryCall(metadata.AppendToOutgoingContext(t.Context(), "x-api-key", key), &pb.SimpleRequest{ResponseSize: size})
		return err
	}
	for i, call := range []struct {
		err  error
		want codes.Code
	}{
		{unary("a", 1), codes.OK},
		{unary("a", 1), codes.ResourceExhausted},
		{unary("b", 1), codes.OK},
		{unary("a", 2), codes.OK},
		{unary("a", 2), codes.ResourceExhausted},
		{empty(), codes.OK},
		{empty(), codes.OK},
		{empty(), codes.ResourceExhausted},
	} {
		if status.Code(call.err) != call.want {
			t.Errorf("call %d: %v, want %v", i, call.err, call.want)
		}
	}
}

// A Settle and a Strike are told the status that stands for the code.
func TestCodesSettleCalls(t *testing.T) {
	s := &service{fail: codes.Unavailable}
	c := pb.NewTestServiceClient(dial(t, s, followed(t, "policies:\n  - limit: fixed-window 1, 1h\n    key: ip\n    settle: {5xx: 0}\n"), nil))
	// A call is settled beside its answer, so the next one may come too early.
	settled := func() (err error) {
		for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
			if _, err = c.EmptyCall(t.Context(), &pb.Empty{}); status.Code(err) != codes.ResourceExhausted {
				break
			}
		}
		return err
	}
	for range 3 {
		if err := settled(); status.Code(err) != codes.Unavailable {
			t.Error(err)
		}
	}
	s.fail = codes.OK
	if err := settled(); err != nil {
		t.Error(err)
	}
	if _, err := c.EmptyCall(t.Context(), &pb.Empty{}); status.Code(err) != codes.ResourceExhausted {
		t.Error(err)
	}
}

// A stream is charged when it begins, holds its place until its end, and each of its messages is charged.
func TestStreams(t *testing.T) {
	s := new(service)
	g := guardOf(t, guard.Policy{Limit: core.Concurrent(1, time.Minute), By: keyfuncs.Global})
	messages := guardOf(t, guard.Policy{
		Limit: core.FixedWindow(6, time.Hour), By: keyfuncs.Global,
		Cost: func(r *http.Request) int {
			return len(grpcratelimit.Message(r.Context()).(*pb.StreamingOutputCallRequest).GetResponseParameters())
		},
	})
	c := pb.NewTestServiceClient(dial(t, s, g, messages))
	begin := func() grpc.BidiStreamingClient[pb.StreamingOutputCallRequest, pb.StreamingOutputCallResponse] {
		t.Helper()
		stream, err := c.FullDuplexCall(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return stream
	}
	say := func(stream grpc.BidiStreamingClient[pb.StreamingOutputCallRequest, pb.StreamingOutputCallResponse], cost int) error {
		_ = stream.Send(&pb.StreamingOutputCallRequest{ResponseParameters: make([]*pb.ResponseParameters, cost)})
		_, err := stream.Recv()
		return err
	}
	first := begin()
	if err := say(first, 2); err != nil {
		t.Fatal(err)
	}
	if err := say(begin(), 2); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a second stream: %v", err)
	}
	if err := say(first, 4); err != nil {
		t.Error(err)
	}
	if err := say(first, 1); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a message too many: %v", err)
	}
	if got := first.Trailer()["grpc-retry-pushback-ms"]; len(got) != 1 || got[0] != "-1" {
		t.Errorf("the trailer is %v", first.Trailer())
	}
	if s.calls.Load() != 2 {
		t.Errorf("%d messages have reached the handler", s.calls.Load())
	}
	for { // the place is given back in the background
		next := begin()
		_ = next.CloseSend()
		if _, err := next.Recv(); errors.Is(err, io.EOF) {
			break
		} else if status.Code(err) != codes.ResourceExhausted {
			t.Fatal(err)
		}
	}
}

// Where the store does not answer, the policy says what happens.
func TestStoresThatDoNotAnswer(t *testing.T) {
	for mode, want := range map[guard.ErrorMode]codes.Code{guard.FailOpen: codes.OK, guard.FailClosed: codes.Unavailable} {
		g := guard.Must(guard.New(limiter(t, "redis://127.0.0.1:1"), quiet, guard.Policy{Limit: core.Leaky(1, core.PerSecond(1)), By: keyfuncs.RemoteIP, OnError: mode}))
		if _, err := pb.NewTestServiceClient(dial(t, new(service), g, nil)).EmptyCall(t.Context(), &pb.Empty{}); status.Code(err) != want {
			t.Errorf("%v: %v", mode, err)
		}
	}
}

// The calls of a program keep within the limit of a key, and wait for as long as an answer says.
func TestClients(t *testing.T) {
	s := new(service)
	served := guardOf(t, guard.Policy{Limit: core.FixedWindow(2, time.Hour), By: keyfuncs.RemoteIP})
	l := limiter(t, "memory:")
	quota := core.Leaky(3, core.PerHour(1))
	c := pb.NewTestServiceClient(dial(t, s, served, nil, grpc.WithUnaryInterceptor(grpcratelimit.UnaryClient(l, "account:7", quota)),
		grpc.WithStreamInterceptor(grpcratelimit.StreamClient(l, "account:7", quota))))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range 2 {
		if _, err := c.EmptyCall(ctx, &pb.Empty{}); err != nil {
			t.Error(err)
		}
	}
	if _, err := c.EmptyCall(ctx, &pb.Empty{}); len(status.Convert(err).Details()) == 0 {
		t.Errorf("the server has not denied the third call: %v", err)
	}
	before := s.calls.Load()
	if _, err := c.EmptyCall(ctx, &pb.Empty{}); status.Code(err) != codes.ResourceExhausted || len(status.Convert(err).Details()) != 0 {
		t.Errorf("the fourth call was sent, or has another error: %v", err)
	}
	if _, err := c.FullDuplexCall(ctx); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a stream: %v", err)
	}
	if left, err := l.Peek(ctx, "account:7", quota); err != nil || left.Remaining != 0 || s.calls.Load() != before {
		t.Errorf("%d left, %v", left.Remaining, err)
	}
	cancelled, stop := context.WithCancel(ctx)
	stop()
	if _, err := c.EmptyCall(cancelled, &pb.Empty{}); status.Code(err) != codes.Canceled {
		t.Errorf("a call that is cancelled: %v", err)
	}
}

// However a client writes the method, the limit of the method counts, or nothing is served.
func TestSpellingsOfTheMethod(t *testing.T) {
	for _, method := range []string{
		"/grpc.testing.TestService/EmptyCall", "grpc.testing.TestService/EmptyCall", "//grpc.testing.TestService/EmptyCall", "/grpc.testing.TestService//EmptyCall",
		"/grpc.testing.TestService/EmptyCall/", "/grpc.testing.TestService/%45mptyCall", "/x/../grpc.testing.TestService/EmptyCall", "/grpc.testing.TestService/EmptyCall?x",
	} {
		s := new(service)
		conn := dial(t, s, followed(t, "policies:\n  - limit: fixed-window 1, 1h\n    match: POST /grpc.testing.TestService/EmptyCall\n    key: ip\n"), nil)
		for range 3 {
			_ = conn.Invoke(t.Context(), method, &pb.Empty{}, &pb.Empty{})
		}
		if s.calls.Load() > 1 {
			t.Errorf("%s: %d calls were served", method, s.calls.Load())
		}
	}
}
