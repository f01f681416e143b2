//go:build !race

// What runs here is Lua: make test runs it without the race detector, which looks on while the other stores keep the laws.

package core_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/redistest"
)

// The laws hold where the server's Lua is 5.4, in which whole numbers are of a type of their own: no script means another number by them.
func TestTheLawsHoldUnderLua54(t *testing.T) {
	server := redistest.Start(t)
	front := redistest.StartLua54(t, server)
	client := server.Client(t, func(o *redis.Options) { o.Addr = front.Addr() })
	open := func(t *testing.T, now func() time.Time) core.Store {
		return core.NewRedis(client, core.WithClock(now), core.WithPrefix(redistest.Prefix(t)), core.WithBudget(time.Minute))
	}
	t.Run("laws", func(t *testing.T) { fewer(t, 30, open) })
	t.Run("places in order", func(t *testing.T) {
		all, prefix := fleet(t, client, 4)
		placesInOrder(t, client, all, prefix, "key")
	})
	if err := open(t, time.Now).Ping(t.Context()); err != nil { // which loads all scripts
		t.Fatal(err)
	}
	if idle := front.Idle(); len(idle) > 0 {
		t.Errorf("these have not run: %q", idle)
	}
}
