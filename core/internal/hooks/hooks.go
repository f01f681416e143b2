// Package hooks joins functions that are called when something happens, and contains their panics. Each of them may be
// nil.
package hooks

// Contain0 returns a function that calls one, and tells report the cause of a panic of it. It is nil if the function is.
func Contain0(hook func(), report func(cause any)) func() {
	if hook == nil {
		return nil
	}
	return func() {
		defer contain(report)
		hook()
	}
}

// Contain1 is [Contain0] for functions of one value.
func Contain1[A any](hook func(A), report func(cause any)) func(A) {
	if hook == nil {
		return nil
	}
	return func(a A) {
		defer contain(report)
		hook(a)
	}
}

// Contain2 is [Contain0] for functions of two values.
func Contain2[A, B any](hook func(A, B), report func(cause any)) func(A, B) {
	if hook == nil {
		return nil
	}
	return func(a A, b B) {
		defer contain(report)
		hook(a, b)
	}
}

// contain is deferred around a hook.
func contain(report func(cause any)) {
	if cause := recover(); cause != nil {
		report(cause)
	}
}

// Both0 returns a function that calls two, the second one also if the first one panics. Either may be nil. It is nil if
// both are.
func Both0(first, second func()) func() {
	switch {
	case first == nil:
		return second
	case second == nil:
		return first
	}
	return func() {
		defer second()
		first()
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
		defer second(a)
		first(a)
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
		defer second(a, b)
		first(a, b)
	}
}
