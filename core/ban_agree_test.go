package core_test

import (
	"sync/atomic"
	"testing"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/core/storetest"
)

// The Go arithmetic and the Lua make the same bans, which last equally long, alone and among other calls.
func TestStoresAgreeOnBans(t *testing.T) {
	t.Parallel()
	storetest.AgreeOnBans(t, newMemory, newRedis(t), inCompany(newRedis(t, core.WithInFlight(1)), new(atomic.Int64)))
}
