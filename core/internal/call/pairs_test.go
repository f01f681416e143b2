package call

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core/internal/exact"
	"github.com/weir-go/ratelimit/internal/repeatable"
)

// Many checks are paired as few are, and in the same order: each with those before it that are about its state.
func TestManyChecksArePairedAsFewAre(t *testing.T) {
	random := repeatable.Random(t)
	specs := make([]*exact.Spec, 3)
	for i := range specs {
		specs[i] = exact.NewSpec(exact.Params{Algorithm: exact.Leaky, Capacity: i + 1, Events: 1, Period: time.Second}, nil)
	}
	for range 200 {
		checks := make([]Check, random.IntN(60))
		for i := range checks {
			checks[i] = Check{Key: strconv.Itoa(random.IntN(8)), Spec: specs[random.IntN(len(specs))]}
		}
		var want, got [][2]int
		for later := range checks {
			for earlier := range later {
				if SameState(&checks[earlier], &checks[later]) {
					want = append(want, [2]int{earlier, later})
				}
			}
		}
		pairs(checks, func(earlier, later int) bool {
			got = append(got, [2]int{earlier, later})
			return true
		})
		if !slices.Equal(got, want) {
			t.Fatalf("%d checks: the pairs are\n%v, want\n%v", len(checks), got, want)
		}
		if len(want) == 0 {
			continue
		}
		visited := 0
		pairs(checks, func(int, int) bool {
			visited++
			return visited < len(want)/2
		})
		if visited != max(1, len(want)/2) {
			t.Fatalf("%d of %d pairs were visited, want half", visited, len(want))
		}
	}
}
