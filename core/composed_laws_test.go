//go:build !race

// The laws of stores around others. TestLeaseWithoutToleranceKeepsTheLaws and TestDenialCacheKeepsTheLaws run the same stores over memory under
// the race detector. With it, these tests take several times as long: make test runs them without.

package core_test

import (
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/core/denialcache"
	"github.com/weir-go/ratelimit/core/storetest"
	"github.com/weir-go/ratelimit/internal/redistest"
)

// A lease without tolerance is decision for decision the store below.
func TestLeaseWithoutToleranceKeepsTheLawsOnEveryStore(t *testing.T) {
	for name, newStore := range map[string]storetest.Factory{
		"redis": newRedis(t),
		"table": func(_ *testing.T, now func() time.Time) core.Store { return core.NewTableStore(newTable(now)) },
		"denial cache": func(t *testing.T, now func() time.Time) core.Store {
			return denialcache.New(newMemory(t, now), 1000, core.WithClock(now))
		},
	} {
		t.Run(name, func(t *testing.T) { fewer(t, 30, unleased(newStore)) })
	}
}

// The laws hold for answers that are repeated from memory in a cluster.
func TestDenialCacheKeepsTheLawsInACluster(t *testing.T) {
	client := redistest.SharedCluster(t).Client(t)
	fewer(t, 15, func(t *testing.T, now func() time.Time) core.Store {
		store := core.NewRedis(client, core.WithClock(now), core.WithPrefix(redistest.Prefix(t)), core.WithBudget(time.Minute))
		return denialcache.New(store, 1000, core.WithClock(now))
	})
}
