package guardtest

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
)

func testTakenOver(t *testing.T, s *suite) {
	s.needScenes(t)
	limiter := core.New(core.NewMemory())
	defer limiter.Close()
	returned := make(chan struct{})
	stop := make(chan struct{})
	permits := make(chan *core.Permit, 1)
	settled := make(chan guard.Served, 1)
	server := listen(t, s.play(scene{
		limiters: []middleware{s.new(limiter, guard.Options{}, deskPolicy(2), guard.Policy{
			Limit: hundred(), By: keyfuncs.Global,
			Settle: guard.SettlePolicy{Cost: func(_ *http.Request, served guard.Served) int { settled <- served; return 7 }},
		})},
		handler: func(w http.ResponseWriter, r *http.Request) {
			defer func() { returned <- struct{}{} }()
			permits <- guard.PermitFrom(r.Context())
			connection, buffer, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			if _, ok := connection.(interface{ CloseWrite() error }); !ok {
				t.Errorf("a connection of type %T cannot be closed for writing alone", connection)
			}
			_, _ = io.WriteString(connection, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n")
			closed := make(chan struct{})
			go func() { // echo, until the client or the server closes the connection
				defer close(closed)
				defer connection.Close()
				defer connection.Close() // twice is once
				_, _ = io.Copy(connection, buffer)
			}()
			go func() {
				select {
				case <-stop:
					connection.Close()
				case <-closed:
				}
			}()
		},
	}))
	for _, who := range []string{"the client", "the server"} {
		connection, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer connection.Close()
		_, _ = io.WriteString(connection, "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n")
		reader := bufio.NewReader(connection)
		if response, err := http.ReadResponse(reader, nil); err != nil || response.StatusCode != http.StatusSwitchingProtocols {
			t.Fatal(response, err)
		}
		<-returned
		if served := <-settled; !served.Hijacked {
			t.Errorf("settled by %+v", served)
		}
		awaitTaken(t, limiter, hundred(), 7) // the rest is settled when the handler has returned
		permit := <-permits
		_, _ = io.WriteString(connection, "hello\n")
		if line, err := reader.ReadString('\n'); line != "hello\n" || taken(t, limiter, desk(2)) != 1 || permit.Err() != nil {
			t.Errorf("%q, %v: %d places are taken, %v", line, err, taken(t, limiter, desk(2)), permit.Err())
		}
		if who == "the client" {
			connection.Close()
		} else {
			stop <- struct{}{}
		}
		awaitTaken(t, limiter, desk(2), 0)
		if permit.Err() == nil {
			t.Errorf("closed by %s: the permit is held", who)
		}
		if err := limiter.Reset(t.Context(), globalKey, hundred()); err != nil {
			t.Fatal(err)
		}
	}
}

func testStreamKeepsPlace(t *testing.T, s *suite) {
	s.need(t, Streaming)
	limiter := core.New(core.NewMemory())
	defer limiter.Close()
	server := listen(t, s.serve(site{
		around: []middleware{s.new(limiter, guard.Options{}, deskPolicy(1))},
		handler: func(w http.ResponseWriter, r *http.Request) {
			flush(w, r)
			<-r.Context().Done() // until the client goes away
		},
	}))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	request, _ := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/", nil)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if n := taken(t, limiter, desk(1)); n != 1 {
		t.Errorf("%d places are taken while the stream goes on", n)
	}
	cancel()
	awaitTaken(t, limiter, desk(1), 0)
}

func testTimeoutHandler(t *testing.T, s *suite) {
	limiter := core.New(core.NewMemory())
	defer limiter.Close()
	proceed, permits := make(chan struct{}), make(chan *core.Permit, 1)
	h := http.TimeoutHandler(s.serve(site{
		around: []middleware{s.new(limiter, guard.Options{}, deskPolicy(1))},
		handler: func(_ http.ResponseWriter, r *http.Request) {
			permits <- guard.PermitFrom(r.Context())
			<-proceed
		},
	}), 10*time.Millisecond, "")
	server := listen(t, h)
	response, err := http.Get(server.URL + "/")
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if permit := <-permits; response.StatusCode != http.StatusServiceUnavailable || taken(t, limiter, desk(1)) != 1 || permit.Err() != nil {
		t.Errorf("answered %d, %d places are taken, %v", response.StatusCode, taken(t, limiter, desk(1)), permit.Err())
	}
	close(proceed)
	awaitTaken(t, limiter, desk(1), 0)
}

func testPermitFrom(t *testing.T, s *suite) {
	releases := newReleases()
	limiter := core.New(releases)
	defer limiter.Close()
	var tokens []uint64
	h := s.serve(site{
		around: []middleware{s.new(limiter, guard.Options{}, deskPolicy(1))},
		inside: []middleware{s.new(limiter, guard.Options{}, guard.Policy{Limit: hundred()})},
		handler: func(_ http.ResponseWriter, r *http.Request) {
			permit := guard.PermitFrom(r.Context())
			tokens = append(tokens, permit.Token())
			ctx := permit.Context()
			if ctx.Err() != nil || permit.Err() != nil {
				t.Errorf("held: %v, %v", ctx.Err(), permit.Err())
			}
			permit.Release()
			if ctx.Err() == nil || taken(t, limiter, desk(1)) != 0 {
				t.Errorf("released: %v, %d are taken", ctx.Err(), taken(t, limiter, desk(1)))
			}
		},
	})
	get(h)
	get(h)
	if len(tokens) != 2 || tokens[0] >= tokens[1] {
		t.Errorf("tokens %v", tokens)
	}
	releases.await(t, 2)
	if guard.PermitFrom(t.Context()) != nil {
		t.Error("a permit without a request")
	}
}
