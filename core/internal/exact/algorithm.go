package exact

import (
	"iter"
	"strings"
)

// Algorithm says how a limit counts.
type Algorithm uint8

// The algorithms. The zero value is none of them.
const (
	None Algorithm = iota
	Leaky
	Shaping
	TokenBucket
	GCRA
	FixedWindow
	SlidingWindow
	SlidingLog
	Concurrent
	Ban
	Calendar
	FairShare
	Balance
	end
)

// Kind tells the limits apart that answer different questions.
type Kind uint8

// The kinds.
const (
	// Quota counts units over time.
	Quota Kind = iota
	// Places are taken and given back: the algorithm keeps a [Holder] for each.
	Places
	// Bans keep keys out: the events are strikes, and strikes begin a ban. See [BanTerms].
	Bans
)

// Count is how many algorithms there are. They are numbered from 1 to Count.
const Count = int(end) - 1

// table has the properties of each algorithm for code outside of its own files.
var table = [end]struct {
	name       string
	arithmetic arithmetic
	observed   int    // how many numbers of a Usage it needs
	next       string // the event after which Remaining grows
	windowed   bool   // it counts events per window; otherwise it is a meter
	delays     bool   // it delays the events that it admits
	logs       bool   // it keeps an instant for each event that it admits
	kind       Kind   // see Kind
	dated      bool   // a calendar cuts its windows
	estimates  bool   // after a named limit's numbers have changed, a wait is an estimate
	grants     Grants // how units may be granted ahead of time
	load       int    // how many checks of a bucket take a script as long as one of its checks; 0: one
	shared     bool   // tenants may have shares of its limits: see fair
	prepaid    bool   // its units never come back by themselves
	owes       bool   // settlements may use more than the capacity: see Params.Debt
	unreserved string // why a charge cannot be given back by itself after a time; "": it can
}{
	Leaky:       {name: "leaky", arithmetic: meter{}, observed: 1, next: "next drip", grants: Steady, shared: true, owes: true},
	Shaping:     {name: "shaping", arithmetic: meter{absolute: true}, observed: 1, next: "next turn", delays: true, unreserved: "hands turns on"},
	TokenBucket: {name: "token-bucket", arithmetic: meter{}, observed: 1, next: "next token", grants: Steady, shared: true, owes: true},
	GCRA:        {name: "gcra", arithmetic: meter{absolute: true, forgets: true}, observed: 1, next: "next", grants: Steady, owes: true},
	FixedWindow: {name: "fixed-window", arithmetic: fixed{}, observed: 2, next: "window ends", windowed: true, grants: Closing, owes: true},
	SlidingWindow: {
		name: "sliding-window", arithmetic: sliding{}, observed: 3, next: "next", windowed: true, estimates: true, grants: Metered,
	},
	SlidingLog: {
		name: "sliding-log", arithmetic: logged{}, observed: 4, next: "next", windowed: true, logs: true, grants: Metered,
		load: 4, // measured: 8.9 µs of Redis where a leaky bucket takes 2.7 and a sliding window 3.3
	},
	Concurrent: {
		name: "concurrent", arithmetic: concurrent{}, observed: 4, next: "next lease ends", windowed: true, kind: Places, unreserved: "has a lease",
	},
	Ban: {name: "ban", arithmetic: ban{}, observed: 4, next: "strike expires", windowed: true, kind: Bans, unreserved: "is a ban"},
	Calendar: {
		name: "calendar", arithmetic: dated{}, observed: 2, next: "window ends", windowed: true, dated: true, grants: Closing, owes: true,
		unreserved: "has windows of a calendar",
	},
	FairShare: {
		name: "fair-share", arithmetic: fair{}, observed: 4, next: "cap drains", unreserved: "is a share of a limit",
		load: 2, // measured: it reads and writes its cap, too
	},
	Balance: {name: "balance", arithmetic: balance{}, observed: 1, next: "topped up", windowed: true, prepaid: true, unreserved: "is prepaid"},
}

// Grants says how units of a limit may be granted ahead of time: see the terms of package lease.
type Grants uint8

// The ways.
const (
	// NotGranted units are charged as they are spent.
	NotGranted Grants = iota
	// Steady units flow at the rate of a meter.
	Steady
	// Closing units are spent in the window that they were charged in.
	Closing
	// Metered units need a meter beside a window that slides.
	Metered
)

// Grants returns how units of a limit may be granted ahead of time.
func (a Algorithm) Grants() Grants { return table[a].grants }

// Unreserved says in some words behind "which" why a charge cannot be given back by itself after a time, or "" if it can.
func (a Algorithm) Unreserved() string { return table[a].unreserved }

// String returns the name of the algorithm, which is part of every key: "token-bucket". With
// underscores it is the name of the script's file. It is "" for None.
func (a Algorithm) String() string { return table[a].name }

// Next names in two words the event after which Remaining grows: "next drip".
func (a Algorithm) Next() string { return table[a].next }

// Windowed reports whether a limit is written as events per window, and counts them, or as places and
// their lease. Otherwise it is a meter: it is written as a capacity and a rate, and its level drains.
func (a Algorithm) Windowed() bool { return table[a].windowed }

// Delays reports whether the algorithm delays the events that it admits: see [Spec.Delay].
func (a Algorithm) Delays() bool { return table[a].delays }

// Logs reports whether the algorithm keeps an instant for each event that it admits, so that its states grow, and tell by
// themselves how much of a charge is left.
func (a Algorithm) Logs() bool { return table[a].logs }

// Kind returns the kind of the limits of the algorithm.
func (a Algorithm) Kind() Kind { return table[a].kind }

// Holds reports whether the algorithm keeps a [Holder] for the places that it grants, until the holder gives them back or
// its lease ends.
func (a Algorithm) Holds() bool { return table[a].kind == Places }

// Bans reports whether the algorithm's events are strikes, which begin a ban: see [BanTerms].
func (a Algorithm) Bans() bool { return table[a].kind == Bans }

// Prepaid reports whether the units of the algorithm never come back by themselves, so that no wait helps: a balance has the ones that it
// was topped up by.
func (a Algorithm) Prepaid() bool { return table[a].prepaid }

// Dated reports whether a calendar cuts the windows of the algorithm, so that a limit has a period in place
// of a length.
func (a Algorithm) Dated() bool { return table[a].dated }

// Lists reports whether the states of the algorithm grow with each event, and so tell by themselves how much of a charge
// is left.
func (a Algorithm) Lists() bool { return table[a].logs || table[a].kind == Places }

// All returns the algorithms, in order.
func All() iter.Seq[Algorithm] {
	return func(yield func(Algorithm) bool) {
		for a := None + 1; a < end; a++ {
			if !yield(a) {
				return
			}
		}
	}
}

// AlgorithmNamed returns the algorithm with a name, and whether there is one.
func AlgorithmNamed(name string) (a Algorithm, ok bool) {
	for a := range All() {
		if table[a].name == name {
			return a, true
		}
	}
	return None, false
}

func algorithmNames() string {
	names := make([]string, 0, Count)
	for a := range All() {
		names = append(names, a.String())
	}
	return strings.Join(names, ", ")
}

// arithmetic is the content of an algorithm's file: pure functions of numbers.
type arithmetic interface {
	counting
	states
	usages
}

// counting is how an algorithm counts in whole numbers.
type counting interface {
	// units returns the whole numbers in which a limit counts, or the reason why
	// they cannot be counted exactly.
	units(p *Params) (Units, error)
	// numbers returns the numbers that a named limit leaves beside its state, so that the state can be understood after
	// the numbers have changed.
	numbers(u *Units) []int64
}

// states reads and writes the states of an algorithm.
type states interface {
	// observe returns the usage of a limit in a state at an instant, and whether the state has to be repaired: it is from
	// the future, or was left by other numbers of a named limit. The log needs the cost, to find out how long the check
	// has to wait.
	observe(s *Spec, st *State, now int64, cost int) (u Usage, repair bool)
	// store writes the state of a usage, with cost events charged, as of now: all of it except the spec. The holder takes
	// the places of an algorithm that holds.
	store(s *Spec, st *State, u Usage, now int64, cost int, h Holder)
	// settle carries out a correction and reports whether it changed the state. The spec is the
	// one that was charged; the state may have other numbers.
	settle(s *Spec, st *State, now int64, c *Correction) (changed bool)
}

// usages are the answers that follow from a usage.
type usages interface {
	// fits reports whether cost events, at least one, may pass.
	fits(s *Spec, u Usage, cost int) bool
	// wait returns how long it takes until cost events fit that do not fit now.
	wait(s *Spec, u Usage, cost int) int64
	// longer returns how much longer a denied cost waits than a smaller one that is denied at the
	// same instant, and whether that follows from the spec alone.
	longer(s *Spec, cost, larger int) (wait int64, known bool)
	// charged returns the usage after cost events that fit.
	charged(s *Spec, u Usage, cost int) Usage
	// left returns how many whole events still fit, the wait until more do, when something is used, and that of reset.
	left(s *Spec, u Usage) (remaining int, next, reset int64)
	// reset returns the wait until nothing is used.
	reset(s *Spec, u Usage) int64
}
