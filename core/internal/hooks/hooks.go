// Package hooks joins functions that are called when something happens. Each of them may be nil.
package hooks

// Both0 returns a function that calls two, of which either may be nil. It is nil if both are.
func Both0(first, second func()) func() {
	switch {
	case first == nil:
		return second
	case second == nil:
		return first
	}
	return func() {
		first()
		second()
	}
}

// Both1 is [Both0] for functions of one value.
func Both1[A any](first, second func(A)) func(A) {
	switch {
	case first == nil:
		return second
	case second == nil:
		return first
	}
	return func(a A) {
		first(a)
		second(a)
	}
}

// Both2 is [Both0] for functions of two values.
func Both2[A, B any](first, second func(A, B)) func(A, B) {
	switch {
	case first == nil:
		return second
	case second == nil:
		return first
	}
	return func(a A, b B) {
		first(a, b)
		second(a, b)
	}
}
