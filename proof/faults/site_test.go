package faults_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/faultproxy"
	"github.com/weir-go/ratelimit/internal/redistest"
)

const (
	// forever is longer than any call may take.
	forever = 10 * (budget + slack)
	// tooLong, too, but so short that a client with this timeout comes back, and is not
	// found to be leaked.
	tooLong = budget + slack + 2*time.Second
)

// longer returns a timeout that is longer than a call with a budget may take, and no more than that: a client gives up a connection on
// which nothing comes when it has passed, and the tests wait for it.
func longer(budget time.Duration) time.Duration { return budget + 2*slack }

// site is a server and the way to it, both of which can fail.
type site struct {
	server *redistest.Server
	proxy  *faultproxy.Proxy
	admin  *redis.Client // has a way of its own
	prefix string
}

func newSite(t *testing.T, arguments ...string) *site {
	t.Helper()
	server := redistest.Start(t, arguments...)
	return &site{
		server: server,
		proxy:  faultproxy.Start(t, server.Addr()),
		admin:  server.Client(t, func(o *redis.Options) { o.PoolSize = 1 }),
		prefix: redistest.Prefix(t),
	}
}

// do has the server obey the administrator.
func (s *site) do(t *testing.T, words ...any) {
	t.Helper()
	if err := s.admin.Do(t.Context(), words...).Err(); err != nil {
		t.Fatalf("%v: %v", words, err)
	}
}

// heeding returns a limiter whose client is set up as core.Open does, except for
// timeouts that are of no help.
func (s *site) heeding(t *testing.T, budget time.Duration, options ...core.Option) *core.Limiter {
	t.Helper()
	timeout := longer(budget)
	return s.limiter(t, budget, &redis.Options{
		ContextTimeoutEnabled: true, DialTimeout: timeout, ReadTimeout: timeout, WriteTimeout: timeout, PoolTimeout: timeout,
	}, options)
}

// ignoring returns a limiter whose client pays no attention to deadlines.
func (s *site) ignoring(t *testing.T, budget time.Duration, options ...core.Option) *core.Limiter {
	t.Helper()
	return s.limiter(t, budget, &redis.Options{
		DialTimeout: tooLong, ReadTimeout: tooLong, WriteTimeout: tooLong, PoolTimeout: tooLong,
	}, options)
}

// limiters returns a limiter for each kind of client, and one without a breaker, which
// goes on asking while everything fails.
func (s *site) limiters(t *testing.T) []*core.Limiter {
	t.Helper()
	return []*core.Limiter{s.heeding(t, budget), s.ignoring(t, budget), s.heeding(t, budget, core.WithBreaker(0, 0))}
}

func (s *site) limiter(t *testing.T, budget time.Duration, client *redis.Options, options []core.Option) *core.Limiter {
	t.Helper()
	client.Addr, client.MaxRetries = s.proxy.Addr(), -1
	rdb := redis.NewClient(client)
	options = append([]core.Option{core.WithPrefix(s.prefix), core.WithBudget(budget), core.WithLogger(discard)}, options...)
	limiter := core.New(core.NewRedis(rdb, options...))
	t.Cleanup(func() {
		_ = limiter.Close()
		_ = rdb.Close()
	})
	return limiter
}

// reader returns a limiter that asks the server itself, with all the time it needs.
func (s *site) reader(t *testing.T) *core.Limiter {
	t.Helper()
	return core.New(core.NewRedis(s.server.Client(t),
		core.WithPrefix(s.prefix), core.WithBudget(patient), core.WithLogger(discard)))
}

func (s *site) noConnections() error {
	if n := s.proxy.Connections(); n > 0 {
		return fmt.Errorf("%d are open", n)
	}
	return nil
}
