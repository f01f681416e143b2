package core

import (
	"context"
	"fmt"
	"slices"

	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/denials"
	"github.com/weir-go/ratelimit/core/internal/failure"
)

// denialCache is the store that [CacheDenials] makes.
type denialCache struct {
	store   Store
	denials *denials.Denials
	trace   Trace
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
// CacheDenials starts no goroutine. It takes [WithTrace] and [WithClock]. A nil store, a size less than
// 1 and an option that does not suit it panic. Close closes the store, too.
func CacheDenials(store Store, size int, options ...Option) Store {
	if store == nil {
		panic("core: CacheDenials needs a Store")
	}
	if size < 1 {
		panic(fmt.Sprintf("core: a cache of %d denials is less than 1", size))
	}
	c := &denialCache{store: store, denials: denials.New(size, forwardClock())}
	apply("CacheDenials", options, ofDenials, c)
	if giving, ok := store.(givingStore); ok {
		giving.watchGiveBacks(c.noticeGivenBack)
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
	denied, all := c.repeat(first.Checks, first.Decisions, sent)
	banned := false
	if slices.ContainsFunc(first.Checks, heedsBan) {
		denied, all, banned = c.heedBans(first, denied, all)
	}
	switch {
	case all:
		clear(first.Receipts)
		first.Granted = 0
		return 1, nil
	case !slices.ContainsFunc(first.Checks, writes):
		return c.store.Decide(ctx, calls) //nolint:wrapcheck // it is the store's
	case denied != 0:
		return 1, c.decideRest(ctx, first, denied, banned)
	}
	var room [8]denials.Check
	checks := room[:0]
	for i := range first.Checks {
		own := denialCheck(&first.Checks[i])
		c.denials.NoticeNumbers(&own)
		checks = append(checks, own)
	}
	for i := range checks {
		c.denials.Begin(&checks[i])
	}
	answered, err = c.store.Decide(ctx, calls)
	for i := range checks {
		c.denials.NoticeNumbers(&checks[i]) // again, since there may have been calls with other numbers meanwhile
		if first.Checks[i].reserves() {
			c.denials.Forget(checks[i].Key, checks[i].Spec) // what others had reserved may have come back
		}
	}
	// After an error it may have been charged, and a denial of what has another cost is not remembered.
	if err != nil || answered > 1 || first.passed() {
		for i := range checks {
			if first.Checks[i].Mode != Look {
				c.denials.NoticeCharge(&checks[i])
			}
		}
	} else {
		c.remember(first, checks, sent)
	}
	return answered, err //nolint:wrapcheck // it is the store's
}

// decideRest has the store answer the checks of a call that are not known to be denied, if others
// are. The call is denied, and only its shadow checks are charged. The answers are not remembered,
// since the store does not repair the states of checks that it does not charge.
//
// If a ban is known to be in force, the store is asked about shadow checks alone: the other answers have no numbers.
func (c *denialCache) decideRest(ctx context.Context, of *Call, denied uint64, banned bool) error {
	clear(of.Receipts)
	of.Granted = 0
	rest, places := make([]Check, 0, len(of.Checks)), make([]int, 0, len(of.Checks))
	for i, check := range of.Checks {
		switch {
		case denied&(1<<i) != 0:
		case banned && !check.Shadow:
			of.Decisions[i] = Decision{Allowed: true, Limit: check.Limit}
		default:
			if !check.Shadow && (check.Mode == Charge || check.Mode == OnDenial) {
				check.Mode = Condition
			}
			rest, places = append(rest, check), append(places, i)
		}
	}
	if err := (part{rest, places}).decide(ctx, c.store, of.Decisions, of.Receipts); err != nil {
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

// mostRepeated is how many checks a call that is looked up may have: one for each bit of a set.
const mostRepeated = 64

// repeat answers checks from memory, if it can. It returns the set of those that it has answered, and
// whether it has answered all.
func (c *denialCache) repeat(checks []Check, decisions []Decision, now int64) (denied uint64, all bool) {
	if len(checks) > mostRepeated {
		return 0, false
	}
	all = true
	for first := 0; first < len(checks); first = endOf(checks, first) {
		end := endOf(checks, first)
		known := true // of all alternatives, each of which may let the call pass
		for i := first; i < end; i++ {
			check := &checks[i]
			if i > 0 && met(checks, i) {
				return 0, false // their costs add up
			}
			if check.reserves() {
				return 0, false // it is for the store to see what others have reserved and is over
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

// heedsBan reports whether a check asks about a ban that can deny its call.
func heedsBan(c Check) bool { return c.Limit.spec.Algorithm.Bans() && c.Mode != Look && !c.Shadow }

// strikesIfDenied reports whether a check may strike though its call is denied.
func strikesIfDenied(c Check) bool {
	return c.Mode == OnDenial || c.Mode == Charge && c.Limit.spec.Extends()
}

// writes reports whether a check may write: it repairs a state, so that the answer may be remembered.
func writes(c Check) bool { return c.Mode == Charge || c.asksBan() }

// heedBans returns what is answered from memory of a call with bans, and whether a ban is known to be in force:
// then nothing else matters. If only another check is known to be denied, the store has to know, since that may be a
// strike.
func (c *denialCache) heedBans(of *Call, denied uint64, all bool) (set uint64, allDenied, banned bool) {
	shadows := false
	for i := range of.Checks {
		banned = banned || denied&(1<<i) != 0 && heedsBan(of.Checks[i])
		shadows = shadows || of.Checks[i].Shadow
	}
	switch {
	case banned && !shadows && !all:
		for i := range of.Checks {
			if denied&(1<<i) == 0 {
				of.Decisions[i] = Decision{Allowed: true, Limit: of.Checks[i].Limit}
			}
		}
		if c.trace.Repeated != nil {
			c.trace.Repeated()
		}
		return denied, true, true
	case !banned && slices.ContainsFunc(of.Checks, strikesIfDenied):
		return 0, false, false
	}
	return denied, all, banned
}

// repeatOne answers a check that is no shadow from memory, if it can.
func (c *denialCache) repeatOne(check *Check, decision *Decision, now int64) bool {
	own := denials.Check{Key: check.Key, Spec: check.Limit.spec, Units: check.Units(), Headroom: check.Headroom}
	d, retryAfter, gone := c.denials.Repeat(&own, now)
	if d == nil {
		return false
	}
	*decision = Decision{Limit: check.Limit, Degraded: d.Degraded, Remaining: d.Remaining, RetryAfter: retryAfter, Estimated: d.Estimated}
	decision.NextAfter, decision.ResetAfter = d.NextAfter-gone, d.ResetAfter-gone
	return true
}

// denialCheck returns what denials are remembered by.
func denialCheck(c *Check) denials.Check {
	return denials.Check{Key: c.Key, Spec: c.spec(), Units: c.Units(), Headroom: c.Headroom}
}

// remember keeps the denials of a call that was sent at an instant. checks are those of the call.
func (c *denialCache) remember(of *Call, checks []denials.Check, sent int64) {
	received := c.denials.Now()
	for i := range checks {
		check, d := &of.Checks[i], &of.Decisions[i]
		if d.Allowed || check.Shadow || met(of.Checks, i) || check.reserves() || check.Limit.spec.Extends() ||
			!writes(*check) { // it repairs no state, so that its wait may stand still
			continue
		}
		c.denials.Remember(&checks[i], denials.Denial{
			Degraded: d.Degraded, Remaining: d.Remaining,
			RetryAfter: d.RetryAfter, NextAfter: d.NextAfter, ResetAfter: d.ResetAfter, Estimated: d.Estimated,
		}, sent, received)
	}
}

// noticeGivenBack forgets denials that are due to charges which have been given back.
func (c *denialCache) noticeGivenBack(givenBack []call.Correction) {
	for i := range givenBack {
		c.denials.Forget(givenBack[i].Key, givenBack[i].Spec)
	}
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
