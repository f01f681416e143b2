//go:build !race

// A lease without tolerance asks the store below, whatever that is: TestLeaseWithoutToleranceKeepsTheLaws has the race detector look at it over
// memory, and make test runs these without, which takes five times as long.

package core_test

import (
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/core/denialcache"
	"github.com/weir-go/ratelimit/core/storetest"
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
