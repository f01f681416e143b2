package core

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/clock"
	"github.com/weir-go/ratelimit/core/internal/denials"
	"github.com/weir-go/ratelimit/core/internal/failure"
)

// denialCache is the store that [CacheDenials] makes.
type denialCache struct {
	store   Store
	denials *denials.Denials
	traces  traces
	trace   Trace // all of them
	logger  func() *slog.Logger
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
// given back at any time, or a [Check.ReserveFor].
//
// If a [Ban] is known to be in force, the call is denied without the store, whatever its other checks are: those are
// answered as allowed, with no numbers. A call that may strike when it is denied ([OnDenial]) goes to the store
// unless a ban is known to be in force, and so does every call under a Ban with Extend.
//
// CacheDenials starts no goroutine. It takes [WithTrace], [WithLogger] and [WithClock]. A nil store, a size less than
// 1 and an option that does not suit it panic. Close closes the store, too.
func CacheDenials(store Store, size int, options ...Option) Store {
	if store == nil {
		panic("core: CacheDenials needs a Store")
	}
	if size < 1 {
		panic(fmt.Sprintf("core: a cache of %d denials is less than 1", size))
	}
	c := newDenialCache(store, size)
	apply("CacheDenials", options, c)
	c.trace = c.traces.told(c.logger)
	return c
}

// newDenialCache returns a cache around a store, whose trace is not made of its traces yet.
func newDenialCache(store Store, size int) *denialCache {
	c := &denialCache{store: store, denials: denials.New(size, clock.Forward()), traces: tracesOf(store), logger: slog.Default}
	if giving, ok := store.(givingStore); ok {
		giving.watchGiveBacks(c.denials.Notice)
	}
	return c
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
	first, sent := &calls[0], c.denials.Now()
	var room [4]denials.Check
	checks := denialChecks(room[:0], first.Checks)
	known := c.denials.Look(checks, sent)
	if known.Denied != 0 {
		writeKnown(first, checks, known)
	}
	switch {
	case known.All:
		if c.trace.Repeated != nil {
			c.trace.Repeated()
		}
		return 1, nil
	case !denials.Writes(checks):
		return c.store.Decide(ctx, calls) //nolint:wrapcheck // it is the store's
	case known.Denied != 0:
		return 1, c.decideRest(ctx, first, known)
	}
	c.denials.Begin(checks)
	answered, err = c.store.Decide(ctx, calls)
	// After an error it may have been charged, and a denial of what has another cost is not remembered.
	if err != nil || answered > 1 || first.Passed() {
		c.denials.Charged(checks)
		return answered, err //nolint:wrapcheck // it is the store's
	}
	c.denials.Denied(checks, sent, func(i int) (denials.Denial, bool) {
		return denialOf(&first.Decisions[i]), !first.Decisions[i].Allowed
	})
	return answered, nil
}

// denialChecks returns checks as denials are remembered of them, in an empty list if there is room.
func denialChecks(list []denials.Check, checks []Check) []denials.Check {
	list = slices.Grow(list, len(checks))[:len(checks)]
	for i := range checks {
		c, own := &checks[i], &list[i]
		own.Key, own.Spec, own.Units, own.Headroom = c.Key, c.spec(), c.Units(), c.Headroom
		own.Condition, own.OnDenial, own.Or, own.Reserves = c.Mode == Condition, c.Mode == OnDenial, c.Or, c.reserves()
	}
	return list
}

// denialOf returns what is remembered of a denial.
func denialOf(d *Decision) denials.Denial {
	return denials.Denial{
		Degraded: d.Degraded, Remaining: d.Remaining,
		RetryAfter: d.RetryAfter, NextAfter: d.NextAfter, ResetAfter: d.ResetAfter, Estimated: d.Estimated,
	}
}

// writeKnown writes the answers to a call of which some checks are known to be denied. If a ban is, the others are
// allowed, but for shadows. There are no receipts, since nothing was charged.
func writeKnown(of *Call, checks []denials.Check, known denials.Known) {
	clear(of.Receipts)
	of.Granted = 0
	for i := range checks {
		limit := of.Checks[i].Limit
		switch {
		case known.Denied&(1<<i) != 0:
			d := checks[i].Repeated()
			of.Decisions[i] = Decision{
				Limit: limit, Degraded: d.Degraded, Remaining: d.Remaining,
				RetryAfter: d.RetryAfter, NextAfter: d.NextAfter, ResetAfter: d.ResetAfter, Estimated: d.Estimated,
			}
		case known.Banned:
			of.Decisions[i] = Decision{Allowed: true, Limit: limit}
		}
	}
	waive(of.Checks, of.Decisions)
}

// decideRest has the store answer the checks of a call that are not known to be denied, if others
// are. The call is denied, and only its shadow checks are charged. The answers are not remembered,
// since the store does not repair the states of checks that it does not charge.
//
// If a ban is known to be in force, the store is asked about shadow checks alone: the other answers have no numbers.
func (c *denialCache) decideRest(ctx context.Context, of *Call, known denials.Known) error {
	rest, places := make([]Check, 0, len(of.Checks)), make([]int, 0, len(of.Checks))
	for i, check := range of.Checks {
		if known.Denied&(1<<i) != 0 || known.Banned && !check.Shadow {
			continue
		}
		if !check.Shadow && (check.Mode == Charge || check.Mode == OnDenial) {
			check.Mode = Condition
		}
		rest, places = append(rest, check), append(places, i)
	}
	if err := (part{rest, places}).decide(ctx, c.store, of.Decisions, of.Receipts, nil); err != nil {
		return err
	}
	for _, place := range places {
		if !of.Checks[place].Shadow {
			of.Decisions[place].Delay = 0 // the call is denied
		}
	}
	waive(of.Checks, of.Decisions)
	return nil
}

func (c *denialCache) Reset(ctx context.Context, key string, limits []Limit) error {
	err := c.store.Reset(ctx, key, limits)
	for _, limit := range limits {
		c.denials.Forget(key, limit.spec)
	}
	return err
}

// Settle forgets the denials of the same keys under the same limits.
func (c *denialCache) Settle(ctx context.Context, settlements []Settlement) error {
	err := c.store.Settle(ctx, settlements)
	for i := range settlements {
		c.denials.Forget(settlements[i].Check.Key, settlements[i].Check.spec())
	}
	return err
}

func (c *denialCache) Ping(ctx context.Context) error { return c.store.Ping(ctx) }

func (c *denialCache) Close() error {
	c.denials.Clear()
	return c.store.Close()
}
