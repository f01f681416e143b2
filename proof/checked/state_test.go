package checked

import (
	"fmt"
	"strings"
)

const (
	most   = 3 // holders
	margin = 1 // ticks by which a holder gives up early
	start  = 1 // the instant at which the store's clock begins
)

// phase is how far a holder has come.
type phase int8

const (
	fresh     phase = iota // has not asked yet
	acquiring              // has sent its acquire
	holding                // has been told that it holds a place
	gone                   // has released, was denied, or has lost its place
	crashed                // its process is dead
)

// Messages of a holder that are in flight: requests to the store, and replies to renewals.
const (
	acquireSent  uint16 = 1 << iota
	acquireAgain        // only with duplicates: the same acquire once more
	renewSent           // the newest renewal
	olderSent           // a renewal that was given up for a newer one
	releaseSent
	renewed      // reply to the newest renewal: its expiry has moved
	olderRenewed // reply to an older renewal
	notHeld      // reply to the newest renewal: no longer a member
	counted      // only with the fault twoSteps: the store has counted, and will add
)

// reply is the store's answer to an acquire, on its way.
type reply struct {
	there   bool
	granted bool
	token   int8
	turn    int8 // the grant's place in the order of all grants
}

// holder is what a holder remembers, and what is in flight from and to it.
type holder struct {
	phase  phase
	flight uint16
	reply  reply
	age    int8 // ticks on its clock since the last successful request was sent; at most a lease
	wait   int8 // the same since the newest renewal was sent; -1 without one
	token  int8
	turn   int8
	begun  bool // has looked at its belief, and goes to the resource
	since  int8 // for the laws: ticks on the store's clock since the store granted or renewed; at most a lease
}

// store is what Redis keeps of the key.
type store struct {
	expiry [most]int8 // on the store's clock; 0 is no member
	last   int8       // the last token
}

// state is all that is remembered. It is comparable: the search keeps those that it has visited.
type state struct {
	holder  [most]holder
	store   store
	replica store
	now     int8    // the store's clock
	ticks   int8    // how much time has passed in truth
	n       int8    // places
	slip    [2]int8 // ticks since the clock of a process has missed one; at most a lease
	fence   int8    // the largest token that the resource has seen
	// For the laws:
	turns   int8 // grants so far
	newest  int8 // the largest token granted
	served  int8 // the latest turn that the resource has accepted
	steps   int8 // clock steps so far
	fails   int8 // failovers so far
	shrinks int8
}

// lives says whether the store has h as a member whose lease has not expired.
func (s *state) lives(h int) bool { return s.store.expiry[h] > s.now }

// living counts the members whose lease has not expired.
func (s *state) living() int {
	count := 0
	for h := range most {
		if s.lives(h) {
			count++
		}
	}
	return count
}

// believes says whether h takes itself for a holder: by its own clock the last request that
// succeeded was sent less than a lease ago, with the margin.
func (s *state) believes(w *world, h int) bool {
	return s.holder[h].phase == holding && s.holder[h].age < w.deadline()
}

// believing counts those who believe.
func (s *state) believing(w *world) int {
	count := 0
	for h := range w.holders {
		if s.believes(w, h) {
			count++
		}
	}
	return count
}

// String tells a state in a line.
func (s state) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "clock %d; in the store:", s.now)
	none := true
	for h, expiry := range s.store.expiry {
		if expiry != 0 {
			fmt.Fprintf(&b, " %s until %d", name(h), expiry)
			none = false
		}
	}
	if none {
		b.WriteString(" nobody")
	}
	for h, x := range s.holder {
		if x.phase == holding {
			fmt.Fprintf(&b, "; %s counts its lease since %d ticks", name(h), x.age)
			if x.token > 0 {
				fmt.Fprintf(&b, ", with token %d", x.token)
			}
		}
	}
	return b.String()
}

// name is what the traces call a holder.
func name(h int) string { return string(rune('A' + h)) }

// process is the process of a holder: A and B share one, C is in the other. Where there are two
// holders, each has its own.
func (w *world) process(h int) int {
	if w.holders == 2 {
		return h
	}
	return h / 2
}
