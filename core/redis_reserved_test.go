package core_test

import (
	"sync"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/redistest"
)

// The open reservations of a key live until the last of them has ended, in whatever order they come, alone or
// in one batch, and hardly longer.
func TestOpenReservationsLiveUntilTheLastEnds(t *testing.T) {
	client := redistest.Shared(t).Client(t)
	prefix := redistest.Prefix(t)
	limiter := core.New(core.NewRedis(client, core.WithPrefix(prefix), core.WithBudget(patient)))
	limit := core.Leaky(10_000, core.PerSecond(1000))
	reserve := func(lasts time.Duration) {
		r, err := limiter.Reserve(t.Context(), core.Check{Key: "key", Limit: limit, ReserveFor: lasts})
		if err != nil || !r.Allowed() {
			t.Error(r, err)
		}
	}
	lives := func(want time.Duration) {
		t.Helper()
		keys := keysOf(t, client, prefix+":*=reserved")
		if len(keys) != 1 {
			t.Fatalf("there are the keys %q, want one", keys)
		}
		if ttl := client.PTTL(t.Context(), keys[0]).Val(); ttl < want-10*time.Second || ttl > want+3*time.Second {
			t.Errorf("they live for %v, want %v", ttl, want)
		}
	}
	reserve(time.Minute)
	lives(time.Minute)
	reserve(time.Hour)
	lives(time.Hour)
	reserve(time.Minute)
	lives(time.Hour)
	for longest := 2 * time.Hour; longest < 20*time.Hour; longest += time.Hour {
		var together sync.WaitGroup
		for i := range 12 {
			together.Go(func() { reserve(longest - time.Duration((i+5)%12)*time.Minute) })
		}
		together.Wait()
		lives(longest)
	}
}

// What reservations were charged that are made in one batch is noted of each: they are settled as open ones,
// and leave nothing behind.
func TestReservationsOfABatchAreNotedEach(t *testing.T) {
	client := redistest.Shared(t).Client(t)
	limiter := core.New(core.NewRedis(client, core.WithPrefix(redistest.Prefix(t)), core.WithBudget(patient)))
	limit := core.FixedWindow(1000, time.Hour)
	for range 10 {
		var together sync.WaitGroup
		reservations := make([]*core.Reservation, 12)
		for i := range reservations {
			together.Go(func() {
				r, err := limiter.Reserve(t.Context(), core.Check{Key: "key", Limit: limit, Cost: 1 + i%3, ReserveFor: time.Minute})
				if err != nil || !r.Allowed() {
					t.Error(r, err)
				}
				reservations[i] = r
			})
		}
		together.Wait()
		for _, r := range reservations {
			if err := r.Cancel(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if d, err := limiter.Peek(t.Context(), "key", limit); err != nil || d.Remaining != 1000 {
			t.Fatalf("%d are left, want 1000: %v", d.Remaining, err)
		}
	}
}

// A denied reservation leaves nothing to give back, though it writes the state that smaller numbers have cut.
func TestDeniedReservationIsNotNoted(t *testing.T) {
	client := redistest.Shared(t).Client(t)
	prefix := redistest.Prefix(t)
	limiter := core.New(core.NewRedis(client, core.WithPrefix(prefix), core.WithBudget(patient)))
	limit := func(n int) core.Quota { return core.FixedWindow(n, time.Hour).Named("plan") }
	if d, err := limiter.AllowN(t.Context(), "key", limit(10), 8); err != nil || !d.Allowed {
		t.Fatal(d, err)
	}
	r, err := limiter.Reserve(t.Context(), core.Check{Key: "key", Limit: limit(5), ReserveFor: time.Minute})
	if err != nil || r.Allowed() {
		t.Fatal(r, err)
	}
	onlyKey(t, client, prefix)
}
