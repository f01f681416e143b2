package conformance

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	connectratelimit "github.com/weir-go/ratelimit/connect"
	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
)

// The client of grpc-go understands a denial.
func TestGRPCClients(t *testing.T) {
	const procedure = "/test.Service/Unary"
	limiter := core.New(core.NewMemory())
	defer limiter.Close()
	g := guard.Must(guard.New(limiter, guard.Options{Logger: slog.New(slog.DiscardHandler)}, guard.Policy{Limit: core.FixedWindow(1, time.Hour).Named("calls"), By: keyfuncs.RemoteIP}))
	server := httptest.NewUnstartedServer(connect.NewUnaryHandler(procedure, func(context.Context, *connect.Request[emptypb.Empty]) (*connect.Response[emptypb.Empty], error) {
		return connect.NewResponse(new(emptypb.Empty)), nil
	}, connect.WithInterceptors(connectratelimit.New(g, nil))))
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	defer server.Close()
	conn, err := grpc.NewClient("passthrough:///"+strings.TrimPrefix(server.URL, "http://"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var header, trailer metadata.MD
	if err := conn.Invoke(t.Context(), procedure, new(emptypb.Empty), new(emptypb.Empty), grpc.Header(&header)); err != nil || len(header["ratelimit"]) != 1 {
		t.Errorf("%v, with the header %v", err, header)
	}
	err = conn.Invoke(t.Context(), procedure, new(emptypb.Empty), new(emptypb.Empty), grpc.Trailer(&trailer))
	if status.Code(err) != codes.ResourceExhausted || len(status.Convert(err).Details()) != 3 || len(trailer["ratelimit"]) != 1 {
		t.Errorf("%v with %v, and the trailer %v", err, status.Convert(err).Details(), trailer)
	}
}
