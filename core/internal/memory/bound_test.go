package memory

import (
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/exact"
)

// A store keeps no more pasts than keys. When it has to give them up, nothing of what
// was charged before is given back.
func TestPastsAreBounded(t *testing.T) {
	store := New(Config{MaxKeys: 100, Clock: func() int64 { return 1_800_000_000_000_000 }})
	spec := exact.NewSpec(exact.Params{Algorithm: exact.FixedWindow, Capacity: 10, Events: 10, Period: time.Hour}, nil)
	decide := func(key string, units int) *call.Call {
		t.Helper()
		c := new(call.Call)
		c.Set(1, func(_ int, own *call.Check) { own.Key, own.Spec, own.Units = key, spec, units })
		if _, err := store.Decide(t.Context(), []*call.Call{c}); err != nil {
			t.Fatal(err)
		}
		return c
	}
	before := decide("first", 4)
	for i := range 1000 {
		key := string(rune('a' + i))
		decide(key, 1)
		if err := store.Reset(t.Context(), key, []*exact.Spec{spec}); err != nil {
			t.Fatal(err)
		}
		if n := store.shards[0].pasts.Len(); n > 100 {
			t.Fatalf("%d pasts of at most 100", n)
		}
	}
	after := decide("first", 4)
	for _, test := range []struct {
		charged *call.Call
		want    int
	}{{before, 2}, {after, 6}} {
		if err := store.Settle(t.Context(), call.Reversal(test.charged.Checks)); err != nil {
			t.Fatal(err)
		}
		left := decide("first", 0).Checks[0]
		if got := spec.Remaining(left.Usage); got != test.want {
			t.Errorf("%d of 10 remain, want %d", got, test.want)
		}
	}
}
