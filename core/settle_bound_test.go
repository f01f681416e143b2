package core

import (
	"testing"
	"time"
)

// A store keeps no more pasts than keys. When it has to give them up, nothing of what
// was charged before is given back.
func TestPastsAreBounded(t *testing.T) {
	now := time.UnixMicro(1_800_000_000_000_000)
	store := NewMemory(WithMaxKeys(100), WithClock(func() time.Time { return now }))
	limiter, limit := New(store), Leaky(10, PerHour(1))
	first := Check{Key: "first", Limit: limit, Cost: 4}
	before, err := limiter.Reserve(t.Context(), first)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		key := string(rune('a' + i))
		if _, err := limiter.Allow(t.Context(), key, limit); err != nil {
			t.Fatal(err)
		}
		if err := limiter.Reset(t.Context(), key, limit); err != nil {
			t.Fatal(err)
		}
		if n := store.shards[0].pasts.Len(); n > 100 {
			t.Fatalf("%d pasts of at most 100", n)
		}
	}
	after, err := limiter.Reserve(t.Context(), first)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		reservation *Reservation
		want        int
	}{{before, 2}, {after, 6}} {
		if err := test.reservation.Cancel(t.Context()); err != nil {
			t.Fatal(err)
		}
		d, err := limiter.AllowN(t.Context(), "first", limit, 0)
		if err != nil {
			t.Fatal(err)
		}
		if d.Remaining != test.want {
			t.Errorf("%d of 10 remain, want %d", d.Remaining, test.want)
		}
	}
}
