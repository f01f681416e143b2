// Package denials remembers denied checks, and repeats each denial for as long as the answer cannot have
// changed: it says which calls need not be sent to the store.
package denials

import (
	"hash/maphash"
	"math"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/exact"
)

// longestStaleness is how long a denial is repeated at most.
const longestStaleness = 10 * time.Second

// Remember returns a core.Store around another one that remembers its denials in a memory. options are []core.Option, for
// denialcache.New. Package core sets Remember when it is initialized, and its types are any, because core imports this package.
var Remember func(store any, memory Memory, options any) any

// Never is the RetryAfter of a check that no wait can help.
const Never time.Duration = math.MaxInt64

// Denials are the denials that are remembered. [New] makes them, and many goroutines may use them at once.
type Denials struct {
	clock   func() int64
	kept    Memory
	seed    maphash.Seed
	changes [1024]changes // by a hash of key and limit
	dear    atomic.Bool   // there has been a denial that left something for checks that need less
}

// changes counts the events that make denials in flight useless: charges, resets, refunds, and other numbers of a named
// limit.
type changes struct {
	count  atomic.Int64
	latest atomic.Uint64 // a hash of the latest named limit with its numbers, and of its key
}

// Check is a check with a denial that is remembered or repeated. It belongs to one goroutine.
type Check struct {
	// Key is the caller's key.
	Key string
	// Spec is the limit, or the spec under which its shadow checks count.
	Spec *exact.Spec
	// Units is how many units the check asks for, and Headroom how many have to be left.
	Units, Headroom int
	// OfBan says that the limit is that of a ban.
	OfBan bool
	// Condition, OnDenial and Or are those of a [call.Check].
	Condition, OnDenial, Or bool
	// Reserves says that the charge is given back by itself unless it is settled in time.
	Reserves bool

	begun    int64         // the changes that begin has counted
	repeated *Entry        // found by repeat
	retry    time.Duration // the RetryAfter of this check
	gone     time.Duration // by how much the other waits of the denial are shorter now
}

// Repeated returns the answer to a check that [Denials.Look] has found denied.
func (c *Check) Repeated() Denial {
	told := c.repeated.Denial
	told.RetryAfter, told.NextAfter, told.ResetAfter = c.retry, told.NextAfter-c.gone, told.ResetAfter-c.gone
	return told
}

// stateKey returns the key of the check's state.
func (c *Check) stateKey() exact.Key { return call.StateKey(c.Key, c.Spec) }

// need returns how many events have to fit for a check to pass: see [call.Check.Need]. A check that needs as much as a denied one,
// or more, is denied, too.
func (c *Check) need() int {
	most := c.Spec.MostNeeded
	return min(min(c.Units, most)+min(c.Headroom, most), most)
}

// Memory keeps entries by the states of the checks that were denied. It may lose any of them, and many goroutines use it at once.
type Memory interface {
	Get(state exact.Key) (entry *Entry, ok bool)
	Set(state exact.Key, entry *Entry)
	Delete(state exact.Key) (entry *Entry, ok bool)
	Clear()
}

// Denial is the answer to a denied check. It is not changed once it is remembered.
type Denial struct {
	Remaining                         int
	RetryAfter, NextAfter, ResetAfter time.Duration
	Degraded, Estimated               bool
}

// Entry is the remembered denial of a check. It is immutable.
type Entry struct {
	Denial

	spec *exact.Spec
	need int // see Check.need
	// The store has decided at some moment between sent and received, in microseconds of the clock.
	// From repeatable on it may decide otherwise.
	sent, received, repeatable int64
}

// New returns denials that are kept in an empty memory. The clock returns microseconds since 1970, and never
// goes back: see [Denials.Follow] for one that may.
func New(memory Memory, clock func() int64) *Denials {
	return &Denials{clock: clock, seed: maphash.MakeSeed(), kept: memory}
}

// Follow follows another clock from now on, and forgets everything when that is turned back. It is called
// before anything else.
func (d *Denials) Follow(clock func() int64) {
	var latest atomic.Int64
	d.clock = func() int64 {
		now := clock()
		if latest.Swap(now) > now {
			d.Clear()
		}
		return now
	}
}

// Now returns the time of the clock.
func (d *Denials) Now() int64 { return d.clock() }

// changesTo returns the changes of a key under a spec with any numbers.
func (d *Denials) changesTo(key string, spec *exact.Spec) *changes {
	hash := maphash.Comparable(d.seed, exact.Key{Subject: key, Identity: spec.Identity()})
	return &d.changes[hash%uint64(len(d.changes))]
}

// repeat reports whether a check at an instant repeats a denial: [Check.Repeated] returns it.
func (d *Denials) repeat(c *Check, now int64) bool {
	earlier, ok := d.kept.Get(c.stateKey())
	if !ok || now < earlier.sent || now >= earlier.repeatable || earlier.spec != c.Spec {
		return false
	}
	need := c.need()
	if need < earlier.need {
		return false
	}
	tick := c.Spec.Tick // waits are whole ticks
	c.repeated, c.gone = earlier, microseconds(max(0, now-now%tick-earlier.received+earlier.received%tick))
	if need > c.Spec.Capacity {
		c.retry = Never
		return true
	}
	longer, known := c.Spec.Longer(earlier.need, need)
	c.retry = earlier.RetryAfter + microseconds(longer) - c.gone
	return known
}

func microseconds(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

// noticeNumbers forgets a denial under other numbers of a named limit, since the state has or is about to
// have the numbers of this check.
func (d *Denials) noticeNumbers(c *Check) {
	if c.Spec.Identity() == c.Spec { // it has no name
		return
	}
	of, latest := d.changesTo(c.Key, c.Spec), maphash.Comparable(d.seed, exact.Key{Subject: c.Key, Identity: c.Spec})
	if of.latest.Swap(latest) != latest {
		of.count.Add(1)
	}
	key := c.stateKey()
	if earlier, ok := d.kept.Get(key); ok && earlier.spec != c.Spec {
		d.kept.Delete(key)
	}
}

// begin counts the changes of a check. Changes from now on keep its denial from being remembered.
func (d *Denials) begin(c *Check) { c.begun = d.changesTo(c.Key, c.Spec).count.Load() }

// noticeCharge forgets the denial of a check that needs more when this one has been charged: the denial
// stands, but its numbers have changed.
func (d *Denials) noticeCharge(c *Check) {
	d.changesTo(c.Key, c.Spec).count.Add(1)
	if d.dear.Load() {
		d.kept.Delete(c.stateKey())
	}
}

// Forget forgets the denials of a key under a spec, those in flight included.
func (d *Denials) Forget(key string, spec *exact.Spec) {
	d.changesTo(key, spec).count.Add(1)
	d.kept.Delete(call.StateKey(key, spec))
}

// Clear forgets all denials but those in flight.
func (d *Denials) Clear() { d.kept.Clear() }

// remember remembers the denial of a check that was sent and answered at some instants, if it can be
// repeated, and unless something has changed since begin.
func (d *Denials) remember(c *Check, told Denial, sent, received int64) {
	if told.RetryAfter == Never || told.Estimated || c.Spec.Estimates() { // it may pass before its RetryAfter
		return
	}
	// The numbers hold until Remaining grows, and the denial until RetryAfter. The
	// store counts both from the beginning of a tick.
	lasts := min(told.RetryAfter, told.NextAfter, longestStaleness).Microseconds()
	own := &Entry{told, c.Spec, c.need(), sent, received, sent + lasts - (c.Spec.Tick - 1)}
	key := c.stateKey()
	if earlier, ok := d.kept.Get(key); ok && earlier.need < own.need && sent < earlier.repeatable {
		return // the denial that needs less answers more checks
	}
	if own.need > 1 {
		d.dear.Store(true)
	}
	key.Subject = strings.Clone(key.Subject)
	d.kept.Set(key, own)
	if d.changesTo(c.Key, c.Spec).count.Load() != c.begun {
		d.kept.Delete(key)
	}
}
