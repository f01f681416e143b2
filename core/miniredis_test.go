//go:build !race

// What runs here is miniredis: make test runs it without the race detector, which looks on while the other stores keep the laws.

package core_test

import (
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core"
)

// Programs that use a limiter are tested with miniredis, whose Lua is another one. Every script has to run there.
func TestMiniredisKeepsTheLaws(t *testing.T) {
	server := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1, ContextTimeoutEnabled: true, Dialer: core.Dialer(nil)})
	t.Cleanup(func() { _ = client.Close() })
	fewer(t, 30, func(t *testing.T, now func() time.Time) core.Store {
		t.Helper()
		return core.NewRedis(client, core.WithClock(now), core.WithPrefix(t.Name()), core.WithBudget(time.Minute))
	})
}
