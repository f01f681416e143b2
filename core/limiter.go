package core

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/redisstore"
	"github.com/weir-go/ratelimit/core/internal/wait"
)

// Limiter answers whether something may happen now. It is a [Store] with the
// convenient verbs on it, made by [New] or [Open].
//
// A Limiter may be used by many goroutines at once. A denial is a [Decision]; an
// error means that the call could not be answered. Calls that make no sense (an
// empty key, a negative cost, a limit that is not valid) are errors that change
// nothing and never reach the store.
type Limiter struct {
	store      Store
	decider    Store         // the store, or a store that tells a trace of its decisions
	leases     *leaseStore   // the decider, if it leases, and otherwise nil
	budget     time.Duration // of the store; 0: it has none
	traces     traces
	trace      Trace // all of them
	waiters    *wait.Queues
	ranks      ranks      // of waiters
	registered registered // of the lines
	turns      wait.Turns
	logger     func() *slog.Logger
	background backlog
	losses     losses // of the background
	besides    besides
	late       call.Warning      // of settlements after ReserveFor
	forgiven   call.Warning      // of settlements beyond a limit without debt
	lines      *wait.Lines       // of calls that wait for places, or for rates by WaitAll
	wakes      *redisstore.Wakes // nil: the store has no order over processes
	places     *wait.Places      // that are held

	open  context.Context //nolint:containedctx // ends with Close, and no wait outlives it
	close context.CancelCauseFunc
}

// New returns a Limiter on a store. It does not ask the store yet. It takes [WithLogger] and [WithTrace]. A
// nil store panics, and so does another option.
func New(store Store, options ...Option) *Limiter {
	if store == nil {
		panic("core: New needs a Store: use core.NewRedis or core.NewMemory")
	}
	l := &Limiter{store: store, decider: store, traces: tracesOf(store)}
	if r := redisOf(store); r != nil {
		l.budget = r.Budget
	}
	l.lines = wait.NewLines(l.poll)
	if r := redisOf(store); r != nil {
		l.wakes = r.NewWakes(l.wakeLine, l.ranks.stand)
	}
	l.open, l.close = context.WithCancelCause(context.Background())
	l.waiters = waitersOf(l)
	l.places = placesOf(l)
	l.logger = slog.Default
	l.background.init(l)
	apply("New", options, ofLimiter, l)
	if l.trace = l.traces.told(l.logger); l.trace.Decided != nil {
		l.decider = &decidingStore{store, l.trace.Decided}
	}
	l.leases, _ = l.decider.(*leaseStore)
	return l
}

// Allow asks whether one unit may pass, and charges it if so. It is shorthand for
// AllowN(ctx, key, limit, 1).
func (l *Limiter) Allow(ctx context.Context, key string, limit Quota) (Decision, error) {
	return l.AllowN(ctx, key, limit, 1)
}

// AllowN asks whether n units may pass together, and charges them if so. If n is
// 0, nothing is charged, no key is created, and the answer is always allowed,
// with the numbers as they are. A negative n is an error.
func (l *Limiter) AllowN(ctx context.Context, key string, limit Quota, n int) (Decision, error) {
	if l.leases != nil {
		if d, ok := l.leases.spendNow(ctx, key, limit, n); ok {
			return d, nil
		}
	}
	q := newLone(key, limit, n)
	defer q.free()
	if !q.checks[0].plain() || limit == Unlimited {
		if err := validate(q.checks[:]); err != nil {
			return Decision{}, err
		}
		if limit == Unlimited {
			return unlimitedDecision(), nil
		}
	}
	if l.besides.giving.Load() > 0 {
		if err := l.decideSettled(ctx, q.checks[:], q.decisions[:], nil, nil); err != nil {
			return Decision{}, err
		}
		return q.decisions[0], nil
	}
	if _, err := l.decider.Decide(ctx, q.calls[:]); err != nil {
		return Decision{}, err
	}
	return q.decisions[0], nil
}

// AllowAtMost asks how many of n units may pass, and charges as many as fit: for a worker that takes up
// to n jobs at once. It returns how many were granted, and a Decision about all of them. If none was
// granted, the Decision is the denial of one unit. If n is 0, nothing is charged. A negative n is an
// error.
func (l *Limiter) AllowAtMost(ctx context.Context, key string, limit Quota, n int) (granted int, d Decision, err error) {
	if n <= 1 || limit == Unlimited {
		d, err = l.AllowN(ctx, key, limit, n)
		if err != nil || !d.Allowed {
			return 0, d, err
		}
		return n, d, nil
	}
	q := newLone(key, limit, 1)
	defer q.free()
	if err := validate(q.checks[:]); err != nil {
		return 0, Decision{}, err
	}
	q.calls[0].Times = min(n, limit.Capacity())
	if _, err := l.decider.Decide(ctx, q.calls[:]); err != nil {
		return 0, Decision{}, err
	}
	if d = q.decisions[0]; d.Allowed {
		granted = max(1, q.calls[0].Granted)
	}
	return granted, d, nil
}

// AllowAll decides several checks at one instant: if all fit, all are charged;
// otherwise none is. [Denied] returns the decision that denies the call, if one does; see [FirstOf]
// for checks that are alternatives of each other. The checks may mix algorithms, keys and costs; those of the same key and
// limit add up in order.
// [Check.Shadow] checks are decided on their own.
//
// On Redis this is one round trip, however many checks there are. A call has 256 checks at most, which take Redis about a
// millisecond; more are an error ([ErrInvalid]), here and wherever else a call of several checks is made.
func (l *Limiter) AllowAll(ctx context.Context, checks ...Check) ([]Decision, error) {
	c := Call{Checks: checks}
	if err := l.allowAll(ctx, &c); err != nil {
		return nil, err
	}
	return c.Decisions, nil
}

// allowAll is AllowAll with the memory of the Decisions that a call has.
func (l *Limiter) allowAll(ctx context.Context, c *Call) error {
	if err := validateKept(c.Checks); err != nil {
		return err
	}
	c.Decisions = slices.Grow(c.Decisions[:0], len(c.Checks))[:len(c.Checks)]
	return l.decideSettled(ctx, c.Checks, c.Decisions, nil, nil)
}

// Peek answers whether one unit would pass now. It charges nothing and leaves no trace, so Remaining is the number of
// units left now: 10 of a fresh limit of 10, where Allow says 9.
func (l *Limiter) Peek(ctx context.Context, key string, limit Limit) (Decision, error) {
	q := newLone(key, limit, 1)
	defer q.free()
	if err := validate(q.checks[:]); err != nil {
		return Decision{}, err
	}
	if limit == Unlimited {
		return unlimitedDecision(), nil
	}
	q.checks[0].Mode = Condition
	if _, err := l.decider.Decide(ctx, q.calls[:]); err != nil {
		return Decision{}, err
	}
	l.estimate(q.decisions[:])
	return q.decisions[0], nil
}

// PeekAll answers whether each of several checks would pass now, in one round trip. It charges nothing and leaves no
// trace: as with [Limiter.Peek], Remaining is the number of units left now. A check with the Mode [Look] gets the same
// numbers and is always allowed.
func (l *Limiter) PeekAll(ctx context.Context, checks ...Check) ([]Decision, error) {
	if err := validate(checks); err != nil {
		return nil, err
	}
	decisions := make([]Decision, len(checks))
	if err := decide(ctx, l.decider, conditions(checks), decisions, nil, nil); err != nil {
		return nil, err
	}
	l.estimate(decisions)
	waive(checks, decisions)
	return decisions, nil
}

// conditions returns the checks as conditions, which get the same answers and charge nothing.
func conditions(checks []Check) []Check {
	checks = slices.Clone(checks)
	for i := range checks {
		if checks[i].Mode == Charge || checks[i].Mode == OnDenial {
			checks[i].Mode = Condition
		}
	}
	return checks
}

// lone is a call that comes alone, with room for one check. It is used again, since a Store's arguments
// escape to the heap.
type lone struct {
	calls     [1]Call
	checks    [1]Check
	decisions [1]Decision
}

var lones = sync.Pool{New: func() any {
	q := new(lone)
	q.calls[0].Checks, q.calls[0].Decisions = q.checks[:], q.decisions[:]
	return q
}}

func newLone(key string, limit Limit, cost int) *lone {
	q := lones.Get().(*lone) //nolint:forcetypeassert // the pool holds nothing else
	c := &q.checks[0]
	if c.Key, c.Limit, c.Cost = key, limit, cost; cost == 0 {
		c.Mode = Look
	}
	return q
}

func (q *lone) free() {
	q.checks[0], q.decisions[0] = Check{}, Decision{}
	own := &q.calls[0]
	own.Checks, own.Decisions, own.Receipts, own.Times, own.Granted, own.waiters = q.checks[:], q.decisions[:], nil, 0, 0, nil
	lones.Put(q)
}

// Reset makes a key as good as new under the given limits, of which there must be
// at least one. Other limits of the same key are left alone. To settle an earlier
// charge afterwards gives nothing back.
func (l *Limiter) Reset(ctx context.Context, key string, limits ...Limit) error {
	if len(limits) == 0 {
		return invalid("core: reset of %q names no limit", key)
	}
	for _, limit := range limits {
		if err := validate([]Check{{Key: key, Limit: limit}}); err != nil {
			return err
		}
	}
	limits = slices.DeleteFunc(slices.Clone(limits), func(limit Limit) bool { return limit == Unlimited })
	if len(limits) == 0 {
		return nil
	}
	err := l.store.Reset(ctx, key, limits)
	for _, limit := range limits {
		l.wakeWaiters(&Check{Key: key, Limit: limit})
	}
	return err
}

// Ping reports whether the store can answer. On Redis it opens as many connections as
// are used at once and loads the scripts, so that no request waits for them: call it at
// start-up and in a readiness probe. Only ctx bounds it.
func (l *Limiter) Ping(ctx context.Context) error { return l.store.Ping(ctx) }

// Close closes the store, and with it the client that [Open] made. A client of your own
// is yours to close. Close first waits up to two seconds for settlements in the
// background, and logs how many could not be carried out. Permits that have not been released are no longer
// renewed. Waits end with an error, and so do calls after Close.
func (l *Limiter) Close() error {
	l.close(call.ErrClosed)
	if l.wakes != nil {
		l.wakes.Close()
	}
	l.besides.drain()
	l.background.drain()
	l.places.Close()
	err := l.store.Close()
	l.background.drain() // the settlements that were being tried have ended now
	l.endLosses()
	return err
}
