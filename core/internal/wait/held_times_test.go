package wait

import (
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core/internal/exact"
)

func concurrent(n int) *exact.Spec {
	return exact.SpecOf(exact.Params{Algorithm: exact.Concurrent, Capacity: n, Events: n, Period: time.Minute})
}

// The median is that of the latest times of the limit alone.
func TestTheMedianIsOfTheLatestTimes(t *testing.T) {
	var h HeldTimes
	if _, known := h.Median(concurrent(1)); known {
		t.Error("a time is known that nobody has noted")
	}
	for range 100 {
		h.Note(concurrent(1), time.Hour)
		h.Note(concurrent(2), time.Hour)
	}
	for i := range 31 {
		h.Note(concurrent(1), time.Duration(31-i)*time.Second)
	}
	if got, known := h.Median(concurrent(1)); !known || got != 16*time.Second {
		t.Errorf("%v, %t, want 16s", got, known)
	}
	if got, known := h.Median(concurrent(2)); !known || got != time.Hour {
		t.Errorf("%v, %t of another limit, want 1h", got, known)
	}
}

// Ever new limits take a bounded amount of memory.
func TestTheTimesOfSoManyLimitsAreNoted(t *testing.T) {
	var h HeldTimes
	kept := make([]*exact.Spec, 0, mostTimed+1)
	for i := range mostTimed + 1 {
		kept = append(kept, concurrent(i+1))
		h.Note(kept[i], time.Second)
	}
	_, first := h.Median(kept[0])
	_, last := h.Median(kept[mostTimed])
	if !first || last {
		t.Errorf("the first is known: %t, the last: %t, want the first alone", first, last)
	}
}

// A limit whose first time is just being noted has none yet.
func TestNoTimeIsKnownUntilOneIsNoted(t *testing.T) {
	var h HeldTimes
	h.of.Store(concurrent(1).Identity(), new(times)) // as Note does before it has the lock
	if got, known := h.Median(concurrent(1)); known {
		t.Errorf("%v is known", got)
	}
}
