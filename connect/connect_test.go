package connectratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/types/known/wrapperspb"

	connectratelimit "github.com/weir-go/ratelimit/connect"
	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/guard/guardrpc"
	"github.com/weir-go/ratelimit/keyfuncs"
	"github.com/weir-go/ratelimit/policies"
)

const (
	unary  = "/test.Numbers/Unary"
	both   = "/test.Numbers/Both"
	server = "/test.Numbers/Server"
	sum    = "/test.Numbers/Client"
)

// number is the message of each call: a number that tells what the call does. Under 0, its handler fails with that code.
type number = wrapperspb.Int64Value

// service counts the calls and messages that have reached it.
type service struct {
	calls atomic.Int64
	saw   func(context.Context)
}

func (s *service) answer(ctx context.Context, n *number) (*number, error) {
	s.calls.Add(1)
	if s.saw != nil {
		s.saw(ctx)
	}
	if n.GetValue() < 0 {
		return nil, connect.NewError(connect.Code(-n.GetValue()), errors.New("failed"))
	}
	return wrapperspb.Int64(n.GetValue()), nil
}

// serve starts a server of HTTP/1 and HTTP/2 with the interceptor.
func (s *service) serve(t *testing.T, g, messages *guard.Guard) string {
	t.Helper()
	limited := connect.WithInterceptors(connectratelimit.New(g, messages))
	mux := http.NewServeMux()
	mux.Handle(unary, connect.NewUnaryHandler(unary, func(ctx context.Context, r *connect.Request[number]) (*connect.Response[number], error) {
		answer, err := s.answer(ctx, r.Msg)
		if err != nil {
			return nil, err
		}
		return connect.NewResponse(answer), nil
	}, limited, connect.WithIdempotency(connect.IdempotencyNoSideEffects)))
	mux.Handle(server, connect.NewServerStreamHandler(server, func(ctx context.Context, r *connect.Request[number], out *connect.ServerStream[number]) error {
		answer, err := s.answer(ctx, r.Msg)
		if err != nil {
			return err
		}
		return out.Send(answer)
	}, limited))
	mux.Handle(sum, connect.NewClientStreamHandler(sum, func(ctx context.Context, in *connect.ClientStream[number]) (*connect.Response[number], error) {
		last := new(number)
		for in.Receive() {
			var err error
			if last, err = s.answer(ctx, in.Msg()); err != nil {
				return nil, err
			}
		}
		return connect.NewResponse(last), in.Err()
	}, limited))
	mux.Handle(both, connect.NewBidiStreamHandler(both, func(ctx context.Context, stream *connect.BidiStream[number, number]) error {
		for {
			n, err := stream.Receive()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				_, again := stream.Receive() // a handler that does not give up
				return errors.Join(err, again)
			}
			answer, err := s.answer(ctx, n)
			if err != nil {
				return err
			}
			if err := stream.Send(answer); err != nil {
				return err
			}
		}
	}, limited))
	own := httptest.NewUnstartedServer(mux)
	own.Config.Protocols = new(http.Protocols)
	own.Config.Protocols.SetHTTP1(true)
	own.Config.Protocols.SetUnencryptedHTTP2(true)
	own.Start()
	t.Cleanup(own.Close)
	return own.URL
}

// overHTTP2 is a client of HTTP/2 without TLS, or of HTTP/1.
func httpClient(t *testing.T, http2 bool) *http.Client {
	t.Helper()
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetHTTP1(!http2)
	transport.Protocols.SetUnencryptedHTTP2(http2)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
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

// call makes one call of a procedure, with fields in its header.
type call func(ctx context.Context, n int64, header http.Header) error

// protocols are those of connect-go's client, and how they send a unary call.
var protocols = map[string][]connect.ClientOption{
	"Connect":          nil,
	"Connect in JSON":  {connect.WithProtoJSON()},
	"Connect by GET":   {connect.WithHTTPGet(), connect.WithIdempotency(connect.IdempotencyNoSideEffects)},
	"gRPC":             {connect.WithGRPC()},
	"gRPC-Web":         {connect.WithGRPCWeb()},
	"gRPC-Web in JSON": {connect.WithGRPCWeb(), connect.WithProtoJSON()},
}

// callers returns a call of each procedure by each client.
func callers(t *testing.T, url string, options ...connect.ClientOption) map[string]call {
	t.Helper()
	all := make(map[string]call)
	for protocol, own := range protocols {
		own = slices.Concat(own, options)
		for procedure, calls := range map[string]func(*connect.Client[number, number]) call{unary: callUnary, server: callServer, sum: callSum, both: callBoth} {
			if protocol == "Connect by GET" && procedure != unary {
				continue
			}
			all[protocol+" "+procedure] = calls(connect.NewClient[number, number](httpClient(t, protocol == "gRPC" || procedure == both), url+procedure, own...))
		}
	}
	return all
}

func callUnary(c *connect.Client[number, number]) call {
	return func(ctx context.Context, n int64, header http.Header) error {
		r := connect.NewRequest(wrapperspb.Int64(n))
		maps.Copy(r.Header(), header)
		answer, err := c.CallUnary(ctx, r)
		if err == nil && answer.Header().Get("Ratelimit") == "" {
			return errors.New("the answer has no fields")
		}
		return err
	}
}

func callServer(c *connect.Client[number, number]) call {
	return func(ctx context.Context, n int64, header http.Header) error {
		r := connect.NewRequest(wrapperspb.Int64(n))
		maps.Copy(r.Header(), header)
		stream, err := c.CallServerStream(ctx, r)
		if err != nil {
			return err
		}
		defer stream.Close()
		for stream.Receive() {
		}
		if stream.Err() == nil && stream.ResponseHeader().Get("Ratelimit") == "" {
			return errors.New("the answer has no fields")
		}
		return stream.Err()
	}
}

func callSum(c *connect.Client[number, number]) call {
	return func(ctx context.Context, n int64, header http.Header) error {
		stream := c.CallClientStream(ctx)
		maps.Copy(stream.RequestHeader(), header)
		_ = stream.Send(wrapperspb.Int64(n)) // CloseAndReceive says why it fails
		_, err := stream.CloseAndReceive()
		return err
	}
}

func callBoth(c *connect.Client[number, number]) call {
	return func(ctx context.Context, n int64, header http.Header) error {
		stream := c.CallBidiStream(ctx)
		maps.Copy(stream.RequestHeader(), header)
		_ = stream.Send(wrapperspb.Int64(n)) // Receive says why it fails
		_, err := stream.Receive()
		_ = stream.CloseRequest()
		_ = stream.CloseResponse()
		return err
	}
}

// detailsOf returns the details of an error, typed.
func detailsOf(t *testing.T, err error) (info *errdetails.ErrorInfo, quota *errdetails.QuotaFailure, retry *errdetails.RetryInfo, own *connect.Error) {
	t.Helper()
	own, is := errors.AsType[*connect.Error](err)
	if !is {
		t.Fatalf("%v is no error of Connect", err)
	}
	for _, detail := range own.Details() {
		value, err := detail.Value()
		if err != nil {
			t.Fatal(err)
		}
		switch value := value.(type) {
		case *errdetails.ErrorInfo:
			info = value
		case *errdetails.QuotaFailure:
			quota = value
		case *errdetails.RetryInfo:
			retry = value
		}
	}
	return info, quota, retry, own
}

// In each protocol, a call that is denied never reaches its handler, and says which policy has denied it, and when to try again.
func TestDenials(t *testing.T) {
	for name := range callers(t, "") {
		t.Run(name, func(t *testing.T) {
			outcomes := 0
			s := &service{saw: func(ctx context.Context) { outcomes = len(guard.OutcomesFrom(ctx)) }}
			ask := callers(t, s.serve(t, guardOf(t, guard.Policy{Limit: core.FixedWindow(1, time.Hour).Named("calls"), By: keyfuncs.RemoteIP}), nil))[name]
			if err := ask(t.Context(), 1, nil); err != nil || outcomes != 1 {
				t.Fatalf("the first call: %v, %d outcomes", err, outcomes)
			}
			info, quota, retry, err := detailsOf(t, ask(t.Context(), 1, nil))
			if err.Code() != connect.CodeResourceExhausted || info.GetReason() != "RATE_LIMITED" || info.GetDomain() != "github.com/weir-go/ratelimit" {
				t.Errorf("%v, %v", err, info)
			}
			if v := quota.GetViolations(); len(v) != 1 || v[0].GetSubject() != "policy:calls" || v[0].GetQuotaId() != "calls" || v[0].GetDescription() == "" {
				t.Errorf("the violations are %v", v)
			}
			if d := retry.GetRetryDelay().AsDuration(); d <= 0 || d > time.Hour {
				t.Errorf("retry after %v", d)
			}
			if meta := err.Meta(); len(meta["Ratelimit"]) != 1 || len(meta["Ratelimit-Policy"]) != 1 {
				t.Errorf("the metadata is %v", meta)
			}
			if meta := err.Meta(); (meta.Get("Retry-After") != "") != strings.HasPrefix(name, "Connect") {
				t.Errorf("the metadata is %v", meta)
			}
			if s.calls.Load() != 1 {
				t.Errorf("%d calls have reached the handler", s.calls.Load())
			}
		})
	}
}

// followed returns a Guard that decides by a file, with a key by the message.
func followed(t *testing.T, text string) *guard.Guard {
	t.Helper()
	document, err := policies.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	set, err := document.Set(policies.Options{Keys: map[string]keyfuncs.Func{"number": func(r *http.Request) (string, error) {
		if n, is := guardrpc.Message(r.Context()).(*number); is {
			return "number:" + strconv.FormatInt(n.GetValue(), 10), nil
		}
		return "", keyfuncs.ErrNoKey
	}}})
	if err != nil {
		t.Fatal(err)
	}
	return guard.Must(guard.Follow(limiter(t, "memory:"), quiet, set))
}

// In each protocol, also by GET, the policies of a file match the procedure, and keys are of the header, the host, the procedure and the message.
func TestPoliciesAndKeys(t *testing.T) {
	url := new(service).serve(t, followed(t, `
policies:
  - limit: fixed-window 1, 1h
    match: POST `+unary+`
    key: header X-API-Key and number and host and route
  - limit: fixed-window 1, 1h
    match: POST `+both+`
    key: header X-API-Key
`), nil)
	all := callers(t, url)
	for protocol := range protocols {
		for i, test := range []struct {
			procedure string
			key       string
			n         int64
			want      connect.Code
		}{
			{unary, "a", 1, 0}, {unary, "a", 1, connect.CodeResourceExhausted}, {unary, "b", 1, 0}, {unary, "a", 2, 0}, {both, "a", 1, 0}, {both, "a", 2, connect.CodeResourceExhausted},
		} {
			ask := all[protocol+" "+test.procedure]
			if ask == nil {
				continue
			}
			err := ask(t.Context(), test.n, http.Header{"X-Api-Key": {protocol + test.key}})
			if own, _ := errors.AsType[*connect.Error](err); (err != nil || test.want != 0) && (own == nil || own.Code() != test.want) {
				t.Errorf("%s, call %d: %v, want %v", protocol, i, err, test.want)
			}
		}
	}
}

// A client has one limit, in whichever protocol, codec and HTTP method it calls, and however it encodes a binary field.
func TestAnotherSpellingIsTheSameCall(t *testing.T) {
	s := new(service)
	key := func(r *http.Request) (string, error) { return keyfuncs.Header("X-Api-Key-Bin")(r) }
	all := callers(t, s.serve(t, guardOf(t, guard.Policy{Limit: core.FixedWindow(1, time.Hour), By: keyfuncs.Join(keyfuncs.Method, keyfuncs.Route, key)}), nil))
	for protocol := range protocols {
		for _, encoded := range []string{"YQ", "YQ==", "YQ==,Yg", "YQ, Yg==", "YQ"} {
			_ = all[protocol+" "+unary](t.Context(), 1, http.Header{"X-Api-Key-Bin": {encoded}})
		}
	}
	if s.calls.Load() != 1 {
		t.Errorf("%d calls were served", s.calls.Load())
	}
	for _, path := range []string{"/test.Numbers//Unary", "//test.Numbers/Unary", "/x/..%2ftest.Numbers/Unary", "/test.Numbers/%55nary", "/test.Numbers/Unary/", "/test.Numbers/Unary?connect=v1"} {
		s := new(service)
		url := s.serve(t, followed(t, "policies:\n  - limit: fixed-window 1, 1h\n    match: POST "+unary+"\n    key: ip\n"), nil)
		c := connect.NewClient[number, number](httpClient(t, false), url+path)
		for range 3 {
			_, _ = c.CallUnary(t.Context(), connect.NewRequest(wrapperspb.Int64(1)))
		}
		if s.calls.Load() > 1 {
			t.Errorf("%s: %d calls were served", path, s.calls.Load())
		}
	}
}

// A Settle and a Strike are told the status that stands for the code, and an error of the handler comes with the limits' fields.
func TestCodesSettleCalls(t *testing.T) {
	for name := range callers(t, "") {
		all := callers(t, new(service).serve(t, followed(t, "policies:\n  - limit: fixed-window 1, 1h\n    key: ip\n    settle: {5xx: 0}\n"), nil))
		// A call is settled beside its answer, so the next one may come too early.
		settled := func(n int64) (err error) {
			for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
				if err = all[name](t.Context(), n, nil); err == nil || connect.CodeOf(err) != connect.CodeResourceExhausted {
					break
				}
			}
			return err
		}
		for range 3 {
			if _, _, _, err := detailsOf(t, settled(-int64(connect.CodeUnavailable))); err.Code() != connect.CodeUnavailable || len(err.Meta()["Ratelimit"]) != 1 {
				t.Errorf("%s: %v, %v", name, err, err.Meta())
			}
		}
		if err := settled(1); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := all[name](t.Context(), 1, nil); connect.CodeOf(err) != connect.CodeResourceExhausted {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A stream is charged when it begins, holds its place until its end, and each of its messages is charged, by its content.
func TestStreams(t *testing.T) {
	for _, protocol := range []string{"Connect", "gRPC", "gRPC-Web"} {
		s := new(service)
		g := guardOf(t, guard.Policy{Limit: core.Concurrent(1, time.Minute), By: keyfuncs.Global})
		messages := guardOf(t, guard.Policy{Limit: core.FixedWindow(6, time.Hour), By: keyfuncs.Global, Cost: func(r *http.Request) int {
			return int(guardrpc.Message(r.Context()).(*number).GetValue())
		}})
		c := connect.NewClient[number, number](httpClient(t, true), s.serve(t, g, messages)+both, protocols[protocol]...)
		say := func(stream *connect.BidiStreamForClient[number, number], n int64) error {
			_ = stream.Send(wrapperspb.Int64(n))
			_, err := stream.Receive()
			return err
		}
		first := c.CallBidiStream(t.Context())
		if err := say(first, 2); err != nil {
			t.Fatal(protocol, err)
		}
		if err := say(c.CallBidiStream(t.Context()), 2); connect.CodeOf(err) != connect.CodeResourceExhausted {
			t.Errorf("%s: a second stream: %v", protocol, err)
		}
		if err := say(first, 4); err != nil {
			t.Errorf("%s: %v", protocol, err)
		}
		_ = first.Send(wrapperspb.Int64(1))
		_ = first.Send(wrapperspb.Int64(0)) // which costs nothing, and is not received
		_, err := first.Receive()
		if _, _, retry, own := detailsOf(t, err); own.Code() != connect.CodeResourceExhausted || retry == nil {
			t.Errorf("%s: a message too many: %v", protocol, err)
		}
		if s.calls.Load() != 2 {
			t.Errorf("%s: %d messages have reached the handler", protocol, s.calls.Load())
		}
		_ = first.CloseRequest()
		for deadline := time.Now().Add(time.Minute); ; { // the place is given back in the background
			next := c.CallBidiStream(t.Context())
			_ = next.Send(nil)
			_ = next.CloseRequest()
			_, err := next.Receive()
			if connect.CodeOf(err) != connect.CodeResourceExhausted || errors.Is(err, io.EOF) {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: the place is not given back: %v", protocol, err)
			}
		}
	}
}

// Where the store does not answer, the policy says what happens.
func TestStoresThatDoNotAnswer(t *testing.T) {
	for mode, want := range map[guard.ErrorMode]bool{guard.FailOpen: true, guard.FailClosed: false} {
		g := guard.Must(guard.New(limiter(t, "redis://127.0.0.1:1"), quiet, guard.Policy{Limit: core.Leaky(1, core.PerSecond(1)), By: keyfuncs.RemoteIP, OnError: mode}))
		for _, protocol := range []string{"Connect", "gRPC", "gRPC-Web"} {
			c := connect.NewClient[number, number](httpClient(t, true), new(service).serve(t, g, nil)+unary, protocols[protocol]...)
			_, err := c.CallUnary(t.Context(), connect.NewRequest(wrapperspb.Int64(1)))
			if (err == nil) != want || err != nil && connect.CodeOf(err) != connect.CodeUnavailable {
				t.Errorf("%s, %v: %v", protocol, mode, err)
			}
		}
	}
}

// The calls and streams of a program keep within the limit of a key, and wait for as long as an answer says.
func TestClients(t *testing.T) {
	for _, protocol := range []string{"Connect", "gRPC", "gRPC-Web"} {
		s := new(service)
		served := guardOf(t, guard.Policy{Limit: core.FixedWindow(2, time.Hour), By: keyfuncs.RemoteIP})
		l := limiter(t, "memory:")
		quota := core.Leaky(3, core.PerHour(1))
		all := callers(t, s.serve(t, served, nil), connect.WithInterceptors(connectratelimit.Client(l, "account:7", quota)))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for _, procedure := range []string{unary, both} {
			if err := all[protocol+" "+procedure](ctx, 1, nil); err != nil {
				t.Errorf("%s: %v", protocol, err)
			}
		}
		if _, _, retry, err := detailsOf(t, all[protocol+" "+server](ctx, 1, nil)); retry == nil {
			t.Errorf("%s: the server has not denied the third call: %v", protocol, err)
		}
		for _, procedure := range []string{unary, server, sum, both} {
			if _, _, retry, err := detailsOf(t, all[protocol+" "+procedure](ctx, 1, nil)); err.Code() != connect.CodeResourceExhausted || retry != nil {
				t.Errorf("%s: %s was sent, or has another error: %v", protocol, procedure, err)
			}
		}
		if left, err := l.Peek(ctx, "account:7", quota); err != nil || left.Remaining != 0 || s.calls.Load() != 2 {
			t.Errorf("%s: %d left, %v, %d calls", protocol, left.Remaining, err, s.calls.Load())
		}
		cancelled, stop := context.WithCancel(ctx)
		stop()
		if err := all[protocol+" "+unary](cancelled, 1, nil); connect.CodeOf(err) != connect.CodeCanceled {
			t.Errorf("%s: a call that is cancelled: %v", protocol, err)
		}
	}
}

// Each interceptor does nothing at the other end of a call.
func TestInterceptorsAtTheOtherEnd(t *testing.T) {
	deny := guardOf(t, guard.Policy{Limit: core.FixedWindow(1, time.Hour), By: keyfuncs.Global, Cost: func(*http.Request) int { return 2 }})
	none := connectratelimit.Client(limiter(t, "memory:"), "key", core.Leaky(1, core.PerHour(1)))
	pass := guardOf(t, guard.Policy{Limit: core.FixedWindow(1_000, time.Hour), By: keyfuncs.Global})
	for name, ask := range callers(t, new(service).serve(t, pass, nil), connect.WithInterceptors(connectratelimit.New(deny, deny))) {
		if err := ask(t.Context(), 1, nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	next := func(context.Context, connect.AnyRequest) (connect.AnyResponse, error) {
		return connect.NewResponse(new(number)), nil
	}
	for range 3 {
		if _, err := none.WrapUnary(next)(t.Context(), connect.NewRequest(new(number))); err != nil {
			t.Error(err)
		}
	}
}

func TestMisusePanicsAtTheStart(t *testing.T) {
	for _, misuse := range []func(){
		func() { connectratelimit.New(nil, nil) },
		func() { connectratelimit.Client(nil, "key", core.Leaky(1, core.PerSecond(1))) },
		func() { connectratelimit.Client(limiter(t, "memory:"), "", core.Leaky(1, core.PerSecond(1))) },
	} {
		func() {
			defer func() {
				if reason := recover(); reason == nil || !strings.HasPrefix(fmt.Sprint(reason), "connectratelimit: ") {
					t.Errorf("%v", reason)
				}
			}()
			misuse()
		}()
	}
}
