// Command websocket is a server that echoes messages over WebSocket, with limits for each user: 3 connections at once, and 10 messages at once and then 2
// a second over all of them, on all servers together. Each kibibyte of a message costs as much as a message.
//
// A message that is denied is answered by a message of the application's own, and has no other effect:
//
//	{"denied": ["messages"], "retryAfterMs": 412}
//
// A client that goes on all the same is cut off with the status 1008 (policy violation). So is one whose message is larger than its limit ever has room for,
// with 1009 (message too big), and with 1013 (try again later) all clients whose limits cannot be asked.
//
//	go run .                                     # counts in memory
//	REDIS_URL=redis://localhost:6379 go run .    # counts for a whole fleet
//
//	npx wscat -c 'ws://localhost:8080/?user=alice'
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/coder/websocket"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/guard/guardrpc"
	"github.com/weir-go/ratelimit/keyfuncs"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
)

const (
	longest    = 64 << 10         // bytes of a message
	mostDenied = 20               // messages one after the other
	patience   = 10 * time.Second // with a client that does not read its answer
)

var (
	connections = core.Concurrent(3, 30*time.Second).Named("connections")
	messages    = core.Leaky(10, core.PerSecond(2)).Named("messages")
)

func main() {
	limiter, err := core.Open(cmp.Or(os.Getenv("REDIS_URL"), "memory:"))
	if err != nil {
		log.Fatal(err)
	}
	interrupted, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	server := &http.Server{ // the timeouts are those of requests: a WebSocket has left them behind
		Addr:              cmp.Or(os.Getenv("ADDR"), "localhost:8080"),
		Handler:           newHandler(limiter),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		IdleTimeout:       time.Minute,
	}
	context.AfterFunc(interrupted, func() { _ = server.Close() })
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		log.Print(err)
	}
	stop()
	_ = limiter.Close()
}

// newHandler returns the service with its limits.
func newHandler(limiter *core.Limiter) http.Handler {
	user := keyfuncs.User(func(r *http.Request) string { return userOf(r.Context()) })
	perMessage := guard.Must(guard.New(limiter, guard.Options{OnError: guard.FailClosed}, guard.Policy{Limit: messages, By: user, Cost: cost}))
	perConnection := ratelimit.New(limiter, ratelimit.Options{}, ratelimit.Policy{Limit: connections, By: user})
	return authenticated(perConnection(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			return // it has been answered
		}
		defer conn.CloseNow()
		conn.SetReadLimit(longest)
		_ = talk(r, conn, perMessage) // until the client leaves
	})))
}

// talk answers messages until the connection ends.
func talk(r *http.Request, conn *websocket.Conn, limit *guard.Guard) error {
	ctx := guard.AsOwn(r.Context()) // each message is charged by itself
	for denied := 0; ; {
		kind, text, err := conn.Read(ctx)
		if err != nil {
			return err
		}
		verdict, _ := guardrpc.Decide(ctx, limit, guardrpc.Call{Procedure: "/echo", Header: r.Header, Host: r.Host, Peer: r.RemoteAddr, Message: text})
		if verdict.Denial != nil {
			if denied++; denied > mostDenied {
				return conn.Close(websocket.StatusPolicyViolation, "too many messages in spite of denials")
			}
			err = deny(ctx, conn, verdict.Denial)
		} else {
			denied = 0
			guardrpc.Serve(verdict, func(ctx context.Context) (code uint32) {
				err = write(ctx, conn, kind, text)
				return 0
			})
		}
		if err != nil {
			return err
		}
	}
}

// deny answers a message that may not be handled: with a message, or, where no later message could help, by the end of the connection.
func deny(ctx context.Context, conn *websocket.Conn, denial *guard.Denial) error {
	switch {
	case denial.Status != http.StatusTooManyRequests:
		return errors.Join(conn.Close(websocket.StatusTryAgainLater, denial.Problem().Title), errEnded)
	case denial.RetryAfter == core.Never:
		return errors.Join(conn.Close(websocket.StatusMessageTooBig, "the message costs more than the limit ever has"), errEnded)
	}
	text, err := json.Marshal(map[string]any{
		"denied": denial.ViolatedPolicies, "retryAfterMs": (denial.RetryAfter + time.Millisecond - 1).Milliseconds(),
	})
	if err != nil {
		return err
	}
	return write(ctx, conn, websocket.MessageText, text)
}

// write writes a message, and ends the connection of a client that does not take it: it would keep its place for as long as it likes.
func write(ctx context.Context, conn *websocket.Conn, kind websocket.MessageType, text []byte) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return conn.Write(ctx, kind, text)
}

var errEnded = errors.New("the connection has been closed")

// cost returns the units of a message: one, and one more for each kibibyte.
func cost(r *http.Request) int {
	text, _ := guardrpc.Message(r.Context()).([]byte)
	return 1 + len(text)>>10
}

type userKey struct{}

func userOf(ctx context.Context) string {
	user, _ := ctx.Value(userKey{}).(string)
	return user
}

// authenticated stands for your own authentication.
func authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user := r.URL.Query().Get("user")
		if user == "" {
			http.Error(w, "say which user you are, as in ?user=alice", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), userKey{}, user)))
	})
}
