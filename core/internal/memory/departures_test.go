package memory

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Departures are a heap, whichever entries come, go and change: the first one is due soonest, and each entry knows its place.
func TestDeparturesAreAHeap(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	var leaving departures
	var all []*entry
	for range 20_000 {
		switch n := len(all); {
		case n == 0 || n < 200 && random.IntN(3) == 0:
			e := &entry{full: random.Int64N(100)}
			all, leaving = append(all, e), append(leaving, departure{})
			leaving.put(e, n)
		case random.IntN(2) == 0:
			e := all[random.IntN(n)]
			e.full = random.Int64N(100)
			leaving.put(e, e.place)
		default:
			at := random.IntN(n)
			leaving.remove(all[at].place)
			all = slices.Delete(all, at, at+1)
		}
		if len(leaving) != len(all) {
			t.Fatalf("%d departures of %d entries", len(leaving), len(all))
		}
		for i, d := range leaving {
			if d.entry.place != i || d.due != d.entry.due || d.due != d.entry.full || i > 0 && leaving[(i-1)/children].due > d.due {
				t.Fatalf("%d of %d: due at %d, %+v", i, len(leaving), d.due, d.entry)
			}
		}
		for _, e := range all {
			if leaving[e.place].entry != e {
				t.Fatalf("another entry stands in place of %+v", e)
			}
		}
	}
}
