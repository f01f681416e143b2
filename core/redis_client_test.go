package core_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/redistest"
)

// silence is a listener that accepts everything and answers nothing.
func silence(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		var open []net.Conn
		for {
			conn, err := listener.Accept()
			if err != nil {
				for _, c := range open {
					_ = c.Close()
				}
				return
			}
			open = append(open, conn)
		}
	}()
	t.Cleanup(func() { _ = listener.Close(); <-ended })
	return listener.Addr().String()
}

func TestBudgetHoldsWhateverTheClientDoes(t *testing.T) {
	leaks := goleak.IgnoreCurrent()
	const budget = 100 * time.Millisecond
	for _, heeds := range []bool{false, true} {
		for _, answers := range []bool{false, true} {
			t.Run(fmt.Sprintf("client heeds deadlines %t, server has answered before %t", heeds, answers), func(t *testing.T) {
				options := redis.Options{
					MaxRetries: -1, ContextTimeoutEnabled: heeds, DialTimeout: 2 * time.Second, ReadTimeout: 2 * time.Second,
				}
				var server *redistest.Server
				if answers {
					server = redistest.Start(t)
					options.Addr = server.Addr()
				} else {
					options.Addr = silence(t)
				}
				client := redis.NewClient(&options)
				defer client.Close()
				limiter := core.New(core.NewRedis(client, core.WithBudget(budget), core.WithLogger(discard)))
				ask := func() error {
					_, err := limiter.Allow(t.Context(), "key", core.Leaky(100, core.PerSecond(1)))
					return err
				}
				if answers {
					for deadline := time.Now().Add(10 * time.Second); ask() != nil; {
						if time.Now().After(deadline) {
							t.Fatal("the server does not answer")
						}
					}
					server.Pause(t)
					defer server.Resume(t)
				}
				began := time.Now()
				err := ask()
				if took := time.Since(began); took > 20*budget { // the client's own timeouts are 2s
					t.Errorf("took %v with a budget of %v", took, budget)
				}
				want := "has not answered within 100ms"
				if !answers {
					want = "nothing was heard for 100ms"
				}
				if err == nil || !strings.Contains(err.Error(), want) || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%v, want one that says %q and is context.DeadlineExceeded", err, want)
				}
			})
		}
	}
	goleak.VerifyNone(t, leaks)
}

// What about a user's own client can do harm is said once.
func TestWarningsAboutAClient(t *testing.T) {
	const repeats, ignores, late = "set MaxRetries to -1", "set ContextTimeoutEnabled", "set Dialer to core.Dialer(nil)"
	address := redistest.Shared(t).Addr()
	for name, c := range map[string]struct {
		client redis.UniversalClient
		want   []string
	}{
		"as it comes":            {redis.NewClient(&redis.Options{Addr: address}), []string{repeats, ignores, late}},
		"that repeats":           {redis.NewClient(&redis.Options{Addr: address, ContextTimeoutEnabled: true}), []string{repeats, late}},
		"that ignores deadlines": {redis.NewClient(&redis.Options{Addr: address, MaxRetries: -1}), []string{ignores, late}},
		"with its own dialer":    {redis.NewClient(&redis.Options{Addr: address, MaxRetries: -1, ContextTimeoutEnabled: true}), []string{late}},
		"as it should be": {redis.NewClient(&redis.Options{
			Addr: address, MaxRetries: -1, ContextTimeoutEnabled: true, Dialer: core.Dialer(nil),
		}), nil},
		"of a cluster": {redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{address}, MaxRetries: 2}), []string{repeats, ignores, late}},
		"of a ring":    {redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": address}, MaxRetries: -1}), []string{ignores, late}},
	} {
		logger, words := report()
		limiter := core.New(core.NewRedis(c.client, core.WithPrefix(redistest.Prefix(t)), core.WithLogger(logger), core.WithBudget(patient)))
		for range 3 {
			_, _ = limiter.Allow(t.Context(), "key", core.Leaky(5, core.PerHour(1)))
		}
		_ = c.client.Close()
		for _, warning := range []string{repeats, ignores, late} {
			want := 0
			if slices.Contains(c.want, warning) {
				want = 1
			}
			if got := strings.Count(words.String(), warning); got != want {
				t.Errorf("a client %s is warned of %d times to %s, want %d", name, got, warning, want)
			}
		}
	}
}

func TestCallerWhoGoesAwayMeanwhile(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: silence(t), MaxRetries: -1})
	t.Cleanup(func() { _ = client.Close() })
	limiter := core.New(core.NewRedis(client, core.WithBudget(time.Minute)))
	ctx, cancel := context.WithCancel(t.Context())
	answer := make(chan error)
	go func() {
		_, err := limiter.Allow(ctx, "key", core.Leaky(1, core.PerSecond(1)))
		answer <- err
	}()
	cancel()
	if err := <-answer; !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want context.Canceled", err)
	}
}

func TestNoServerIsAnError(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_ = listener.Close()
	limiter, err := core.Open("redis://" + address)
	if err != nil {
		t.Fatalf("Open connects: %v", err)
	}
	t.Cleanup(func() { _ = limiter.Close() })
	for name, ask := range map[string]func() error{
		"Allow": func() error {
			_, err := limiter.Allow(t.Context(), "key", core.Leaky(1, core.PerSecond(1)))
			return err
		},
		"Reset": func() error { return limiter.Reset(t.Context(), "key", core.Leaky(1, core.PerSecond(1))) },
		"Ping":  func() error { return limiter.Ping(t.Context()) },
	} {
		if err := ask(); err == nil || !strings.HasPrefix(err.Error(), "core: ") {
			t.Errorf("%s without a server: %v", name, err)
		}
	}
}

// The budget's error after a charge would let the caller believe it was not
// charged: an answer that has come is never thrown away.
func TestAnswerThatHasComeIsKept(t *testing.T) {
	client := redistest.Shared(t).Client(t, func(o *redis.Options) { o.ContextTimeoutEnabled = false })
	limiter := core.New(core.NewRedis(client, core.WithPrefix(redistest.Prefix(t)), core.WithBudget(patient)))
	limit := core.Leaky(1_000_000, core.PerSecond(1))
	for range 3000 {
		if _, err := limiter.Allow(t.Context(), "key", limit); err != nil {
			t.Fatal(err)
		}
	}
}
