package core

import (
	"context"
	"fmt"
	"hash/maphash"
	"strings"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"
)

// LongestStaleness is how long a [DenialCache] repeats a refusal at most before it
// asks again: the longest time for which it does not notice that somebody else, in
// another process, has reset a key, refunded a charge or raised a named limit.
const LongestStaleness = 10 * time.Second

// DenialCache is a [Store] that remembers what another one has refused, and repeats
// it without asking, for as long as the answer cannot have changed. So a client that
// hammers a key which is used up costs Redis one question in each retry period, and
// this process a look into a map. It is made by [CacheDenials], and may be used by
// many goroutines at once.
//
// Nothing is refused that the store would admit: a limit only ever fills up while
// nobody resets or refunds, so what has been refused cannot pass before its RetryAfter
// is over, which is counted from when the question was sent. A reset through this
// store, or a named limit with other numbers, is noticed at once; one elsewhere, and a
// server that has forgotten keys or whose clock has been set forward, after
// [LongestStaleness].
//
// A question is answered from memory if it has been refused lately under each of its
// limits, at the same cost, or at a lower one from which the wait follows exactly. Its
// numbers are then those of the refusal, with the time that has gone by taken off; if
// the cost was more than 1, other processes may have used what was left meanwhile, so
// that the next RetryAfter is longer. Any other question goes to the store: a passing one, one
// in which some limits refuse and others do not, one with shadow checks, and one about a
// named sliding window, whose RetryAfter may be an estimate.
type DenialCache struct {
	store    Store
	clock    clock
	denials  *otter.Cache[entryKey, *denial]
	seed     maphash.Seed
	changes  [256]changes // by key, several of which share one
	dear     atomic.Bool  // there has been a refusal that left something for cheaper questions
	repeated atomic.Int64
	trace    Trace
}

// changes counts what makes refusals worth nothing that are on their way: charges,
// resets, and other numbers of a named limit.
type changes struct {
	count  atomic.Int64
	latest atomic.Pointer[ruling] // of a named limit
}

// changesOf returns the changes of a key.
func (c *DenialCache) changesOf(key string) *changes {
	return &c.changes[maphash.String(c.seed, key)%uint64(len(c.changes))]
}

// denial is what is remembered of a refusal. It does not change.
type denial struct {
	decision Decision
	cost     int
	// The store has decided at some moment between sent and received, in the cache's
	// microseconds. From repeatable on it may decide otherwise.
	sent, received, repeatable int64
}

// CacheDenials returns a store that remembers up to size refusals of another store.
// It talks to nobody, and starts no goroutine. A nil store or a size less than 1
// panics.
//
//	limiter := core.New(core.CacheDenials(core.NewRedis(client), 100_000))
//
// A refusal takes about 220 bytes.
func CacheDenials(store Store, size int, options ...DenialCacheOption) *DenialCache {
	if store == nil {
		panic("core: CacheDenials needs a Store")
	}
	if size < 1 {
		panic(fmt.Sprintf("core: a cache of %d refusals is less than 1", size))
	}
	c := &DenialCache{
		store: store,
		clock: forwardClock(),
		seed:  maphash.MakeSeed(),
		denials: otter.Must(&otter.Options[entryKey, *denial]{
			MaximumSize: size,
			Executor:    func(task func()) { task() },
		}),
	}
	for _, option := range options {
		option.applyDenialCache(c)
	}
	return c
}

// Repeated returns how many questions have been answered without the store.
func (c *DenialCache) Repeated() int64 { return c.repeated.Load() }

// Decide implements [Store].
func (c *DenialCache) Decide(ctx context.Context, checks []Check, decisions []Decision) error {
	return c.decide(ctx, checks, decisions, func() error { return c.store.Decide(ctx, checks, decisions) })
}

// decide repeats an answer, or has the store decide.
func (c *DenialCache) decide(ctx context.Context, checks []Check, decisions []Decision, ask func() error) error {
	if ctx.Err() != nil {
		return failed(GivenUp, "core: the question was given up: %w", context.Cause(ctx))
	}
	sent := c.clock()
	if c.repeat(checks, decisions, sent) {
		return nil
	}
	before := c.noticeNumbers(checks)
	if err := ask(); err != nil {
		return err
	}
	if passedAll(checks, decisions) {
		c.noticeCharges(checks)
	} else {
		c.remember(checks, decisions, sent, before)
	}
	return nil
}

// Reserve implements [Store]. A refusal that is repeated has no moment, since nothing
// was charged.
func (c *DenialCache) Reserve(ctx context.Context, checks []Check, decisions []Decision, moments []Moment) error {
	clear(moments)
	return c.decide(ctx, checks, decisions, func() error { return c.store.Reserve(ctx, checks, decisions, moments) })
}

// Peek implements [Store]. Its answers are not remembered: a state that could not be,
// after the server's clock has been set back, is mended by Decide alone.
func (c *DenialCache) Peek(ctx context.Context, checks []Check, decisions []Decision) error {
	if c.repeat(checks, decisions, c.clock()) {
		return nil
	}
	return c.store.Peek(ctx, checks, decisions)
}

// repeat answers checks from memory, if it can answer all of them.
func (c *DenialCache) repeat(checks []Check, decisions []Decision, now int64) bool {
	for i := range checks {
		check := &checks[i]
		if check.Shadow || check.Mode == Look || i > 0 && met(checks, i) {
			return false
		}
		d, ok := c.denials.GetIfPresent(check.entryKey())
		if !ok || now < d.sent || now >= d.repeatable || d.decision.Limit != check.Limit {
			return false
		}
		if !d.repeat(check.Units(), now, &decisions[i]) {
			return false
		}
	}
	c.repeated.Add(1)
	if c.trace.Repeated != nil {
		c.trace.Repeated()
	}
	return true
}

// met reports whether a check is about the same state as an earlier one, with which
// its cost adds up.
func met(checks []Check, i int) bool {
	for j := range checks[:i] {
		if sameState(&checks[j], &checks[i]) {
			return true
		}
	}
	return false
}

// repeat writes the decision for a cost at a moment, if it follows from the refusal.
func (d *denial) repeat(cost int, now int64, decision *Decision) bool {
	if cost < d.cost {
		return false
	}
	*decision = d.decision
	tick := d.decision.Limit.units.tick // waits are whole ticks
	gone := microseconds(max(0, now-now%tick-d.received+d.received%tick))
	switch l := &d.decision.Limit; {
	case cost > l.capacity:
		decision.RetryAfter = Never
	case cost == d.cost || l.algorithm == fixedWindow:
		decision.RetryAfter -= gone
	case l.units.window == 0 && int64(cost-d.cost)*l.units.weight%l.units.drain == 0:
		more := int64(cost-d.cost) * l.units.weight / l.units.drain * l.units.tick
		decision.RetryAfter += microseconds(more) - gone
	default:
		return false
	}
	decision.NextAfter -= gone
	decision.ResetAfter -= gone
	return true
}

// noticeNumbers forgets what was refused under other numbers of a named limit, since
// the state is about to have those of these checks. It returns how many changes of
// the keys there have been so far, in all.
func (c *DenialCache) noticeNumbers(checks []Check) (changes int64) {
	for i := range checks {
		check := &checks[i]
		of := c.changesOf(check.Key)
		if check.Limit.name != "" {
			if r := check.ruling(); of.latest.Swap(r) != r {
				of.count.Add(1)
				key := check.entryKey()
				if d, ok := c.denials.GetIfPresent(key); ok && d.decision.Limit != check.Limit {
					c.denials.Invalidate(key)
				}
			}
		}
		changes += of.count.Load()
	}
	return changes
}

// passedAll reports whether a question was charged.
func passedAll(checks []Check, decisions []Decision) bool {
	for i := range decisions {
		if !decisions[i].Allowed && !checks[i].Shadow {
			return false
		}
	}
	return true
}

// noticeCharges forgets what was refused to dearer questions before these checks were
// charged: the refusals stand, but their numbers have changed.
func (c *DenialCache) noticeCharges(checks []Check) {
	for i := range checks {
		check := &checks[i]
		if check.Mode == Look {
			continue
		}
		c.changesOf(check.Key).count.Add(1)
		if c.dear.Load() {
			c.denials.Invalidate(check.entryKey())
		}
	}
}

// remember keeps the refusals of an answer, unless something has changed since the
// question was sent.
func (c *DenialCache) remember(checks []Check, decisions []Decision, sent, changes int64) {
	received := c.clock()
	for i := range checks {
		check, decision := &checks[i], &decisions[i]
		if decision.Allowed || decision.RetryAfter == Never || check.Shadow || check.Mode == Look || met(checks, i) ||
			check.Limit.algorithm == slidingWindow && check.Limit.name != "" { // its RetryAfter may be an estimate
			continue
		}
		// The numbers hold until Remaining grows, and the refusal until RetryAfter. The
		// store counts both from the beginning of a tick.
		lasts := min(decision.RetryAfter, decision.NextAfter, LongestStaleness).Microseconds()
		d := &denial{*decision, check.Units(), sent, received, sent + lasts - (check.Limit.units.tick - 1)}
		key := check.entryKey()
		if earlier, ok := c.denials.GetIfPresent(key); ok && earlier.cost < d.cost && sent < earlier.repeatable {
			continue // answers more questions
		}
		if check.Units() > 1 {
			c.dear.Store(true)
		}
		key.key = strings.Clone(key.key)
		c.denials.Set(key, d)
		if c.changesOfAll(checks) != changes {
			c.denials.Invalidate(key)
		}
	}
}

// changesOfAll returns how many changes of the keys there have been, in all.
func (c *DenialCache) changesOfAll(checks []Check) (changes int64) {
	for i := range checks {
		changes += c.changesOf(checks[i].Key).count.Load()
	}
	return changes
}

// Reset implements [Store].
func (c *DenialCache) Reset(ctx context.Context, key string, limits []Limit) error {
	err := c.change([]string{key}, func() error { return c.store.Reset(ctx, key, limits) })
	for _, limit := range limits {
		c.denials.Invalidate((&Check{Key: key, Limit: limit}).entryKey())
	}
	return err
}

// Settle implements [Store]. What was refused before under one of the limits is
// forgotten.
func (c *DenialCache) Settle(ctx context.Context, settlements []Settlement) error {
	keys := make([]string, len(settlements))
	for i := range settlements {
		keys[i] = settlements[i].Check.Key
	}
	err := c.change(keys, func() error { return c.store.Settle(ctx, settlements) })
	for i := range settlements {
		c.denials.Invalidate(settlements[i].Check.entryKey())
	}
	return err
}

// change has the store change states. Questions that are under way may be answered
// before that or after it, so none of them is remembered.
func (c *DenialCache) change(keys []string, change func() error) error {
	count := func() {
		for _, key := range keys {
			c.changesOf(key).count.Add(1)
		}
	}
	count()
	defer count()
	return change()
}

// Ping implements [Store].
func (c *DenialCache) Ping(ctx context.Context) error { return c.store.Ping(ctx) }

// Close implements [Store]. It closes the store.
func (c *DenialCache) Close() error {
	c.denials.InvalidateAll()
	return c.store.Close()
}
