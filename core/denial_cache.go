package core

import (
	"context"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/exact"
	"github.com/weir-go/ratelimit/core/internal/failure"
)

// longestStaleness is how long a cache repeats a denial at most before it asks its store again.
const longestStaleness = 10 * time.Second

// denialCache is the store that [CacheDenials] makes.
type denialCache struct {
	store   Store
	clock   clock
	denials *otter.Cache[exact.Key, *denial]
	seed    maphash.Seed
	changes [1024]changes // by a hash of key and limit
	dear    atomic.Bool   // there has been a denial that left something for calls that need less
	trace   Trace
}

// changes counts what makes denials in flight useless: charges, resets, refunds, and
// other numbers of a named limit.
type changes struct {
	count  atomic.Int64
	latest atomic.Uint64 // a hash of the latest named limit with its numbers, and of its key
}

// changesOf returns the changes of the key of a check under its limit, whatever its numbers.
func (c *denialCache) changesOf(check *Check) *changes { return c.changesTo(check.Key, check.spec()) }

// changesTo returns the changes of a key under a spec, whatever its numbers.
func (c *denialCache) changesTo(key string, spec *exact.Spec) *changes {
	hash := maphash.Comparable(c.seed, exact.Key{Subject: key, Identity: spec.Identity()})
	return &c.changes[hash%uint64(len(c.changes))]
}

// denial is what the cache remembers of a denied check. It is immutable.
type denial struct {
	decision Decision
	need     int // see needOf
	// The store has decided at some moment between sent and received, in the cache's
	// microseconds. From repeatable on it may decide otherwise.
	sent, received, repeatable int64
}

// CacheDenials returns a [Store] around another store. It remembers up to size of that store's denials,
// and repeats each of them for as long as the answer cannot have changed:
//
//	limiter := core.New(core.CacheDenials(core.NewRedis(client), 100_000))
//
// So a client that hammers a key which is used up costs Redis one call in each retry period, and this
// process a lookup in a map. A denial takes about 220 bytes. [Trace.Repeated] tells of each call that was
// answered without the store.
//
// The cache denies nothing that the store would admit: without resets and refunds a limit only fills
// up, so that a denied check cannot pass before its RetryAfter, counted from when the call was sent, is
// over. The cache notices at once a reset or a settlement through it, a named limit with other numbers,
// and what a store of [NewRedis] gives back of its own calls. It repeats a denial for ten seconds at
// most. So it may take as long to notice that another process has reset a key, refunded a charge, raised
// a named limit, or given back what a call over several keys of a cluster or ring had charged, and that
// a server has lost keys or has its clock set forward. Put the cache directly around a store of
// NewRedis: a store of your own between them hides what Redis gives back.
//
// A check is answered from memory if it has been denied lately at the same cost, or at a lower cost
// from which the wait follows exactly. Its numbers are those of the denial, less the time that has
// passed. If the cost was more than 1, other processes may have used what was left meanwhile, so that
// the next RetryAfter is longer. A [Check.Headroom] counts as part of the cost here.
//
// A call does not go to the store if all its checks are answered from memory. If only some are, the
// others go to the store, which answers them and charges nothing; shadow checks are decided as always.
// Of alternatives ([FirstOf]), either all are answered from memory or none.
// All other calls go to the store: calls that may pass, that have a key and limit twice, or that have a
// named sliding window, whose RetryAfter may be an estimate, or a [Concurrent] limit, whose places may be
// given back at any time.
//
// CacheDenials starts no goroutine. It takes [WithTrace] and [WithClock]. A nil store, a size less than
// 1 and an option that does not suit it panic. Close closes the store, too.
func CacheDenials(store Store, size int, options ...Option) Store {
	if store == nil {
		panic("core: CacheDenials needs a Store")
	}
	if size < 1 {
		panic(fmt.Sprintf("core: a cache of %d denials is less than 1", size))
	}
	c := &denialCache{
		store: store,
		clock: forwardClock(),
		seed:  maphash.MakeSeed(),
		denials: otter.Must(&otter.Options[exact.Key, *denial]{
			MaximumSize: size,
			Executor:    func(task func()) { task() },
		}),
	}
	apply("CacheDenials", options, ofDenials, c)
	if giving, ok := store.(givingStore); ok {
		giving.watchGiveBacks(c.noticeGivenBack)
	}
	return c
}

// follow makes the cache follow a clock, and forget everything when that is turned back. The
// default clock never is.
func (c *denialCache) follow(other clock) {
	var latest atomic.Int64
	c.clock = func() int64 {
		now := other()
		if latest.Swap(now) > now {
			c.denials.InvalidateAll()
		}
		return now
	}
}

// givingStore is a store that gives back by itself what it has charged for a call that does not
// pass, or whose caller has left. Until then, other calls may be denied for it.
type givingStore interface {
	// watchGiveBacks sets a function that is called each time, with what was to be given back.
	watchGiveBacks(watch func(givenBack []call.Correction))
}

// Decide decides the calls. A repeated denial has no receipt, since nothing was charged. The answer to a
// call that charges nothing is not remembered: after the server's clock has been set back, only a check
// that is to be charged repairs the state.
func (c *denialCache) Decide(ctx context.Context, calls []Call) (answered int, err error) {
	if ctx.Err() != nil {
		return 0, failure.Unsent(failure.GivenUp, "core: the call was given up: %w", context.Cause(ctx))
	}
	first, sent := &calls[0], c.clock()
	denied, all := c.repeat(first.Checks, first.Decisions, sent)
	switch {
	case all:
		clear(first.Receipts)
		first.Granted = 0
		return 1, nil
	case !slices.ContainsFunc(first.Checks, func(c Check) bool { return c.Mode == Charge }):
		return c.store.Decide(ctx, calls) //nolint:wrapcheck // it is the store's
	case denied != 0:
		return 1, c.decideRest(ctx, first, denied)
	}
	c.noticeNumbers(first.Checks)
	var scratch [8]int64
	before := scratch[:0]
	for i := range first.Checks {
		before = append(before, c.changesOf(&first.Checks[i]).count.Load())
	}
	answered, err = c.store.Decide(ctx, calls)
	c.noticeNumbers(first.Checks) // again, since there may have been calls with other numbers meanwhile
	switch {
	case err != nil: // it may have been charged
		c.noticeCharges(first.Checks)
	case answered > 1 || first.passed(): // and a denial of what has another cost is not remembered
		c.noticeCharges(first.Checks)
	default:
		c.remember(first.Checks, first.Decisions, sent, before)
	}
	return answered, err //nolint:wrapcheck // it is the store's
}

// decideRest has the store answer the checks of a call that are not known to be denied, if others
// are. The call is denied, and only its shadow checks are charged. The answers are not remembered,
// since the store does not repair the states of checks that it does not charge.
func (c *denialCache) decideRest(ctx context.Context, of *Call, denied uint64) error {
	clear(of.Receipts)
	of.Granted = 0
	rest, places := make([]Check, 0, len(of.Checks)), make([]int, 0, len(of.Checks))
	for i, check := range of.Checks {
		if denied&(1<<i) == 0 {
			if !check.Shadow && check.Mode == Charge {
				check.Mode = Condition
			}
			rest, places = append(rest, check), append(places, i)
		}
	}
	own := Call{Checks: rest, Decisions: make([]Decision, len(rest))}
	if of.Receipts != nil {
		own.Receipts = make([]Receipt, len(rest))
	}
	if _, err := c.store.Decide(ctx, []Call{own}); err != nil {
		return placed(err, places)
	}
	for i, place := range places {
		if of.Receipts != nil {
			of.Receipts[place] = own.Receipts[i]
		}
		if of.Decisions[place] = own.Decisions[i]; !of.Checks[place].Shadow {
			of.Decisions[place].Delay = 0 // the call is denied
		}
	}
	waive(of.Checks, of.Decisions)
	return nil
}

// mostRepeated is how many checks a call that is looked up may have: one for each bit of a set.
const mostRepeated = 64

// repeat answers checks from memory, if it can. It returns the set of those that it has answered, and
// whether it has answered all.
func (c *denialCache) repeat(checks []Check, decisions []Decision, now int64) (denied uint64, all bool) {
	if len(checks) > mostRepeated {
		return 0, false
	}
	all = true
	for first, end := 0, 0; first < len(checks); first = end {
		end = endOf(checks, first)
		known := true // of all alternatives, each of which may let the call pass
		for i := first; i < end; i++ {
			check := &checks[i]
			if i > 0 && met(checks, i) {
				return 0, false // their costs add up
			}
			known = known && !check.Shadow && check.Mode != Look && c.repeatOne(check, &decisions[i], now)
		}
		if !known {
			all = false
			continue
		}
		for i := first; i < end; i++ {
			denied |= 1 << i
		}
	}
	if all {
		waive(checks, decisions)
		if c.trace.Repeated != nil {
			c.trace.Repeated()
		}
	}
	return denied, all
}

// repeatOne answers a check from memory, if it can.
func (c *denialCache) repeatOne(check *Check, decision *Decision, now int64) bool {
	d, ok := c.denials.GetIfPresent(check.stateKey())
	return ok && now >= d.sent && now < d.repeatable && d.decision.Limit == check.Limit && d.repeat(needOf(check), now, decision)
}

// met reports whether a check has the same state as an earlier one, so that their costs
// add up, as those of alternatives do not.
func met(checks []Check, i int) bool {
	for j := range checks[:i] {
		if sameState(&checks[j], &checks[i]) && !isEither(checks, i) && !isEither(checks, j) {
			return true
		}
	}
	return false
}

// needOf returns what has to fit for a check to pass, its cost and its headroom, or more than the capacity.
// A check that needs as much as a denied one, or more, is denied, too.
func needOf(check *Check) int {
	tooMuch := check.Limit.spec.Capacity + 1
	return min(check.Units(), tooMuch) + min(check.Headroom, tooMuch)
}

// repeat writes the decision for a need at a moment, if it follows from the denial.
func (d *denial) repeat(need int, now int64, decision *Decision) bool {
	if need < d.need {
		return false
	}
	*decision = d.decision
	spec := d.decision.Limit.spec
	tick := spec.Tick // waits are whole ticks
	gone := microseconds(max(0, now-now%tick-d.received+d.received%tick))
	if need > spec.Capacity {
		decision.RetryAfter = Never
	} else {
		longer, known := spec.Longer(d.need, need)
		if !known {
			return false
		}
		decision.RetryAfter += microseconds(longer) - gone
	}
	decision.NextAfter -= gone
	decision.ResetAfter -= gone
	return true
}

// noticeNumbers forgets denials under other numbers of a named limit, since the state
// has or is about to have the numbers of these checks.
func (c *denialCache) noticeNumbers(checks []Check) {
	for i := range checks {
		check := &checks[i]
		if check.Limit.Identity() == check.Limit { // it has no name
			continue
		}
		of, latest := c.changesOf(check), maphash.Comparable(c.seed, exact.Key{Subject: check.Key, Identity: check.spec()})
		if of.latest.Swap(latest) != latest {
			of.count.Add(1)
		}
		key := check.stateKey()
		if d, ok := c.denials.GetIfPresent(key); ok && d.decision.Limit != check.Limit {
			c.denials.Invalidate(key)
		}
	}
}

// noticeCharges forgets denials of checks that need more when these checks have been charged:
// the denials stand, but their numbers have changed.
func (c *denialCache) noticeCharges(checks []Check) {
	for i := range checks {
		check := &checks[i]
		if check.Mode == Look {
			continue
		}
		c.changesOf(check).count.Add(1)
		if c.dear.Load() {
			c.denials.Invalidate(check.stateKey())
		}
	}
}

// noticeGivenBack forgets denials that are due to charges which have been given back.
func (c *denialCache) noticeGivenBack(givenBack []call.Correction) {
	for i := range givenBack {
		c.forget(givenBack[i].Key, givenBack[i].Spec)
	}
}

// forget forgets the denials of a key under a limit, those in flight included.
func (c *denialCache) forget(key string, spec *exact.Spec) {
	c.changesTo(key, spec).count.Add(1)
	c.denials.Invalidate(call.StateKey(key, spec))
}

// remember keeps the denials of an answer, unless something has changed since changes, the counts of
// the checks' changes, were read.
func (c *denialCache) remember(checks []Check, decisions []Decision, sent int64, changes []int64) {
	received := c.clock()
	for i := range checks {
		check, decision := &checks[i], &decisions[i]
		if decision.Allowed || decision.RetryAfter == Never || check.Shadow || met(checks, i) ||
			check.Mode != Charge || // it repairs no state, so that its wait may stand still
			check.Limit.spec.Algorithm.Holds() || // others may give places back at any time
			check.Limit.spec.Estimates() { // its RetryAfter may be an estimate
			continue
		}
		// The numbers hold until Remaining grows, and the denial until RetryAfter. The
		// store counts both from the beginning of a tick.
		lasts := min(decision.RetryAfter, decision.NextAfter, longestStaleness).Microseconds()
		d := &denial{*decision, needOf(check), sent, received, sent + lasts - (check.Limit.spec.Tick - 1)}
		key := check.stateKey()
		if earlier, ok := c.denials.GetIfPresent(key); ok && earlier.need < d.need && sent < earlier.repeatable {
			continue // the denial that needs less answers more checks
		}
		if d.need > 1 {
			c.dear.Store(true)
		}
		key.Subject = strings.Clone(key.Subject)
		c.denials.Set(key, d)
		if c.changesOf(check).count.Load() != changes[i] {
			c.denials.Invalidate(key)
		}
	}
}

func (c *denialCache) Reset(ctx context.Context, key string, limits []Limit) error {
	err := c.store.Reset(ctx, key, limits)
	for _, limit := range limits {
		c.forget(key, limit.spec)
	}
	return err
}

// Settle forgets the denials of the same keys under the same limits.
func (c *denialCache) Settle(ctx context.Context, settlements []Settlement) error {
	err := c.store.Settle(ctx, settlements)
	for i := range settlements {
		c.forget(settlements[i].Check.Key, settlements[i].Check.spec())
	}
	return err
}

func (c *denialCache) Ping(ctx context.Context) error { return c.store.Ping(ctx) }

func (c *denialCache) Close() error {
	c.denials.InvalidateAll()
	return c.store.Close()
}
