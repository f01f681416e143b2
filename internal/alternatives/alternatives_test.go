package alternatives_test

import (
	"slices"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/internal/alternatives"
)

// or reports what a list of bools says.
func or(is *bool) bool { return *is }

// Alternatives stand behind the first of them.
func TestAlternativesOfAList(t *testing.T) {
	list := []bool{false, false, true, true, false}
	type of struct {
		first, end int
		several    bool
	}
	want := []of{{0, 1, false}, {1, 4, true}, {1, 4, true}, {1, 4, true}, {4, 5, false}}
	var got []of
	for place := range list {
		first, end := alternatives.Of(list, place, or)
		got = append(got, of{first, end, alternatives.Several(list, place, or)})
		if own := alternatives.End(list, first, or); own != end {
			t.Errorf("the alternatives from %d on end at %d, want %d", first, own, end)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("the alternatives are %v, want %v", got, want)
	}
}

// The first alternative that fits counts.
func TestTheFirstThatFitsCounts(t *testing.T) {
	fits := []bool{true, false, true, true}
	at := func(place int) bool { return fits[place] }
	for _, c := range []struct{ first, end, want int }{{1, 4, 2}, {0, 4, 0}, {1, 2, -1}} {
		if got := alternatives.Fitting(c.first, c.end, at); got != c.want {
			t.Errorf("of %d to %d, %d counts, want %d", c.first, c.end, got, c.want)
		}
	}
}

// The first that fits counts, or else the first of those that wait least.
func TestOneOfTheAlternativesCounts(t *testing.T) {
	waits := []time.Duration{9, 4, 7, 4}
	for want, fits := range map[int]int{1: -1, 2: 2, 3: 3} {
		got := alternatives.Counting(0, len(waits), func(i int) bool { return i == fits }, func(i int) time.Duration { return waits[i] })
		if got != want {
			t.Errorf("%d counts where %d fits, want %d", got, fits, want)
		}
	}
}
