package rpctest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
)

// A server of Connect answers in the protocol that its client chooses. In those of gRPC, a wrong password is a 200. What the procedure tells
// itself bans the client in all of them.
func TestProceduresStrikeInEveryProtocol(t *testing.T) {
	const login, strikes = "/acme.Auth/Login", 5
	client := keyfuncs.IP(keyfuncs.TrustedHops(1))
	guessing := core.Ban{Strikes: core.SlidingLog(strikes, 10*time.Minute), First: 10 * time.Minute}.Named("guessing")
	for contentType, body := range map[string][]byte{
		"application/proto": {}, "application/json": []byte("{}"), "application/grpc-web+proto": make([]byte, 5), "application/grpc+proto": make([]byte, 5),
	} {
		judged := 0
		limit := ratelimit.New(core.New(core.NewMemory()), ratelimit.Options{},
			ratelimit.Policy{Limit: core.Concurrent(2, 30*time.Second), By: client},
			ratelimit.Policy{Ban: ratelimit.BanPolicy{Ban: guessing, Strike: func(_ *http.Request, s ratelimit.Served) int { return s.Spent }}, By: client})
		server := httptest.NewUnstartedServer(limit(connect.NewUnaryHandler(login,
			func(ctx context.Context, _ *connect.Request[emptypb.Empty]) (*connect.Response[emptypb.Empty], error) {
				judged++
				guard.Spend(ctx, 1)
				return nil, connect.NewError(connect.CodeUnauthenticated, errors.New("wrong"))
			})))
		server.EnableHTTP2 = true
		server.StartTLS()
		for range 2 * strikes {
			r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+login, bytes.NewReader(body))
			r.Header.Set("Content-Type", contentType)
			r.Header.Set("X-Forwarded-For", "203.0.113.9")
			r.Header.Set("Te", "trailers")
			response, err := server.Client().Do(r)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, response.Body)
			response.Body.Close()
		}
		server.Close()
		if judged != strikes {
			t.Errorf("%s: %d of %d passwords are judged, want %d", contentType, judged, 2*strikes, strikes)
		}
	}
}
