package core

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/denials"
	"github.com/weir-go/ratelimit/core/internal/exact"
	"github.com/weir-go/ratelimit/core/internal/lease"
	"github.com/weir-go/ratelimit/internal/bounded"
)

// Tolerance says how much more than its limits a store of [Lease] may admit.
type Tolerance struct {
	// Over is the part of a limit's capacity that may be admitted too much, however many servers there are: 0.01 is one in a
	// hundred. The default is 0, under which nothing is leased. It must be from 0 to 1. All servers should have the same.
	Over float64
}

// leaseStore is the store that [Lease] makes.
type leaseStore struct {
	store  Store
	over   float64
	grants *lease.Set
	traces traces
	trace  Trace // all of them
	logger func() *slog.Logger
}

// Lease returns a [Store] around another store, for keys that are asked for more often than Redis, or the way there, can
// bear. It has the store charge units of a hot key ahead of time, a batch at once, and spends them in this process: a check takes
// less than a microsecond and no round trip.
//
//	limiter := core.New(core.Lease(core.NewRedis(client), core.Tolerance{Over: 0.01}))
//
// The price is stated, and does not depend on how many servers there are. Let a limit have the capacity B and the rate r; leases
// last L = Over·B/r, a second at most, and half of that for sliding limits.
//
//   - [Leaky], [TokenBucket] and [GCRA] admit at most B + r·(τ+L) in any time τ: Over·B more than the store alone.
//   - [FixedWindow] and [Calendar] admit no more than the store alone, since a lease ends with its window.
//   - [SlidingLog] admits at most n + Over·n in any window's length.
//   - [SlidingWindow] admits at most n + Over·n by its own estimate, and so in each of its aligned windows. The estimate itself
//     lets nearly 2n pass in other windows of the same length: see there. The two together admit fewer than 2·(n + Over·n) in any of them.
//   - [Shaping] and [Concurrent] limits, bans, balances, and limits of [Quota.Exact] are never leased.
//
// A limit stays exact if its leases would last less than two milliseconds, or if fewer than two units flow through it
// meanwhile. So does a key of which this process asks for fewer than eight units in the time of a lease. A process asks
// for the units that it needs in half of that time, in the background. It gives unspent units back; if it dies, they stay
// charged.
//
// No denial is invented: the store is asked about units that cannot be spent here. Its denials are remembered and repeated for as long as they
// cannot have changed, with the bounds of denialcache.New. So a key that is used up costs the store a call in each retry period. Lease remembers
// up to 100,000 denials, the latest 50,000 in any case. For another number, or another clock in tests, put a cache of your own beneath:
// Lease(denialcache.New(store, size), tolerance). Above a store of [NewMemory], which answers as fast, and with an Over of 0, nothing
// is remembered.
//
// A call is answered from leases if all of its checks can be. These calls always ask the store: those with a [Check.Mode]
// other than [Charge], such as a question about a ban, with alternatives ([FirstOf]), [Check.Shadow], [Check.Headroom],
// [Check.Undelayed] or [Check.ReserveFor], and calls that can be settled or are made several times ([Limiter.Reserve],
// [Limiter.Acquire], [Limiter.Wait], [Limiter.AllowAtMost]). [Decision.Leased] tells which answers came from a lease:
// their numbers are estimates.
//
// A lease lapses on this process's monotonic clock, counted from when it was asked for: neither a pause of the process,
// nor a lost reply, nor a step of the server's clock makes it longer. If Redis is down, leased units may be spent until
// the lease lapses. [Limiter.Reset] ends the leases of its key in this process, and so does a check of a named limit with
// other numbers; in other processes the lease ends when it lapses. Close gives back the units that are left.
//
// Lease has goroutines only while it asks for leases or gives back. It takes [WithTrace] and [WithLogger]. A nil store,
// an Over that is not from 0 to 1, and an option that does not suit it panic. Close closes the store, too.
func Lease(store Store, tolerance Tolerance, options ...Option) Store {
	if store == nil {
		panic("core: Lease needs a Store")
	}
	if !(tolerance.Over >= 0 && tolerance.Over <= 1) {
		panic(fmt.Sprintf("core: a tolerance of %v over is not from 0 to 1", tolerance.Over))
	}
	l := &leaseStore{store: store, over: tolerance.Over, traces: tracesOf(store), logger: slog.Default}
	apply("Lease", options, ofLease, l)
	l.trace = l.traces.told(l.logger)
	l.store = l.remembering(store)
	config := lease.Config{Over: l.over, Ask: l.ask, Return: l.giveBack}
	if l.trace.Leased != nil {
		config.Tell = l.tell
	}
	l.grants = lease.NewSet(config)
	return l
}

// leasedDenials is how many denials a store of [Lease] remembers.
const leasedDenials = 100_000

// remembering returns the store with a cache of its denials, unless it has one or needs none: a store in memory is as
// fast, and tests set its clock.
func (l *leaseStore) remembering(store Store) Store {
	if l.over == 0 {
		return store
	}
	switch store.(type) {
	case *denialCache, *memoryStore:
		return store
	}
	c := newDenialCache(store, bounded.New[exact.Key, *denials.Entry](leasedDenials))
	c.traces, c.trace, c.logger = l.traces, l.trace, l.logger
	return c
}

func (l *leaseStore) Decide(ctx context.Context, calls []Call) (answered int, err error) {
	if ctx.Err() != nil {
		return 0, call.Unsent(call.GivenUp, "core: the call was given up: %w", context.Cause(ctx))
	}
	first := &calls[0]
	var room [4]lease.Wanted
	wanted := wantedOf(room[:0], first)
	if l.grants.SpendAll(wanted, func(i int, spent lease.Spent) {
		first.Decisions[i] = leasedDecision(first.Checks[i].Limit, spent)
	}) {
		return 1, nil
	}
	answered, err = l.store.Decide(ctx, calls)
	if err == nil && first.Passed() {
		l.grants.Admitted(wanted...)
	}
	return answered, err
}

// wantedOf returns the checks of a call in the form in which units are granted, in an empty list if it has room.
func wantedOf(list []lease.Wanted, c *Call) []lease.Wanted {
	for i := range c.Checks {
		check := &c.Checks[i]
		list = append(list, lease.Wanted{
			Key: check.Key, Spec: check.Limit.known(), Units: check.Units(), Charges: check.Mode == Charge,
			StoreOnly: c.Receipts != nil || c.Times > 1 || check.Shadow || !check.plain(),
		})
	}
	return list
}

// spendNow answers a check of a key from its lease, if the lease has the units, and otherwise does nothing. Only valid
// keys and limits have leases, so that nothing else has to be validated.
func (l *leaseStore) spendNow(ctx context.Context, key string, limit Quota, units int) (d Decision, ok bool) {
	if units < 1 || ctx.Err() != nil {
		return Decision{}, false
	}
	spent, ok := l.grants.SpendNow(key, limit.known(), units)
	if !ok {
		return Decision{}, false
	}
	return leasedDecision(limit, spent), true
}

// leasedDecision is the answer to a check from a lease.
func leasedDecision(limit Limit, spent lease.Spent) Decision {
	remaining, next, reset := spent.Answer()
	return Decision{
		Allowed: true, Leased: true, Limit: limit,
		Remaining: min(remaining, limit.known().Capacity), NextAfter: next, ResetAfter: reset,
	}
}

// ask has the store charge units of a key ahead of time, and the same units of the meter that bounds the leases.
func (l *leaseStore) ask(ctx context.Context, key string, spec *exact.Spec, terms *lease.Terms, want int) (lease.Asked, error) {
	checks := []Check{{Key: key, Limit: Quota{limit{spec}}}}
	if terms.Meter.Algorithm != exact.None {
		checks = append(checks, Check{Key: key, Limit: Quota{limitWith(terms.Meter)}})
	}
	calls := []Call{{Checks: checks, Decisions: make([]Decision, len(checks)), Receipts: make([]Receipt, len(checks)), Times: want}}
	own := &calls[0]
	err := unlessPanicked(func() error {
		_, err := l.store.Decide(ctx, calls)
		return err
	})
	if err != nil || !own.Passed() {
		return lease.Asked{}, err
	}
	d := &own.Decisions[0]
	return lease.Asked{
		Units: max(1, own.Granted), Remaining: d.Remaining, Next: d.NextAfter, Reset: d.ResetAfter, Receipt: own.Receipts[0],
	}, nil
}

// giveBack gives the unspent units of leases back to the store. The meter that bounds them gets nothing back: it
// drains by itself while a lease lasts.
func (l *leaseStore) giveBack(ctx context.Context, list []lease.Unspent) error {
	settlements := make([]Settlement, len(list))
	for i := range list {
		u := &list[i]
		receipt := u.Receipt.(Receipt) //nolint:forcetypeassert // ask has put it there
		settlements[i] = Settlement{
			Check: Check{Key: u.Key, Limit: Quota{limit{u.Spec}}, Cost: u.Units}, Cost: u.Spent, Receipt: receipt,
		}
	}
	return unlessPanicked(func() error { return l.store.Settle(ctx, settlements) })
}

func (l *leaseStore) tell(e lease.Ended) {
	l.trace.Leased(Leased{
		Limit: Quota{limit{e.Spec}}, Over: l.over,
		Granted: e.Granted, Spent: e.Spent, Returned: e.Returned, Lapsed: e.Lapsed, Late: e.Late,
	})
}

// Settle leaves leases as they are: units charged for leases are settled apart.
func (l *leaseStore) Settle(ctx context.Context, settlements []Settlement) error {
	return l.store.Settle(ctx, settlements)
}

// Reset ends the leases of the key before the store resets it, and again afterwards, for leases that were granted in
// between.
func (l *leaseStore) Reset(ctx context.Context, key string, limits []Limit) error {
	all := slices.Clone(limits)
	for _, limit := range limits {
		l.grants.End(key, limit.known())
		if meter, metered := l.grants.Meter(limit.known()); metered {
			all = append(all, Quota{limitWith(meter)})
		}
	}
	err := l.store.Reset(ctx, key, all)
	for _, limit := range limits {
		l.grants.End(key, limit.known())
	}
	return err
}

func (l *leaseStore) Ping(ctx context.Context) error { return l.store.Ping(ctx) }

func (l *leaseStore) Close() error {
	l.grants.Close()
	return l.store.Close()
}
