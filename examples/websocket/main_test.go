package main

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"

	"github.com/coder/websocket"

	"github.com/weir-go/ratelimit/core"
)

// service is the server, on a clock of its own.
type service struct {
	t     *testing.T
	url   string
	clock atomic.Int64 // nanoseconds
}

func start(t *testing.T) *service {
	t.Helper()
	s := &service{t: t}
	began := time.Now()
	limiter := core.New(core.NewMemory(core.WithClock(func() time.Time { return began.Add(time.Duration(s.clock.Load())) })))
	return s.on(limiter)
}

func (s *service) on(limiter *core.Limiter) *service {
	server := httptest.NewServer(newHandler(limiter))
	s.t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		_ = limiter.Close()
	})
	s.url = server.URL
	return s
}

// client is a connection of a user.
type client struct {
	*websocket.Conn

	t *testing.T
}

func (s *service) dial(ctx context.Context, user string) (*client, int) {
	s.t.Helper()
	conn, response, err := websocket.Dial(ctx, s.url+"/?user="+user, nil)
	if err != nil {
		if response == nil {
			s.t.Fatal(err)
		}
		return nil, response.StatusCode
	}
	conn.SetReadLimit(longest)
	s.t.Cleanup(func() { _ = conn.CloseNow() })
	return &client{conn, s.t}, response.StatusCode
}

func (s *service) connect(user string) *client {
	s.t.Helper()
	c, status := s.dial(s.t.Context(), user)
	if c == nil {
		s.t.Fatalf("the handshake is answered with %d", status)
	}
	return c
}

// say sends a message, and returns the answer, or the status with which the connection was closed.
func (c *client) say(message string) (string, websocket.StatusCode) {
	c.t.Helper()
	if err := c.Write(c.t.Context(), websocket.MessageText, []byte(message)); err != nil {
		return "", websocket.CloseStatus(err)
	}
	_, answer, err := c.Read(c.t.Context())
	return string(answer), websocket.CloseStatus(err)
}

// Over all connections of a user, messages are denied in the application's own words, and served again after the wait that these tell.
func TestMessagesAreLimited(t *testing.T) {
	s := start(t)
	first, second := s.connect("alice"), s.connect("alice")
	for i := range 10 {
		if answer, _ := []*client{first, second}[i%2].say("hello"); answer != "hello" {
			t.Errorf("message %d is answered with %s", i, answer)
		}
	}
	answer, _ := second.say("hello")
	var denial struct {
		Denied       []string
		RetryAfterMs int
	}
	if err := json.Unmarshal([]byte(answer), &denial); err != nil || len(denial.Denied) != 1 || denial.Denied[0] != "messages" || denial.RetryAfterMs != 500 {
		t.Fatalf("%s, %v", answer, err)
	}
	if answer, _ := s.connect("bob").say("hello"); answer != "hello" {
		t.Errorf("another user is answered with %s", answer)
	}
	s.clock.Add(int64(denial.RetryAfterMs) * int64(time.Millisecond))
	if answer, _ := first.say("again"); answer != "again" {
		t.Errorf("after the wait: %s", answer)
	}
}

// A large message costs more, and one that no wait can help ends the connection.
func TestLargeMessagesCostMore(t *testing.T) {
	s := start(t)
	c := s.connect("alice")
	large := strings.Repeat("x", 8<<10) // nine units
	if answer, _ := c.say(large); answer != large {
		t.Errorf("%d bytes are answered with %d", len(large), len(answer))
	}
	if answer, _ := c.say("hello"); answer != "hello" {
		t.Errorf("the tenth unit is answered with %s", answer)
	}
	if answer, _ := c.say("hello"); !strings.Contains(answer, `"retryAfterMs":500`) {
		t.Errorf("the eleventh unit is answered with %s", answer)
	}
	if answer, status := c.say(strings.Repeat("x", 10<<10)); status != websocket.StatusMessageTooBig {
		t.Errorf("eleven units at once: %s, %v", answer, status)
	}
}

// A client that sends on and on in spite of denials is cut off.
func TestFloodsEnd(t *testing.T) {
	c := start(t).connect("alice")
	for i := range 10 + mostDenied + 1 {
		answer, status := c.say("hello")
		if last := i == 10+mostDenied; last != (status == websocket.StatusPolicyViolation) {
			t.Fatalf("message %d: %s, %v", i, answer, status)
		}
	}
}

// A user has three connections at once, and a place is free again when one has ended.
func TestConnectionsAreLimited(t *testing.T) {
	s := start(t)
	first := s.connect("alice")
	s.connect("alice")
	s.connect("alice")
	if c, status := s.dial(t.Context(), "alice"); c != nil || status != http.StatusTooManyRequests {
		t.Errorf("the fourth connection: %d", status)
	}
	s.connect("bob")
	if err := first.Close(websocket.StatusNormalClosure, ""); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if c, _ := s.dial(t.Context(), "alice"); c != nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the place is not given back")
		}
	}
}

// pipes are connections without buffers: what one side writes, the other has to read.
type pipes struct{ made chan net.Conn }

func (p pipes) Accept() (net.Conn, error) {
	conn, open := <-p.made
	if !open {
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (p pipes) Close() error {
	close(p.made)
	return nil
}

func (pipes) Addr() net.Addr { return &net.TCPAddr{} }

// A client that reads none of its answers is cut off, and gives its place back.
func TestAClientThatDoesNotReadIsCutOff(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		limiter := core.New(core.NewMemory())
		listener := pipes{make(chan net.Conn)}
		server := &http.Server{Handler: newHandler(limiter)}
		go func() { _ = server.Serve(listener) }()
		near, far := net.Pipe()
		listener.made <- far
		dial := &http.Client{Transport: &http.Transport{
			DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) { return near, nil },
		}}
		conn, _, err := websocket.Dial(t.Context(), "ws://example.com/?user=alice", &websocket.DialOptions{HTTPClient: dial})
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.Write(t.Context(), websocket.MessageText, []byte("hello")); err != nil {
			t.Fatal(err)
		}
		left := func() int {
			d, err := limiter.Peek(t.Context(), "user:alice", connections)
			if err != nil {
				t.Fatal(err)
			}
			return d.Remaining
		}
		time.Sleep(patience - time.Millisecond)
		synctest.Wait()
		if left() != 2 {
			t.Errorf("%d places are free while the client has time to read", left())
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if left() != 3 {
			t.Errorf("%d places are free", left())
		}
		_ = conn.CloseNow()
		_ = server.Close()
		_ = limiter.Close()
	})
}

// Where the limits cannot be asked, the client is told to come back later.
func TestTheStoreIsAway(t *testing.T) {
	limiter, err := core.Open("redis://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	if answer, status := (&service{t: t}).on(limiter).connect("alice").say("hello"); status != websocket.StatusTryAgainLater {
		t.Errorf("%s, %v", answer, status)
	}
}
