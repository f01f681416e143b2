package rpctest

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/gin-gonic/gin"
	"github.com/labstack/echo/v4"
	echov5 "github.com/labstack/echo/v5"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/weir-go/ratelimit/core"
	echolimit "github.com/weir-go/ratelimit/echo"
	echov5limit "github.com/weir-go/ratelimit/echo/v5"
	ginlimit "github.com/weir-go/ratelimit/gin"
	"github.com/weir-go/ratelimit/guard"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
)

// The procedures of the service.
const (
	unary        = "/test.Service/Unary"
	serverStream = "/test.Service/ServerStream"
	clientStream = "/test.Service/ClientStream"
	bothStream   = "/test.Service/BothStream"
)

type (
	request  = connect.Request[emptypb.Empty]
	response = connect.Response[emptypb.Empty]
)

// service serves every procedure in the protocols of Connect, gRPC and gRPC-Web.
func service() http.Handler {
	mux := http.NewServeMux()
	mux.Handle(unary, connect.NewUnaryHandler(unary, func(context.Context, *request) (*response, error) {
		return connect.NewResponse(new(emptypb.Empty)), nil
	}, connect.WithIdempotency(connect.IdempotencyNoSideEffects)))
	mux.Handle(serverStream, connect.NewServerStreamHandler(serverStream, func(_ context.Context, _ *request, s *connect.ServerStream[emptypb.Empty]) error {
		return s.Send(new(emptypb.Empty))
	}))
	mux.Handle(clientStream, connect.NewClientStreamHandler(clientStream, func(_ context.Context, s *connect.ClientStream[emptypb.Empty]) (*response, error) {
		for s.Receive() {
			continue // all of them are empty
		}
		return connect.NewResponse(new(emptypb.Empty)), s.Err()
	}))
	mux.Handle(bothStream, connect.NewBidiStreamHandler(bothStream, func(_ context.Context, s *connect.BidiStream[emptypb.Empty, emptypb.Empty]) error {
		m, err := s.Receive()
		if err != nil {
			return err
		}
		return s.Send(m)
	}))
	return mux
}

// frameworks put a limiter in front of a service.
var frameworks = map[string]func(http.Handler, *core.Limiter, ratelimit.Options, ratelimit.Policy) http.Handler{
	"nethttp": func(service http.Handler, l *core.Limiter, o ratelimit.Options, p ratelimit.Policy) http.Handler {
		return ratelimit.New(l, o, p)(service)
	},
	"gin": func(service http.Handler, l *core.Limiter, o ratelimit.Options, p ratelimit.Policy) http.Handler {
		router := gin.New()
		router.Use(ginlimit.New(l, o, p))
		router.Any("/*procedure", gin.WrapH(service))
		return router
	},
	"echo": func(service http.Handler, l *core.Limiter, o ratelimit.Options, p ratelimit.Policy) http.Handler {
		e := echo.New()
		e.Use(echolimit.New(l, o, p))
		e.Any("/*", echo.WrapHandler(service))
		return e
	},
	"echo v5": func(service http.Handler, l *core.Limiter, o ratelimit.Options, p ratelimit.Policy) http.Handler {
		e := echov5.New()
		e.Use(echov5limit.New(l, o, p))
		e.Any("/*", echov5.WrapHandler(service))
		return e
	},
}

// broken is a store that cannot answer.
type broken struct{ core.Store }

func (broken) Decide(context.Context, []core.Call) (int, error) { return 0, errors.New("down") }

// one admits one call of each caller in a minute.
func one() ratelimit.Policy {
	return ratelimit.Policy{
		Limit: core.FixedWindow(1, time.Minute).Named("one"),
		By:    func(r *http.Request) (string, error) { return "caller:" + r.Header.Get("Caller"), nil },
	}
}

// memory is a limiter whose clock stands still.
func memory() *core.Limiter {
	now := time.Now()
	return core.New(core.NewMemory(core.WithClock(func() time.Time { return now })))
}

// limits are what a service is limited by so that it answers with a status: a call too many,
// or every call.
var limits = map[int]func() (*core.Limiter, ratelimit.Options, ratelimit.Policy){
	http.StatusTooManyRequests: func() (*core.Limiter, ratelimit.Options, ratelimit.Policy) {
		return memory(), quiet(), one()
	},
	http.StatusServiceUnavailable: func() (*core.Limiter, ratelimit.Options, ratelimit.Policy) {
		options := quiet()
		options.OnError = guard.FailClosed
		return core.New(broken{core.NewMemory()}), options, one()
	},
	http.StatusInternalServerError: func() (*core.Limiter, ratelimit.Options, ratelimit.Policy) {
		policy := one()
		policy.By = func(*http.Request) (string, error) { return "", errors.New("unreadable") }
		return memory(), quiet(), policy
	},
}

// quiet are options that log nothing.
func quiet() ratelimit.Options { return ratelimit.Options{Logger: slog.New(slog.DiscardHandler)} }

// serve starts a server that speaks HTTP/1.1 and HTTP/2.
func serve(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(h)
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}
