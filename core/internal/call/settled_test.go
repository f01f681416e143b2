package call_test

import (
	"slices"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/exact"
)

// A settlement adds what was used beyond the charge, or refunds the rest, up to what can be charged at all.
func TestEventsOfASettlement(t *testing.T) {
	of := func(a exact.Algorithm) *exact.Spec {
		return exact.SpecOf(exact.Params{Algorithm: a, Capacity: 10, Events: 10, Period: time.Second})
	}
	leaky, places := of(exact.Leaky), of(exact.Concurrent)
	for _, c := range []struct {
		name string
		of   call.Settled
		want int
	}{
		{"as reserved", call.Settled{Spec: leaky, Units: 3, Cost: 3}, 0},
		{"less", call.Settled{Spec: leaky, Units: 3, Cost: 1}, -2},
		{"more than fits", call.Settled{Spec: leaky, Units: 3, Cost: 99}, 7},
		{"raised", call.Settled{Spec: leaky, Cost: 3, Raise: true}, 3},
		{"forgiven", call.Settled{Spec: leaky, Cost: -2}, -2},
		{"places", call.Settled{Spec: places, Units: 2}, -2},
	} {
		if got := c.of.Spec.Correction(c.of.Units, c.of.Cost, c.of.At).Events; got != c.want {
			t.Errorf("%s: %d events, want %d", c.name, got, c.want)
		}
	}
	all := []call.Settled{
		{Key: "key", Spec: leaky, Units: 3, Cost: 1},
		{Key: "key", Spec: leaky, Units: 1, Cost: 1},
		{Key: "key", Spec: leaky, Units: 3, Cost: 4},
		{Key: "key", Spec: leaky, Units: 1, BanFor: time.Second, Cost: 9},
	}
	var list call.Corrections
	list.Set(len(all), func(i int) call.Settled { return all[i] })
	if len(list.List) != 2 || list.List[0].Events != -1 || !slices.Equal(list.List[0].Of, []int{0, 1, 2}) || list.List[1].Events != 1 || list.List[1].Length != 1_000_000 {
		t.Errorf("the corrections are %+v", list.List)
	}
	if list.Empty(); len(list.List) > 0 {
		t.Error("they are not empty")
	}
}
