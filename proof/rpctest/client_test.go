package rpctest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
)

// failure is what a client makes of a call that has failed.
type failure struct {
	code      connect.Code // the numbers are those of gRPC
	message   string
	retryInfo *errdetails.RetryInfo // nil: there is none
	field     func(name string) string
}

// caller calls a procedure of a server, and returns nil if that was served.
type caller struct {
	name string
	call func(t *testing.T, server *httptest.Server) *failure
}

// callers are the clients in all that they can be.
func callers() []caller {
	var all []caller
	for procedure, streams := range map[string]*grpc.StreamDesc{
		unary:        nil,
		serverStream: {ServerStreams: true},
		clientStream: {ClientStreams: true},
		bothStream:   {ServerStreams: true, ClientStreams: true},
	} {
		name := "grpc-go " + procedure
		all = append(all, caller{name, func(t *testing.T, server *httptest.Server) *failure {
			return callGRPC(t, server, name, procedure, streams)
		}})
	}
	protocols := map[string][]connect.ClientOption{
		"Connect":          {},
		"Connect in JSON":  {connect.WithProtoJSON()},
		"Connect by GET":   {connect.WithHTTPGet(), connect.WithIdempotency(connect.IdempotencyNoSideEffects)},
		"gRPC":             {connect.WithGRPC()},
		"gRPC-Web":         {connect.WithGRPCWeb()},
		"gRPC-Web in JSON": {connect.WithGRPCWeb(), connect.WithProtoJSON()},
	}
	for protocol, options := range protocols {
		for procedure, call := range map[string]func(context.Context, *client) error{
			unary: callUnary, serverStream: callServerStream, clientStream: callClientStream, bothStream: callBothStream,
		} {
			for _, http2 := range []bool{false, true} {
				onlyHTTP2, onlyUnary := protocol == "gRPC" || procedure == bothStream, protocol == "Connect by GET"
				if onlyHTTP2 && !http2 || onlyUnary && procedure != unary {
					continue
				}
				name := fmt.Sprintf("connect-go %s %s, HTTP/2 %t", protocol, procedure, http2)
				all = append(all, caller{name, func(t *testing.T, server *httptest.Server) *failure {
					return callConnect(t, server, name, procedure, http2, call, options)
				}})
			}
		}
	}
	return all
}

func callGRPC(t *testing.T, server *httptest.Server, name, procedure string, streams *grpc.StreamDesc) *failure {
	t.Helper()
	connection := dial(t, server)
	defer connection.Close()
	ctx := metadata.AppendToOutgoingContext(t.Context(), "caller", name)
	var header, trailer metadata.MD
	err := invoke(ctx, connection, procedure, streams, &header, &trailer)
	if err == nil {
		return nil
	}
	s := status.Convert(err)
	f := &failure{code: connect.Code(s.Code()), message: s.Message(), field: func(name string) string {
		return strings.Join(metadata.Join(header, trailer).Get(name), ", ")
	}}
	for _, detail := range s.Details() {
		f.retryInfo = detail.(*errdetails.RetryInfo)
	}
	return f
}

func dial(t *testing.T, server *httptest.Server, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	options = append(options, grpc.WithTransportCredentials(credentials.NewTLS(trusting(server))))
	connection, err := grpc.NewClient("passthrough:///"+server.Listener.Addr().String(), options...)
	if err != nil {
		t.Fatal(err)
	}
	return connection
}

// trusting is a configuration that trusts a server.
func trusting(server *httptest.Server) *tls.Config {
	return &tls.Config{RootCAs: server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs, ServerName: "example.com"}
}

func invoke(ctx context.Context, connection *grpc.ClientConn, procedure string, streams *grpc.StreamDesc, header, trailer *metadata.MD) error {
	if streams == nil {
		return connection.Invoke(ctx, procedure, new(emptypb.Empty), new(emptypb.Empty), grpc.Header(header), grpc.Trailer(trailer))
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := connection.NewStream(ctx, streams, procedure, grpc.Header(header), grpc.Trailer(trailer))
	if err != nil {
		return err
	}
	_ = stream.SendMsg(new(emptypb.Empty)) // RecvMsg says why it fails
	if err := stream.CloseSend(); err != nil {
		return err
	}
	err = stream.RecvMsg(new(emptypb.Empty))
	*header, _ = stream.Header()
	*trailer = stream.Trailer()
	return err
}

// client calls one procedure by connect-go.
type client struct {
	*connect.Client[emptypb.Empty, emptypb.Empty]

	name string
}

func callConnect(t *testing.T, server *httptest.Server, name, procedure string, http2 bool, call func(context.Context, *client) error, options []connect.ClientOption) *failure {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: trusting(server), Protocols: new(http.Protocols)}
	defer transport.CloseIdleConnections()
	transport.Protocols.SetHTTP1(!http2)
	transport.Protocols.SetHTTP2(http2)
	c := &client{connect.NewClient[emptypb.Empty, emptypb.Empty](&http.Client{Transport: transport}, server.URL+procedure, options...), name}
	err := call(t.Context(), c)
	if err == nil {
		return nil
	}
	var e *connect.Error
	if !errors.As(err, &e) {
		t.Fatalf("failed with a %T: %v", err, err)
	}
	f := &failure{code: e.Code(), message: e.Message(), field: e.Meta().Get}
	for _, detail := range e.Details() {
		value, err := detail.Value()
		if err != nil {
			t.Fatalf("the detail %s: %v", detail.Type(), err)
		}
		f.retryInfo = value.(*errdetails.RetryInfo)
	}
	return f
}

func callUnary(ctx context.Context, c *client) error {
	r := connect.NewRequest(new(emptypb.Empty))
	r.Header().Set("Caller", c.name)
	_, err := c.CallUnary(ctx, r)
	return err
}

func callServerStream(ctx context.Context, c *client) error {
	r := connect.NewRequest(new(emptypb.Empty))
	r.Header().Set("Caller", c.name)
	stream, err := c.CallServerStream(ctx, r)
	if err != nil {
		return err
	}
	defer stream.Close()
	stream.Receive()
	return stream.Err()
}

func callClientStream(ctx context.Context, c *client) error {
	stream := c.CallClientStream(ctx)
	stream.RequestHeader().Set("Caller", c.name)
	_ = stream.Send(new(emptypb.Empty)) // CloseAndReceive says why it fails
	_, err := stream.CloseAndReceive()
	return err
}

func callBothStream(ctx context.Context, c *client) error {
	stream := c.CallBidiStream(ctx)
	defer func() { _ = stream.CloseResponse() }() // Receive has failed with the same
	stream.RequestHeader().Set("Caller", c.name)
	_ = stream.Send(new(emptypb.Empty)) // Receive says why it fails
	if err := stream.CloseRequest(); err != nil {
		return err
	}
	_, err := stream.Receive()
	return err
}
