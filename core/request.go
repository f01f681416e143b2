package core

import (
	"hash/maphash"

	"github.com/weir-go/ratelimit/core/internal/batch"
)

// request is a call, or a list of corrections, in the words of a script: the question of a
// [batch.Call].
type request struct {
	keys      []any // strings
	arguments []any // for each check its phrase and its cost, of a correction some more
	of        set   // of the algorithms that the script needs
	numbers   int   // expected in the reply
	weight    int   // in checks
	logged    int   // units that a sliding log would have to remember, each time the call is asked
	instant   bool  // the instant of the decision is wanted
	times     int   // how often it is asked
	// alike says that the same request may be asked several times at once: no two of its checks
	// are about one state.
	alike bool
}

// reply is what the script has replied to a request: the answer of a [batch.Call].
type reply struct {
	text string
	at   int64 // the instant of the decision
}

type (
	lane         = batch.Lane[request, reply]
	requestCall  = batch.Call[request, reply]
	requestGroup = batch.Group[request, reply]
)

// empty makes a request ready to be used again.
func (r *request) empty() {
	clear(r.keys)
	clear(r.arguments)
	*r = request{keys: r.keys[:0], arguments: r.arguments[:0]}
}

// weightOf returns what a request that is asked so many times takes of a batch: a sliding log
// writes an instant for each unit.
func weightOf(r *request, times int) int {
	return r.weight + r.logged*times/unitsPerWeight
}

// unitsPerWeight is how many instants of a log weigh as much as a check.
const unitsPerWeight = 100

var seed = maphash.MakeSeed()

// hashOf returns a number that is the same for requests which ask the same, and 0 for one that is
// never asked together with another.
func hashOf(r *request) uint64 {
	if !r.alike {
		return 0
	}
	var hash uint64
	for i := range r.keys {
		const prime = 0x100000001b3                                  // of the FNV hash, so that the order counts
		hash = hash*prime ^ maphash.String(seed, r.keys[i].(string)) //nolint:forcetypeassert // they are strings
	}
	return hash
}

// sameRequests reports whether two requests ask the same.
func sameRequests(a, b *request) bool {
	if !b.alike || len(a.keys) != len(b.keys) || len(a.arguments) != len(b.arguments) {
		return false
	}
	for i := range a.keys {
		if a.keys[i] != b.keys[i] {
			return false
		}
	}
	for i := range a.arguments {
		if a.arguments[i] != b.arguments[i] {
			return false
		}
	}
	return true
}
