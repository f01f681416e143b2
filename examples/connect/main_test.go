package main

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weir-go/ratelimit/core"
)

func TestAPI(t *testing.T) {
	limiter := core.New(core.NewMemory())
	defer limiter.Close()
	server := httptest.NewUnstartedServer(newAPI(limiter))
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	defer server.Close()
	transport := &http.Transport{Protocols: server.Config.Protocols}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}

	denied := 0
	for i := range 15 {
		protocol := [][]connect.ClientOption{nil, {connect.WithGRPC()}, {connect.WithGRPCWeb()}}[i%3]
		r := connect.NewRequest(wrapperspb.String("tea"))
		r.Header().Set("X-API-Key", "secret")
		_, err := connect.NewClient[text, text](client, server.URL+"/shop.Orders/Create", protocol...).CallUnary(t.Context(), r)
		if connect.CodeOf(err) == connect.CodeResourceExhausted {
			denied++
		} else if err != nil {
			t.Error(err)
		}
	}
	if denied == 0 || denied > 5 {
		t.Errorf("%d of 15 orders were denied", denied)
	}

	stream := connect.NewClient[text, text](client, server.URL+"/shop.Orders/Watch").CallBidiStream(t.Context())
	stream.RequestHeader().Set("X-API-Key", "secret")
	var err error
	watched := 0
	for err == nil && watched < 1000 {
		_ = stream.Send(wrapperspb.String("1"))
		if _, err = stream.Receive(); err == nil {
			watched++
		}
	}
	if connect.CodeOf(err) != connect.CodeResourceExhausted || watched < 2 {
		t.Errorf("after %d messages: %v", watched, err)
	}
}
