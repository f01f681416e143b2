package core

import (
	"context"
	"log/slog"
	"slices"

	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/denials"
)

// denialCache is the store that denialcache.New makes.
type denialCache struct {
	store   Store
	denials *denials.Denials
	traces  traces
	trace   Trace // all of them
	logger  func() *slog.Logger
}

// rememberDenials is denials.Remember.
func rememberDenials(store Store, memory denials.Memory, options []Option) Store {
	c := newDenialCache(store, memory)
	apply("denialcache.New", options, ofDenials, c)
	c.trace = c.traces.told(c.logger)
	return c
}

// newDenialCache returns a cache around a store. Its trace is not made yet.
func newDenialCache(store Store, memory denials.Memory) *denialCache {
	c := &denialCache{store: store, denials: denials.New(memory, forwardClock()), traces: tracesOf(store), logger: slog.Default}
	if giving, ok := store.(givingStore); ok {
		giving.watchGiveBacks(c.denials.Notice)
	}
	return c
}

// givingStore is a store that gives back by itself the charges of a call that does not pass, or that its caller has left.
// Until then, other calls may be denied because of them.
type givingStore interface {
	// watchGiveBacks sets a function that is called with each list of corrections that give back.
	watchGiveBacks(watch func(givenBack []call.Correction))
}

// Decide decides the calls. A repeated denial has no receipt, since nothing was charged. The answer to a
// call that charges nothing is not remembered: after the server's clock has been set back, only a check
// that is to be charged repairs the state.
func (c *denialCache) Decide(ctx context.Context, calls []Call) (answered int, err error) {
	if ctx.Err() != nil {
		return 0, call.Unsent(call.GivenUp, "core: the call was given up: %w", context.Cause(ctx))
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
		return c.store.Decide(ctx, calls)
	case known.Denied != 0:
		return 1, c.decideRest(ctx, first, known)
	}
	c.denials.Begin(checks)
	answered, err = c.store.Decide(ctx, calls)
	// After an error the call may have been charged. Denials of checks with another cost are not remembered then.
	if err != nil || answered > 1 || first.Passed() {
		c.denials.Charged(checks)
		return answered, err
	}
	c.denials.Denied(checks, sent, func(i int) (denials.Denial, bool) {
		return denialOf(&first.Decisions[i]), !first.Decisions[i].Allowed
	})
	return answered, nil
}

// denialChecks returns checks in the form in which their denials are remembered, in an empty list if it has room.
func denialChecks(list []denials.Check, checks []Check) []denials.Check {
	list = slices.Grow(list, len(checks))[:len(checks)]
	for i := range checks {
		c, own := &checks[i], &list[i]
		own.Key, own.Spec, own.Units, own.Headroom = c.Key, c.spec(), c.Units(), c.Headroom
		own.Condition, own.OnDenial, own.Or, own.Reserves = c.Mode == Condition, c.Mode == OnDenial, c.Or, c.reserves()
		_, own.OfBan = c.Limit.(Bans)
	}
	return list
}

// denialOf returns the part of a denial that the cache remembers.
func denialOf(d *Decision) denials.Denial {
	return denials.Denial{
		Degraded: d.Degraded, Remaining: d.Remaining,
		RetryAfter: d.RetryAfter, NextAfter: d.NextAfter, ResetAfter: d.ResetAfter, Estimated: d.Estimated,
	}
}

// writeKnown answers a call that has checks known to be denied. If one of them is a ban, the other checks are allowed,
// except shadow checks. There are no receipts, since nothing was charged.
func writeKnown(of *Call, checks []denials.Check, known denials.Known) {
	clear(of.Receipts)
	of.Granted = 0
	for i := range checks {
		limit := of.Checks[i].Limit
		switch {
		case known.Denied&(1<<i) != 0:
			d := checks[i].Repeated()
			of.Decisions[i] = Decision{
				Limit: limit, Repeated: true, Degraded: d.Degraded, Remaining: d.Remaining,
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
		c.denials.Forget(key, limit.known())
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
