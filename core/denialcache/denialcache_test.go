package denialcache_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/core/denialcache"
)

// counting counts the calls that a store is asked.
type counting struct {
	core.Store

	asked int
}

func (c *counting) Decide(ctx context.Context, calls []core.Call) (int, error) {
	c.asked++
	return c.Store.Decide(ctx, calls)
}

// What was denied is denied again without the store, whatever the key, until there is no room for more denials.
func TestDenialsAreRemembered(t *testing.T) {
	store := &counting{Store: core.NewMemory()}
	limiter, limit := core.New(denialcache.New(store, 8)), core.Leaky(1, core.PerHour(1))
	ask := func(key string, want bool) {
		t.Helper()
		if d, err := limiter.Allow(t.Context(), key, limit); err != nil || d.Allowed != want {
			t.Fatal(d, err)
		}
	}
	keys := make([]string, 4)
	for i := range keys {
		keys[i] = fmt.Sprint("key", i)
		ask(keys[i], true)
		ask(keys[i], false)
	}
	asked := store.asked
	for range 3 {
		for _, key := range keys {
			ask(key, false)
		}
	}
	if store.asked != asked {
		t.Errorf("the store was asked %d times about what it had denied", store.asked-asked)
	}
	for i := range 1000 {
		key := fmt.Sprint("other", i)
		ask(key, true)
		ask(key, false)
	}
	asked = store.asked
	for i := range 1000 {
		ask(fmt.Sprint("other", i), false)
	}
	if repeated := 1000 - (store.asked - asked); repeated > 16 { // those that are remembered meanwhile among them
		t.Errorf("%d denials were repeated by a cache of 8", repeated)
	}
	if err := limiter.Reset(t.Context(), keys[0], limit); err != nil {
		t.Fatal(err)
	}
	ask(keys[0], true)
}
