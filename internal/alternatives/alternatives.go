// Package alternatives finds the elements of a list that are alternatives of each other, such as the checks of a call and
// the policies of a middleware. A function or reports whether an element is an alternative of the one before it.
package alternatives

import "time"

// End returns the place behind the alternatives of which the element at a place is the first. An element without
// alternatives is the only one.
func End[T any](list []T, first int, or func(*T) bool) int {
	end := first + 1
	for end < len(list) && or(&list[end]) {
		end++
	}
	return end
}

// Of returns the place of the first of the alternatives of the element at a place, which is one of them, and the place
// behind the last.
func Of[T any](list []T, place int, or func(*T) bool) (first, end int) {
	for first = place; or(&list[first]); {
		first--
	}
	return first, End(list, first, or)
}

// Several reports whether the element at a place is one of several alternatives.
func Several[T any](list []T, place int, or func(*T) bool) bool {
	return or(&list[place]) || place+1 < len(list) && or(&list[place+1])
}

// Fitting returns the place of the first of the alternatives from one place up to another that fits: it is the one that
// counts. It returns -1 if none does.
func Fitting(first, end int, fits func(place int) bool) int {
	for place := first; place < end; place++ {
		if fits(place) {
			return place
		}
	}
	return -1
}

// Counting returns the place of the alternative that counts, from one place up to another: the first that fits, or, if
// none does, the one with the shortest wait, of several the first.
func Counting(first, end int, fits func(place int) bool, wait func(place int) time.Duration) int {
	counts := Fitting(first, end, fits)
	if counts < 0 {
		counts = first
		for place := first + 1; place < end; place++ {
			if wait(place) < wait(counts) {
				counts = place
			}
		}
	}
	return counts
}
