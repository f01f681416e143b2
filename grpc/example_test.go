package grpcratelimit_test

import (
	"context"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/weir-go/ratelimit/core"
	grpcratelimit "github.com/weir-go/ratelimit/grpc"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
)

// Each API key may make two calls at once and one a minute after that, and each address ten times as many, on all servers together.
func Example() {
	limiter, err := core.Open("memory:") // or the URL of Redis
	if err != nil {
		panic(err)
	}
	defer limiter.Close()
	g := guard.Must(guard.New(limiter, guard.Options{}, guard.Layers(
		guard.Policy{Limit: core.Leaky(20, core.PerMinute(10)).Named("address"), By: keyfuncs.RemoteIP},
		guard.Policy{Limit: core.Leaky(2, core.PerMinute(1)).Named("caller"), By: keyfuncs.Header("x-api-key")},
	)...))
	server := grpc.NewServer(grpc.UnaryInterceptor(grpcratelimit.Unary(g)), grpc.StreamInterceptor(grpcratelimit.Stream(g, nil)))
	defer server.Stop()
	healthpb.RegisterHealthServer(server, health.NewServer())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go server.Serve(listener)

	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	ctx := metadata.AppendToOutgoingContext(context.Background(), "x-api-key", "secret")
	for range 3 {
		_, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{})
		fmt.Println(status.Code(err))
	}
	// Output:
	// OK
	// OK
	// ResourceExhausted
}
