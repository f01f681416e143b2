package clients

import (
	"context"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"testing"

	"github.com/weir-go/ratelimit/internal/bubbletest"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/outbound"
)

// script is a host that accepts the calls that it is told to.
type script struct {
	accepts []bool
	got     int
}

func (s *script) next() bool {
	s.got++
	return s.accepts[s.got-1]
}

// RoundTrip answers 200 or 503.
func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	code := http.StatusServiceUnavailable
	if s.next() {
		code = http.StatusOK
	}
	return &http.Response{StatusCode: code, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
}

const calls = 400

// outages returns which calls a host accepts, in runs that are good or bad.
func outages(random *rand.Rand) (accepts []bool) {
	for len(accepts) < 3*calls {
		good := random.Float64()
		for range random.IntN(60) {
			accepts = append(accepts, random.Float64() < good)
		}
	}
	return accepts
}

// triesOfOutbound returns how often a Transport makes each call.
func triesOfOutbound(t *testing.T, accepts []bool) (tries []int) {
	t.Helper()
	bubbletest.Run(t, func(t *testing.T) {
		host := &script{accepts: accepts}
		transport := outbound.New(core.New(core.NewMemory()), core.Unlimited, outbound.Options{
			Base: host, Retry: outbound.Retry{Most: 2, Tokens: 10, Ratio: 0.1},
		})
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://partner.example/", nil)
		if err != nil {
			t.Fatal(err)
		}
		for range calls {
			before := host.got
			response, err := transport.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
			tries = append(tries, host.got-before)
		}
	})
	return tries
}

// triesOfGRPC returns how often a client of grpc-go makes each call.
func triesOfGRPC(t *testing.T, accepts []bool) (tries []int) {
	t.Helper()
	host, listener := &script{accepts: accepts}, bufconn.Listen(1<<16)
	server := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		if err := stream.RecvMsg(new(emptypb.Empty)); err != nil {
			return err
		}
		if !host.next() {
			return status.Error(codes.Unavailable, "worn")
		}
		return stream.SendMsg(new(emptypb.Empty))
	}))
	served := make(chan error)
	go func() { served <- server.Serve(listener) }()
	defer func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	client, err := grpc.NewClient("passthrough:///partner", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
		grpc.WithDefaultServiceConfig(`{
			"methodConfig": [{"name": [{}], "retryPolicy": {
				"maxAttempts": 3, "initialBackoff": "0.0001s", "maxBackoff": "0.0001s", "backoffMultiplier": 1, "retryableStatusCodes": ["UNAVAILABLE"]
			}}],
			"retryThrottling": {"maxTokens": 10, "tokenRatio": 0.1}
		}`))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for range calls {
		before := host.got
		err := client.Invoke(t.Context(), "/partner/Call", new(emptypb.Empty), new(emptypb.Empty))
		if err != nil && status.Code(err) != codes.Unavailable {
			t.Fatal(err)
		}
		tries = append(tries, host.got-before)
	}
	return tries
}

// Each call is made as often as grpc-go makes it with the same retryThrottling.
func TestTheBudgetOfRetriesIsThatOfGRPC(t *testing.T) {
	for seed := range uint64(5) {
		accepts := outages(rand.New(rand.NewPCG(seed, rand.Uint64())))
		own, theirs := triesOfOutbound(t, accepts), triesOfGRPC(t, accepts)
		if !slices.Equal(own, theirs) {
			t.Errorf("the calls were made %v times, and by grpc-go %v times, when the host accepted %v", own, theirs, accepts)
		}
	}
}
