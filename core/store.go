package core

import (
	"context"
	"math"

	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/inspect"
	"github.com/weir-go/ratelimit/core/internal/redisstore"
)

// Store keeps the state of limits and decides calls. [NewRedis], [NewMemory] and [NewTableStore] make one,
// the last of any table whose rows can be updated atomically, and denialcache.New and [Lease] make one around another.
// Package storetest has the tests that every store must pass.
//
// A Store may be used by many goroutines at once. A [Limiter] validates calls before it makes them, and
// makes none about [Unlimited]. A store must neither read nor write its arguments after it has returned.
type Store interface {
	// Decide decides calls, one after the other, as if each had come alone at the same instant. It
	// stops after the first call that is denied, and returns how many calls it has answered. It may
	// stop earlier, but must answer the first call: it is enough to decide calls[0] and return 1.
	//
	// The calls after the first one differ from it in the Cost of their first check alone. They have
	// neither shadow checks nor [Call.Times].
	//
	// If it returns an error, no answer means anything, and whether the first call was charged may be unknown: see
	// [ErrNotDone]. If places of [Concurrent] limits may have been taken, their receipts should be valid, so that the
	// [Limiter] can give the places back.
	Decide(ctx context.Context, calls []Call) (answered int, err error)

	// Settle corrects charges, all of them at once. A window is corrected if it is the one that was charged. A meter gets
	// back the units that were charged too much, less those drained since. Missing units are charged now. Limits never
	// become more than full or less than empty. A limit with numbers that have changed since the charge keeps the new
	// ones. See [Reservation.Settle], [Limiter.Refund] and [Limiter.Charge].
	//
	// If a settlement is of a charge with a [Check.ReserveFor], the ended reservations of that key and limit are given
	// back before the first settlement of the call. A charge that was given back already is not corrected: the whole Cost
	// is charged as of now, and the Settlement is Lost. Such a settlement is sent even if the cost is as it was reserved,
	// since it keeps the charge from being given back.
	//
	// It writes the [Settlement.Decision] of each settlement that asks for one and was carried out: the numbers after all
	// settlements of the call.
	//
	// If it returns an error, some may have been settled, unless it is [ErrNotDone]. A
	// [PartlySettledError] tells which were certainly not.
	Settle(ctx context.Context, settlements []Settlement) error

	// Reset makes a key as good as new under the given limits. Afterwards, Settle gives back nothing
	// that was charged before.
	Reset(ctx context.Context, key string, limits []Limit) error

	// Ping reports whether calls can be answered, and makes the first one as quick as the others.
	Ping(ctx context.Context) error

	// Close closes the parts that the store has opened itself.
	Close() error
}

// Call is several checks that are asked together, and the answer.
//
// A check about a [Ban] with the [Mode] [OnDenial] strikes if the call is denied, unless a ban that a check of the call
// asks about is in force. In that case the Decisions of checks of other limits need not have numbers.
//
// If all checks fit, all are charged; otherwise none is, and nothing changes. Each [Check.Shadow] check is decided by
// itself, after the others at the same instant, in a state of its own. Checks of the same key and limit add up in order.
// A check asks for its [Check.Units], and its [Mode] tells whether they are charged. It fits if its [Check.Headroom]
// fits, too.
//
// Alternatives ([Check.Or]) count as one check, which fits if one of them does. The first that fits is
// charged, and nothing is charged of the others. Each is decided by itself: the costs of other checks do
// not add up with its own. Shadow checks that are alternatives of each other are one call.
type Call struct {
	// Checks has at least one check.
	Checks []Check
	// The store writes its answers into Decisions, one for each check. The Decision of a check that is not charged has
	// the numbers of now. If a call charges nothing but shadow checks, each Decision has its Delay even if another check
	// is denied. Of alternatives, the store sets Waived in all Decisions but one.
	Decisions []Decision
	// The store writes a receipt for each check into Receipts, for a later settlement. It is nil if the call will not be
	// settled.
	Receipts []Receipt
	// Times is how often the call is made, one time after the other. As many are granted as fit, and
	// the Decisions are about all of them as one. 0 means once. A store may grant fewer, but must
	// grant one if one fits. A call with Times comes alone, and has neither shadow checks nor alternatives.
	Times int
	// Granted is where the store writes how many of Times it has granted.
	Granted int

	inside *inside // nil: a store of this package has not decided the call, or is deciding it
	// waiters register the checks, each if it is not nil. The list is nil, or has as many as there are checks.
	waiters []*call.Waiter
}

// Receipt tells a [Store] about a charge, so that the store can settle it. The zero Receipt tells nothing: the charge is
// settled as if it had been made now.
type Receipt struct {
	// At is the instant of the decision on the store's clock, in microseconds since 1970.
	At int64
	// The store that writes the Note is the only one that reads it.
	Note [4]int64
}

// Passed reports whether a decided call has passed: no check denies it, shadow checks aside.
func (c *Call) Passed() bool { return passed(c.Checks, c.Decisions) }

// passed reports whether a call of these checks passes.
func passed(checks []Check, decisions []Decision) bool {
	for i := range decisions {
		if decisions[i].Denies() && !checks[i].Shadow {
			return false
		}
	}
	return true
}

// decide has a store decide the checks of a call that are not under Unlimited. It writes all decisions of the call, and its
// receipts unless receipts is nil, because the call will not be settled. waiters are the waiters of the checks, or nil.
func decide(ctx context.Context, store Store, checks []Check, decisions []Decision, receipts []Receipt, waiters []*call.Waiter) error {
	for i := range checks {
		if checks[i].Limit == Unlimited {
			return decideLimited(ctx, store, checks, decisions, receipts, waiters)
		}
	}
	q := lones.Get().(*lone) //nolint:forcetypeassert // the pool holds nothing else
	defer q.free()
	own := &q.calls[0]
	own.Checks, own.Decisions, own.Receipts, own.waiters = checks, decisions, receipts, waiters
	_, err := store.Decide(ctx, q.calls[:])
	return err
}

// decideLimited is decide for a call with checks under Unlimited, which no store is asked about.
func decideLimited(ctx context.Context, store Store, checks []Check, decisions []Decision, receipts []Receipt, waiters []*call.Waiter) error {
	for i := range decisions {
		decisions[i] = unlimitedDecision()
	}
	err := limitedPartOf(checks).decide(ctx, store, decisions, receipts, waiters)
	for i := range decisions { // another check may have stood for it
		if checks[i].Limit == Unlimited {
			decisions[i] = unlimitedDecision()
		}
	}
	waive(checks, decisions)
	return err
}

// unlimitedDecision is the answer to every check under Unlimited.
func unlimitedDecision() Decision {
	return Decision{Allowed: true, Limit: Unlimited, Remaining: math.MaxInt}
}

// part is some checks of a call, which a store decides without the others.
type part struct {
	checks []Check
	places []int // of the checks in the call
}

// limitedPartOf returns the checks of a call except those under Unlimited. For alternatives with one under Unlimited, it
// returns the result of addAlternatives.
func limitedPartOf(checks []Check) (p part) {
	for first := 0; first < len(checks); first = endOf(checks, first) {
		p.addAlternatives(checks, first, endOf(checks, first))
	}
	return p
}

// decide has a store decide the part, and writes its decisions among those of the call, and its receipts
// unless that is nil.
func (p part) decide(ctx context.Context, store Store, decisions []Decision, receipts []Receipt, waiters []*call.Waiter) error {
	if len(p.checks) == 0 {
		return nil
	}
	told, own := make([]Decision, len(p.checks)), []Receipt(nil)
	if receipts != nil {
		own = make([]Receipt, len(p.checks))
	}
	var registered []*call.Waiter
	for _, place := range p.places {
		if waiters != nil {
			registered = append(registered, waiters[place])
		}
	}
	err := decide(ctx, store, p.checks, told, own, registered)
	for i, place := range p.places {
		decisions[place] = told[i]
		if receipts != nil {
			receipts[place] = own[i]
		}
	}
	return call.PlacedError(err, p.places)
}

// inspected returns a store without the caches in front of it, and its kind, for packages admin and doctor.
func inspected(store Store) inspect.Store {
	switch store := store.(type) {
	case *denialCache:
		return inspected(store.store)
	case *leaseStore:
		return inspected(store.store)
	case *redisStore:
		return inspect.Store{Own: store, Redis: store.store}
	case *memoryStore:
		return inspect.Store{Own: store, Memory: store.store}
	}
	return inspect.Store{Own: store}
}

// redisOf returns the Redis store inside a store, or nil if there is none.
func redisOf(store Store) *redisstore.Store { return inspected(store).Redis }
