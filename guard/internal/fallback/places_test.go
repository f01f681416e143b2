package fallback

import (
	"testing"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"

	"github.com/weir-go/ratelimit/core"
)

// What the store has said of places is out of date when it fails: this process starts with its share of them.
func TestFallbackStartsWithFreePlaces(t *testing.T) {
	f := New(2, 100)
	limit := core.Concurrent(4, time.Minute)
	check := core.Check{Key: "a", Limit: limit, Cost: 1}
	f.Observe([]core.Check{check}, []core.Decision{{Allowed: true, Limit: limit, ResetAfter: time.Hour}})
	var held []*core.Reservation
	for i, want := range []bool{true, true, false} {
		r, err := f.Reserve(t.Context(), check)
		if err != nil || r.Allowed() != want {
			t.Fatalf("place %d: %v, %v", i, r, err)
		}
		held = append(held, r)
	}
	if err := held[0].Cancel(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r, err := f.Reserve(t.Context(), check); err != nil || !r.Allowed() {
		t.Errorf("a place that was given back: %v, %v", r, err)
	}
}

// A place of this process's is renewed while it is there, and lost when it was taken away.
func TestFallbackTellsOfLostPlaces(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		f := New(2, 100)
		limit := core.Concurrent(4, time.Minute)
		r, err := f.Reserve(t.Context(), core.Check{Key: "a", Limit: limit})
		if err != nil || !r.Allowed() {
			t.Fatal(r, err)
		}
		permit := r.Permit(t.Context())
		defer permit.Release()
		time.Sleep(time.Hour)
		if permit.Err() != nil {
			t.Fatalf("lost after many leases: %v", permit.Err())
		}
		if err := f.own.Reset(t.Context(), "a", limit.Share(2)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute / 2)
		if permit.Err() == nil {
			t.Error("the place was taken away, and the permit goes on")
		}
	})
}
