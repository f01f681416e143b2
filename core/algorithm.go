package core

import "strings"

// algorithm says how a limit counts.
type algorithm uint8

// The order is that of the bits in a script's set of algorithms.
const (
	none algorithm = iota
	leaky
	shaping
	tokenBucket
	gcra
	fixedWindow
	slidingWindow
	slidingLog
	algorithms // how many there are, none included
)

// described is what is known of each algorithm. Its name is that of its script
// file, and part of every key.
var described = [algorithms]struct {
	name       string
	arithmetic arithmetic
}{
	leaky:         {"leaky", meter{}},
	shaping:       {"shaping", meter{absolute: true}},
	tokenBucket:   {"token-bucket", meter{}},
	gcra:          {"gcra", meter{absolute: true}},
	fixedWindow:   {"fixed-window", fixed{}},
	slidingWindow: {"sliding-window", sliding{}},
	slidingLog:    {"sliding-log", logged{}},
}

func (a algorithm) String() string         { return described[a].name }
func (a algorithm) arithmetic() arithmetic { return described[a].arithmetic }

// windowed reports whether the limit is written as a number per window rather
// than a capacity and a rate.
func (a algorithm) windowed() bool { return a >= fixedWindow }

func algorithmNamed(name string) (algorithm, bool) {
	for a := none + 1; a < algorithms; a++ {
		if described[a].name == name {
			return a, true
		}
	}
	return none, false
}

func algorithmNames() string {
	names := make([]string, 0, algorithms-1)
	for _, d := range described[none+1:] {
		names = append(names, d.name)
	}
	return strings.Join(names, ", ")
}

// arithmetic is what an algorithm's file supplies: pure functions of numbers.
// They are the reference for the Lua scripts, which do the same up to usage;
// everything that follows from a usage is computed here alone, whichever store
// observed it.
//
// Instants are microseconds since 1970 and waits are microseconds. Costs are
// events, between 0 and the capacity.
type arithmetic interface {
	// units returns the whole numbers in which a limit counts, or the reason why
	// they cannot be counted exactly.
	units(capacity int, rate Rate) (units, error)

	// observe returns what a state has used of a limit at an instant, and whether
	// the state could not be, and should be written back as it was understood: it
	// is from the future, or was left by other numbers of a named limit. cost is
	// what the question asks, for the sake of the log.
	observe(l *Limit, s *state, now int64, cost int) (u usage, repair bool)
	// store writes the state of a usage, with cost events charged, as of now: all of it
	// but the limit.
	store(l *Limit, s *state, u usage, now int64, cost int)

	// settle carries out a correction and reports whether that changed anything. The
	// limit is the one that was charged; the state may have other numbers.
	settle(l *Limit, s *state, now int64, c *correction) (changed bool)

	// fits reports whether cost events, at least one, may pass.
	fits(l *Limit, u usage, cost int) bool
	// wait returns how long it takes until cost events fit that do not fit now.
	wait(l *Limit, u usage, cost int) int64
	// charged returns the usage after cost events that fit.
	charged(l *Limit, u usage, cost int) usage
	// remaining returns how many whole events still fit.
	remaining(l *Limit, u usage) int
	// next returns the wait until more than what remains fits, when something is used.
	next(l *Limit, u usage, remaining int) int64
	// reset returns the wait until nothing is used.
	reset(l *Limit, u usage) int64
}

// usage is what a key has used of a limit at one instant, before the charge of
// the question that observes it. A script replies with these numbers, in this
// order; each algorithm uses as many of them as it needs, and says what they mean. (Go
// passes a structure of four in registers, and an array in memory.)
type usage struct{ used, second, third, fourth int64 }
