// Connect is an API with a unary procedure and a stream, for clients of Connect, gRPC and gRPC-Web:
//
//   - each API key may place ten orders at once, and one a second after that, in whichever protocol;
//   - each address may place ten times as many, whichever keys it makes up;
//   - five clients may watch orders at once, and each may subscribe to two more of them a second;
//   - a denial says in its details which policy has denied it, and when to try again.
//
// Run it, and send it requests:
//
//	go run .
//	curl -i localhost:8080/shop.Orders/Create -H 'Content-Type: application/json' -H 'X-API-Key: secret' -d '"tea"'
//
// REDIS_URL has several of them share their limits: REDIS_URL=redis://localhost:6379 go run .
package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"os"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/wrapperspb"

	connectratelimit "github.com/weir-go/ratelimit/connect"
	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
)

// text stands for the messages that your code generator makes.
type text = wrapperspb.StringValue

func main() {
	limiter, err := core.Open(cmp.Or(os.Getenv("REDIS_URL"), "memory:"))
	if err != nil {
		log.Fatal(err)
	}
	server := &http.Server{
		Addr: cmp.Or(os.Getenv("ADDR"), "localhost:8080"), Handler: newAPI(limiter), Protocols: new(http.Protocols),
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: time.Hour, IdleTimeout: time.Minute, // a stream reads for as long as it lasts
	}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true) // for clients of gRPC without TLS
	log.Print("listening on ", server.Addr)
	log.Fatal(server.ListenAndServe())
}

// newAPI returns the API.
func newAPI(limiter *core.Limiter) http.Handler {
	key := keyfuncs.Header("X-API-Key")
	orders := guard.Must(guard.New(limiter, guard.Options{}, guard.Layers(
		guard.Policy{Limit: core.Leaky(100, core.PerSecond(10)).Named("address"), By: keyfuncs.RemoteIP},
		guard.Policy{Limit: core.Leaky(10, core.PerSecond(1)).Named("orders"), By: key},
	)...))
	watches := guard.Must(guard.New(limiter, guard.Options{}, guard.Policy{Limit: core.Concurrent(5, 30*time.Second).Named("watches"), By: keyfuncs.Global}))
	messages := guard.Must(guard.New(limiter, guard.Options{}, guard.Policy{Limit: core.Leaky(2, core.PerSecond(2)).Named("subscriptions"), By: key}))

	mux := http.NewServeMux()
	limited, watched := connectratelimit.New(orders, nil), connectratelimit.New(watches, messages)
	mux.Handle("/shop.Orders/Create", connect.NewUnaryHandler("/shop.Orders/Create", create, connect.WithInterceptors(limited)))
	mux.Handle("/shop.Orders/Watch", connect.NewBidiStreamHandler("/shop.Orders/Watch", watch, connect.WithInterceptors(watched)))
	return mux
}

// create places an order.
func create(_ context.Context, r *connect.Request[text]) (*connect.Response[text], error) {
	return connect.NewResponse(wrapperspb.String("ordered " + r.Msg.GetValue())), nil
}

// watch tells a client about each order that it subscribes to.
func watch(_ context.Context, stream *connect.BidiStream[text, text]) error {
	for {
		order, err := stream.Receive()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err // also a denial
		}
		if err := stream.Send(wrapperspb.String("watching " + order.GetValue())); err != nil {
			return err
		}
	}
}
