package core

import "testing"

// Both functions are called, the first one first, and a function that is nil is left out.
func TestBothAreCalled(t *testing.T) {
	for _, given := range []struct{ first, second bool }{{false, false}, {true, false}, {false, true}, {true, true}} {
		want := ""
		if given.first {
			want += "1"
		}
		if given.second {
			want += "2"
		}
		for n := range 3 {
			called := ""
			call := func(name string) func() { return func() { called += name } }
			one, two := call("1"), call("2")
			switch n {
			case 0:
				run(given.first, given.second, one, two, both0, func(f func()) { f() })
			case 1:
				run(given.first, given.second, func(int) { one() }, func(int) { two() }, both1, func(f func(int)) { f(1) })
			case 2:
				run(given.first, given.second, func(int, string) { one() }, func(int, string) { two() }, both2, func(f func(int, string)) { f(1, "a") })
			}
			if called != want {
				t.Errorf("%d values, %+v: %q were called, want %q", n, given, called, want)
			}
		}
	}
}

// run calls both of two functions that are given, or fails by a nil function that should not be one.
func run[F any](first, second bool, one, two F, both func(F, F) F, call func(F)) {
	var none F
	if !first {
		one = none
	}
	if !second {
		two = none
	}
	if joined := both(one, two); first || second {
		call(joined)
	}
}
