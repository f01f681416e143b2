package core_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/core/denialcache"
)

// A bounded store gives up no key that has places, nor one whose token could come again.
func TestBoundedMemoryKeepsPlaces(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	store := core.NewMemory(core.WithMaxKeys(100), core.WithClock(func() time.Time { return now }))
	limiter, l := core.New(store), core.Concurrent(3, time.Minute)
	check := core.Check{Key: "held", Limit: l}
	held, _ := take(t, store, check)
	rest := core.Check{Key: "token", Limit: l}
	var latest uint64
	for range 5 { // in one microsecond
		one, d := take(t, store, rest)
		latest = d.Token
		if err := store.Settle(t.Context(), []core.Settlement{{Check: one.check, Receipt: one.receipt}}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 1000 {
		if _, err := limiter.Allow(t.Context(), fmt.Sprint("other-", i), core.Leaky(10, core.PerHour(1))); err != nil {
			t.Fatal(err)
		}
	}
	if d, err := limiter.Peek(t.Context(), "held", l); err != nil || d.Remaining != 2 {
		t.Errorf("%+v, %v, want 1 of 3 held", d, err)
	}
	if lost, err := renew(t.Context(), store, held); err != nil || lost[0] {
		t.Errorf("lost %v, %v", lost, err)
	}
	if _, d := take(t, store, rest); d.Token <= latest {
		t.Errorf("token %d after %d", d.Token, latest)
	}

	store = core.NewMemory(core.WithMaxKeys(3), core.WithClock(func() time.Time { return now }))
	for i := range 3 {
		take(t, store, core.Check{Key: fmt.Sprint("places-", i), Limit: l})
	}
	calls := []core.Call{{Checks: []core.Check{{Key: "one too many", Limit: l}}, Decisions: make([]core.Decision, 1)}}
	if _, err := store.Decide(t.Context(), calls); core.FailureOf(err) != "full" {
		t.Errorf("3 keys that have places, and one more: %v", err)
	}
	now = now.Add(2 * time.Minute) // all leases have ended
	if _, err := store.Decide(t.Context(), calls); err != nil {
		t.Errorf("all leases have ended: %v", err)
	}
}

// A cache does not repeat a denial that somebody else ends by giving a place back.
func TestDenialsOfPlacesAreNotRepeated(t *testing.T) {
	store := core.NewMemory()
	repeated := 0
	cache := denialcache.New(store, 10, core.WithTrace(core.Trace{Repeated: func() { repeated++ }}))
	check := core.Check{Key: "key", Limit: core.Concurrent(1, time.Minute)}
	held, _ := take(t, store, check)
	if _, d := take(t, cache, check); d.Allowed {
		t.Fatalf("%+v", d)
	}
	if err := store.Settle(t.Context(), []core.Settlement{{Check: check, Receipt: held.receipt}}); err != nil {
		t.Fatal(err)
	}
	if _, d := take(t, cache, check); !d.Allowed || repeated > 0 {
		t.Errorf("%+v, and %d calls were repeated", d, repeated)
	}
}
