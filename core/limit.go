package core

import (
	"fmt"
	"math/bits"
	"time"
)

// Limit is an algorithm with its numbers: an immutable, comparable value, made
// by [Leaky], [Shaping], [TokenBucket], [GCRA], [FixedWindow], [SlidingWindow],
// [SlidingLog] or [ParseLimit].
//
// The constructors never fail; a limit that makes no sense is reported by
// Validate, and by every verb that is asked about it. The zero Limit is not valid;
// to limit nobody, say [Unlimited].
//
// A limit's state belongs to a key and to the limit's identity. The identity of
// an unnamed limit is its algorithm and numbers, so two limits with the same
// numbers, asked about the same key, are one limit wherever they stand. The
// identity of a named limit is its name and algorithm alone.
type Limit struct {
	*rule // the same one in all equal limits; nil in the zero Limit
}

// units are the whole numbers in which a limit counts.
type units struct {
	tick     int64 // microseconds in a tick of this limit's clock: 1 or 1000
	weight   int64 // units that one event weighs; 1 for windows
	drain    int64 // units that drain each tick; 0 for windows
	capacity int64 // units when full: events times weight
	window   int64 // ticks in a window; 0 for meters
}

const (
	// most is the largest whole number that every script handles exactly.
	most = 1<<53 - 1
	// longest bounds windows and the time a meter takes to recover, so that
	// instants stay below most microseconds.
	longest = 100 * 365 * 24 * time.Hour
	// mostLogged bounds a sliding log, which remembers every unit it admits.
	mostLogged = 1_000_000
	// longestName bounds the name of a limit, which becomes part of a key and of
	// a header.
	longestName = 64
)

// Named returns the limit under a name of its own. It then keeps its state when
// its numbers change: a client who has used 7 of 10 has used 7 of 20 after an
// upgrade, and a change of rate counts from that moment on.
//
// A name starts with a letter or '*' and goes on with letters, digits and
// !#$%&'*+.^_`|~:/- so that it can stand in a header field as it is. It is at
// most 64 bytes long. The empty name makes the limit unnamed again. Names that begin
// with "weir-" are this package's own, and not valid: see [Limiter.HoldBack].
func (l Limit) Named(name string) Limit {
	if l == Unlimited {
		return l
	}
	d := l.known().definition
	d.name = name
	return Limit{ruleOf(d)}
}

// Name returns the limit's given name, or one derived from its algorithm and
// numbers, such as "leaky:10:1/s". A derived name, too, can stand in a header
// field as it is.
func (l Limit) Name() string {
	r := l.known()
	if r.name != "" {
		return r.name
	}
	return string(r.appendDerivedName(nil))
}

// Given reports whether the limit's name was given by [Limit.Named].
func (l Limit) Given() bool { return l.known().name != "" && l != Unlimited }

// Same reports whether two limits have one identity, and so share the state of a
// key: the same algorithm and given name, or where they have no name the same
// numbers.
func (l Limit) Same(other Limit) bool { return l.known().identity() == other.known().identity() }

// Algorithm returns the name of the limit's algorithm, as in its String: one of
// "leaky", "shaping", "token-bucket", "gcra", "fixed-window", "sliding-window"
// and "sliding-log", or "" for the zero Limit and [Unlimited].
func (l Limit) Algorithm() string { return l.known().algorithm.String() }

// Capacity returns how many units pass at once when the limit is fresh: [math.MaxInt] under
// [Unlimited].
func (l Limit) Capacity() int { return l.known().capacity }

// Rate returns the pace of the limit: the drain or refill of a bucket, or
// capacity per window. That of [Unlimited] is the zero Rate.
func (l Limit) Rate() Rate { return l.known().rate }

// Validate returns nil if the limit can be asked, and otherwise the reason why
// it cannot.
func (l Limit) Validate() error { return l.known().problem }

// newLimit returns a limit. Nothing is reported here: the constructors are used in
// package-level variables and in literals.
func newLimit(a algorithm, capacity int, rate Rate) Limit {
	return Limit{ruleOf(definition{algorithm: a, capacity: capacity, rate: rate})}
}

// checkName reports whether a given name is both a Token and a String of
// RFC 9651, as the RateLimit header fields of today and tomorrow need it.
func checkName(name string) error {
	if len(name) > longestName {
		return fmt.Errorf("core: limit name of %d bytes is longer than %d", len(name), longestName)
	}
	for i := range len(name) {
		if c := name[i]; !isNameByte(c) || i == 0 && !isLetter(c) && c != '*' {
			return fmt.Errorf("core: limit name %q has %q at byte %d: use a letter first, then letters, digits and !#$%%&'*+.^_`|~:/-", name, c, i)
		}
	}
	return nil
}

func isLetter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }

func isNameByte(c byte) bool {
	if isLetter(c) || '0' <= c && c <= '9' {
		return true
	}
	switch c {
	case '!', '#', '$', '%', '&', '\'', '*', '+', '.', '^', '_', '`', '|', '~', ':', '/', '-':
		return true
	}
	return false
}

// multiply returns a·b, or false if the product exceeds most.
func multiply(a, b int64) (int64, bool) {
	high, low := bits.Mul64(uint64(a), uint64(b))
	return int64(low), high == 0 && low <= most
}

// ticks returns how many whole ticks an instant is from 1970. Nearly every tick is one
// microsecond, and divisions are slow.
func (u *units) ticks(microseconds int64) int64 {
	if u.tick == 1 {
		return microseconds
	}
	return microseconds / u.tick
}

// divideUp returns a/b rounded up.
func divideUp(a, b int64) int64 {
	if b == 1 { // as often as not, and divisions are slow
		return a
	}
	return (a + b - 1) / b
}

func greatestCommonDivisor(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
