package core

// The functions of this file join hooks, and contain their panics. Each hook may be nil.

// contain0 returns a function that calls one, and tells report the cause of a panic of it. It is nil if the function is.
func contain0(hook func(), report func(cause any)) func() {
	if hook == nil {
		return nil
	}
	return func() {
		defer contain(report)
		hook()
	}
}

// contain1 is [contain0] for functions of one value.
func contain1[A any](hook func(A), report func(cause any)) func(A) {
	if hook == nil {
		return nil
	}
	return func(a A) {
		defer contain(report)
		hook(a)
	}
}

// contain2 is [contain0] for functions of two values.
func contain2[A, B any](hook func(A, B), report func(cause any)) func(A, B) {
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

// both0 returns a function that calls two, the second one also if the first one panics. Either may be nil. It is nil if
// both are.
func both0(first, second func()) func() {
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

// both1 is [both0] for functions of one value.
func both1[A any](first, second func(A)) func(A) {
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

// both2 is [both0] for functions of two values.
func both2[A, B any](first, second func(A, B)) func(A, B) {
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
