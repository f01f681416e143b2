package core_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/redistest"
)

// A server that accepts and then says nothing holds no caller up for longer than the
// budget, not even by the handshake of TLS.
func TestBudgetHoldsForEveryURL(t *testing.T) {
	t.Parallel() // a client that is closed waits for its last connection
	for _, form := range []string{"redis://%s", "rediss://%s", "redis://%[1]s?addr=%[1]s", "rediss://%[1]s?addr=%[1]s", "redis://%s?master_name=main"} {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer listener.Close()
			limiter, err := core.Open(fmt.Sprintf(form, listener.Addr()))
			if err != nil {
				t.Fatal(err)
			}
			defer limiter.Close()
			start := time.Now()
			_, err = limiter.Allow(t.Context(), "key", core.Leaky(1, core.PerSecond(1)))
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("error %v, want one of the deadline", err)
			}
			if took := time.Since(start); took > 4*time.Second { // the client's own timeouts are 5s
				t.Errorf("a budget of 100ms has lasted %v", took)
			}
		})
	}
}

// To go-redis, no retries is a negative number; in a URL, it is also 0.
func TestOpenNeverRepeatsACallUnlessTold(t *testing.T) {
	for query, want := range map[string]int64{"": 1, "?max_retries=0": 1, "?max_retries=-1": 1, "?max_retries=2": 3} {
		t.Run(query, func(t *testing.T) {
			addr, asked := hangsUpOn(t, "evalsha")
			limiter, err := core.Open("redis://"+addr+query, core.WithBudget(patient))
			if err != nil {
				t.Fatal(err)
			}
			defer limiter.Close()
			if _, err := limiter.Allow(t.Context(), "key", core.Leaky(1, core.PerSecond(1))); err == nil {
				t.Error("a server that hangs up has answered")
			}
			if got := asked.Load(); got != want {
				t.Errorf("asked %d times, want %d", got, want)
			}
		})
	}
}

// hangsUpOn serves Redis' protocol as far as a client needs it to get going, and
// closes the connection when it is sent a command, which it counts.
func hangsUpOn(t *testing.T, command string) (addr string, count *atomic.Int64) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	count = new(atomic.Int64)
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer connection.Close()
				for lines := bufio.NewScanner(connection); lines.Scan(); {
					switch strings.ToLower(lines.Text()) {
					case command:
						count.Add(1)
						return
					case "hello", "time":
						_, _ = connection.Write([]byte("-ERR unknown command\r\n"))
					case "client":
						_, _ = connection.Write([]byte("+OK\r\n"))
					}
				}
			}()
		}
	}()
	return listener.Addr().String(), count
}

// upAndDown returns a limiter on a ring of two servers, and a key of each. One of them goes down when
// stop is called.
func upAndDown(t *testing.T, limit core.Limit) (limiter *core.Limiter, up, down string, stop func()) {
	t.Helper()
	servers := [2]*redistest.Server{redistest.Start(t), redistest.Start(t)}
	ring := redis.NewRing(&redis.RingOptions{
		Addrs:      map[string]string{"up": servers[0].Addr(), "down": servers[1].Addr()},
		MaxRetries: -1, HeartbeatFrequency: time.Hour,
		NewClient: func(o *redis.Options) *redis.Client {
			o.ContextTimeoutEnabled = true
			return redis.NewClient(o)
		},
	})
	t.Cleanup(func() { _ = ring.Close() })
	limiter = core.New(core.NewRedis(ring, core.WithBudget(patient), core.WithLogger(discard), core.WithBreaker(0, 0)))
	// The servers' own keys show which server a key is on.
	var keys [2]string
	for i := 0; keys[0] == "" || keys[1] == ""; i++ {
		key := fmt.Sprint("key-", i)
		if _, err := limiter.Allow(t.Context(), key, limit); err != nil {
			t.Fatal(err)
		}
		for place, server := range servers {
			if n := server.Client(t).Exists(t.Context(), "ratelimit:{"+key+"}:"+limit.Name()).Val(); n == 1 {
				keys[place] = key
			}
		}
	}
	return limiter, keys[0], keys[1], func() { servers[1].Stop(t) }
}

// A call that may be retried has charged nothing, not even its shadow checks.
func TestCallThatChargedAShadowIsDoneInPart(t *testing.T) {
	limit := core.Leaky(5, core.PerHour(1))
	limiter, up, down, stop := upAndDown(t, limit)
	stop()
	for cost, notDone := range map[int]bool{1: false, 6: true} { // 6 are more than the limit admits
		_, err := limiter.AllowAll(t.Context(),
			core.Check{Key: up, Limit: limit}, core.Check{Key: down, Limit: limit}, core.Check{Key: up, Limit: limit, Shadow: true, Cost: cost})
		unanswered, ok := errors.AsType[*core.UnansweredError](err)
		if !ok || len(unanswered.Checks) != 1 || unanswered.Checks[0] != 1 || core.FailureOf(err) != core.Unreachable {
			t.Errorf("error %v, want that the second check was not answered", err)
		}
		if errors.Is(err, core.ErrNotDone) != notDone {
			t.Errorf("a shadow of %d: that nothing was done is %v, want %v: %v", cost, !notDone, notDone, err)
		}
	}
}

// A shadow check on a server that is down does not stop the call.
func TestShadowOnAServerThatIsDown(t *testing.T) {
	limit := core.Leaky(5, core.PerHour(1))
	limiter, up, down, stop := upAndDown(t, limit)
	stop()
	decisions, err := limiter.AllowAll(t.Context(),
		core.Check{Key: up, Limit: limit, Cost: 1},
		core.Check{Key: down, Limit: limit, Cost: 1, Shadow: true})
	if err != nil {
		t.Fatal(err)
	}
	if !decisions[0].Allowed || decisions[0].Degraded || decisions[1] != (core.Decision{Limit: limit, Degraded: true}) {
		t.Errorf("%+v, want the first allowed, and the second marked as not answered", decisions)
	}
}

// Connections that other users of the client hold are missing in this process: that is no outage, and
// all is well when they are free again.
func TestConnectionsThatOthersHoldAreNoOutage(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t, func(o *redis.Options) { o.PoolSize = 2 })
	l := core.New(core.NewRedis(client, core.WithPrefix(redistest.Prefix(t))))
	limit := core.Leaky(1, core.PerHour(1))
	// A busy machine may need more than the budget for an answer.
	allow := func() (d core.Decision) {
		err := errors.New("not asked yet")
		for deadline := time.Now().Add(patient); err != nil; d, err = l.Allow(t.Context(), "key", limit) {
			if time.Now().After(deadline) {
				t.Fatal(err)
			}
		}
		return d
	}
	allow()
	held := []*redis.Conn{client.Conn(), client.Conn()}
	for _, connection := range held {
		if err := connection.Ping(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for range 6 { // more than opens a breaker
		if _, err := l.Allow(t.Context(), "key", limit); !errors.Is(err, core.Overloaded) || !errors.Is(err, core.ErrNotDone) {
			t.Errorf("error %v, want %s", err, core.Overloaded)
		}
	}
	for _, connection := range held {
		if err := connection.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if d := allow(); d.Allowed {
		t.Errorf("afterwards: %+v", d)
	}
}
