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
		name              string
		of                *exact.Spec
		units, cost, want int
	}{
		{"as reserved", leaky, 3, 3, 0},
		{"less", leaky, 3, 1, -2},
		{"more than fits", leaky, 3, 99, 7},
		{"raised", leaky, 0, 3, 3},
		{"forgiven", leaky, 0, -2, -2},
		{"places", places, 2, 0, -2},
	} {
		if got := c.of.Difference(c.units, c.cost); got != c.want {
			t.Errorf("%s: %d events, want %d", c.name, got, c.want)
		}
	}
	all := []exact.Correction{{Events: -2}, {}, {Events: 1}, {Events: 1, Length: 1_000_000}}
	var list call.Corrections
	list.Set(len(all), func(i int) call.Correction { return call.Correction{Correction: all[i], Key: "key", Spec: leaky} })
	if len(list.List) != 2 || list.List[0].Events != -1 || !slices.Equal(list.List[0].Of, []int{0, 1, 2}) || list.List[1].Events != 1 || list.List[1].Length != 1_000_000 {
		t.Errorf("the corrections are %+v", list.List)
	}
	if list.Empty(); len(list.List) > 0 {
		t.Error("they are not empty")
	}
}
