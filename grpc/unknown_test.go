package grpcratelimit_test

import (
	"net"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/weir-go/ratelimit/core"
	grpcratelimit "github.com/weir-go/ratelimit/grpc"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
)

// proxy starts a server with a handler for services that it does not know, as a proxy has it, and returns how many calls that has served.
func proxy(t *testing.T, g *guard.Guard) (*grpc.ClientConn, *atomic.Int64) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := new(atomic.Int64)
	server := grpc.NewServer(grpc.StreamInterceptor(grpcratelimit.Stream(g, nil)), grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		served.Add(1)
		return stream.SendMsg(new(emptypb.Empty))
	}))
	pb.RegisterTestServiceServer(server, new(service))
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn, served
}

// A client that makes up names of methods has one limit for all of them.
func TestMethodsThatClientsInventAreOne(t *testing.T) {
	conn, served := proxy(t, guardOf(t, guard.Policy{Limit: core.FixedWindow(2, time.Hour), By: keyfuncs.Route}))
	for i := range 5 {
		_ = conn.Invoke(t.Context(), "/made.Up/Method"+strconv.Itoa(i), new(emptypb.Empty), new(emptypb.Empty))
	}
	if served.Load() != 2 {
		t.Errorf("%d calls of methods that nobody knows were served", served.Load())
	}
	stream, err := pb.NewTestServiceClient(conn).FullDuplexCall(t.Context()) // another route
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(new(pb.StreamingOutputCallRequest)); err != nil {
		t.Error(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Errorf("a registered method shares their limit: %v", err)
	}
}

// A proxy's policies match the methods that it passes on, in all readings of their names.
func TestPoliciesMatchMethodsThatAreNotRegistered(t *testing.T) {
	for _, method := range []string{"/shop.Orders/Create", "shop.Orders/Create", "//shop.Orders/Create", "/shop.Orders//Create", "/x/../shop.Orders/Create", "/shop.Orders/%43reate"} {
		conn, served := proxy(t, followed(t, "policies:\n  - limit: fixed-window 1, 1h\n    match: POST /shop.Orders/Create\n    key: ip\n"))
		for range 3 {
			_ = conn.Invoke(t.Context(), method, new(emptypb.Empty), new(emptypb.Empty))
		}
		if served.Load() > 1 {
			t.Errorf("%s: %d calls were served", method, served.Load())
		}
	}
}
