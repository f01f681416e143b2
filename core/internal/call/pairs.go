package call

import (
	"slices"

	"github.com/weir-go/ratelimit/core/internal/exact"
)

// fewToCompare is how many checks are compared with each other; more of them are looked up.
const fewToCompare = 16

// pairs calls a function for each two checks about one state, until it returns false: for each check with those before it,
// in their order. Its time grows with the checks and these pairs.
func pairs(checks []Check, pair func(earlier, later int) bool) {
	if len(checks) > fewToCompare {
		Pairs(len(checks), func(i int) exact.Key { return exact.Key{Subject: checks[i].Key, Identity: checks[i].Spec.Identity()} }, pair)
		return
	}
	for later := range checks {
		for earlier := range later {
			if SameState(&checks[earlier], &checks[later]) && !pair(earlier, later) {
				return
			}
		}
	}
}

// Pairs calls pair for each two of n things with equal states; state returns the state of the thing at a place.
func Pairs(n int, state func(place int) exact.Key, pair func(earlier, later int) bool) {
	latest := make(map[exact.Key]int, n) // the latest place of a state
	before := make([]int, n)             // the place before it of the same state, or -1
	var chain []int
	for later := range n {
		of := state(later)
		place, known := latest[of]
		latest[of], before[later] = later, -1
		if !known {
			continue
		}
		before[later] = place
		chain = chain[:0]
		for ; place >= 0; place = before[place] {
			chain = append(chain, place)
		}
		for _, earlier := range slices.Backward(chain) {
			if !pair(earlier, later) {
				return
			}
		}
	}
}
