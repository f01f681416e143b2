package core

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/exact"
	"github.com/weir-go/ratelimit/core/internal/wait"
)

// LimitedError is the error of [Limiter.Wait], [Limiter.WaitN], [Limiter.WaitAll], [Limiter.Acquire], [Limiter.TryAcquire]
// and [Limiter.Do] when a limit keeps them from being admitted in time. [errors.As] finds it.
type LimitedError struct {
	// Decision is the latest answer. Its RetryAfter is when to retry at the earliest,
	// with the other waiters of this process counted in. It is [Never] if no wait
	// helps. Its Delay is the turn of a [Shaping] limit that comes too late.
	Decision Decision

	cause error
}

func (e *LimitedError) Error() string {
	if e.Decision.RetryAfter == Never {
		return fmt.Sprintf("core: limited: the cost exceeds %s", e.Decision.Limit)
	}
	if e.Decision.Estimated {
		return fmt.Sprintf("core: limited by %s: nothing was free in time, and the next may be in %v", e.Decision.Limit, e.Decision.RetryAfter)
	}
	return fmt.Sprintf("core: limited by %s: next in %v, which is too late", e.Decision.Limit, e.Decision.RetryAfter+e.Decision.Delay)
}

// Unwrap returns [context.DeadlineExceeded] if the context's deadline comes too soon,
// and nil if the longest wait does.
func (e *LimitedError) Unwrap() error { return e.cause }

// WaitOption changes how [Limiter.Wait] and [Limiter.Do] wait.
type WaitOption interface{ applyWait(*waiting) }

type waitOption func(*waiting)

func (o waitOption) applyWait(w *waiting) { o(w) }

// WithLongestWait bounds how long to wait, in addition to the context's deadline. 0 does
// not wait at all. The default is no bound. Less than 0 panics.
func WithLongestWait(d time.Duration) WaitOption {
	if d < 0 {
		panic(fmt.Sprintf("core: a longest wait of %v is less than 0", d))
	}
	return waitOption(func(w *waiting) { w.until, w.tries = time.Now().Add(d), d == 0 })
}

// WithHoldBack makes the wait heed [Limiter.HoldBack] of the key, in the same round
// trip: while the key is held back, nothing is charged.
func WithHoldBack() WaitOption {
	return waitOption(func(w *waiting) { w.request.Heeds = true })
}

// Wait returns when one unit has been admitted and charged, and for a [Shaping] limit when its turn has
// come. Otherwise it returns an error: a [LimitedError] if that cannot be before the context's deadline
// (then it does not wait at all) or the longest wait, the context's error if the context ends, or the
// store's error. Wait ends at the latest with the context or the longest wait. A call that is in flight
// then is answered first, within the store's budget.
//
// After an error nothing stays charged: a unit that is granted when the caller has left is given back
// in the background, and the turn of a [Shaping] limit as [Reservation.Wait] says. Only after a
// time-out or a broken connection ([TimedOut], [Unreachable]) the unit may have been charged.
//
// Under [Unlimited], Wait returns at once. Otherwise it checks, sleeps until RetryAfter and checks again. It looks sooner where that
// is far away: see below.
//
// The waiters of one key and limit in this process are served in the order in which they came, and share calls, as many
// as fit. Waiters [WithHoldBack] have a queue of their own, as have those under each of several plans of one name. Queues of the
// same capacity are in one order. While a key is held back, its queue of waiters [WithHoldBack] is not in that order.
//
// Processes that share a Redis serve their waiters in that order to within 100 milliseconds: the first waiter of a
// process, once it has been denied, leaves room for the waiters of other processes that came before it. Calls that do not
// wait, as [Limiter.Allow], heed no waiter, nor does the first try of a Wait in a process without waiters. A process that
// has died costs the others its turn, for a second at most. There is no such order with [Lease].
//
// After a [Limiter.Refund], a [Limiter.Reset] or a settlement of this process, its waiters check at once. Those of other processes
// that share a Redis look whether there is room once a second at first, then each time when they have waited for a quarter longer, and at the latest
// every ten seconds. Wait ends with [Limiter.Close], too.
func (l *Limiter) Wait(ctx context.Context, key string, limit Quota, options ...WaitOption) error {
	return l.WaitN(ctx, key, limit, 1, options...)
}

// WaitN is [Limiter.Wait] for n units together. A large cost is not overtaken by
// smaller ones behind it.
func (l *Limiter) WaitN(ctx context.Context, key string, limit Quota, n int, options ...WaitOption) error {
	began := time.Now()
	err := l.waitN(ctx, key, limit, n, options)
	if l.trace.Wait != nil {
		l.trace.Wait(Wait{Limit: limit, Units: n, Elapsed: time.Since(began), Err: err})
	}
	return err
}

func (l *Limiter) waitN(ctx context.Context, key string, limit Quota, n int, options []WaitOption) error {
	w := &waiting{request: wait.Request{QueueKey: wait.QueueKey{Key: key, Limit: limit.known()}, Cost: n}}
	if err := validate(checksOfWaiter(&w.request)); err != nil {
		return err
	}
	if err := w.begin(ctx, options); err != nil {
		return err
	}
	if limit == Unlimited {
		return nil
	}
	if n > limit.Capacity() { // it is denied without a queue
		decisions, err := l.AllowAll(ctx, checksOfWaiter(&w.request)[:1]...)
		if err != nil {
			return err
		}
		return &LimitedError{Decision: decisions[0]}
	}
	var granted wait.Grant
	var err error
	if w.tries {
		granted, err = l.waiters.Try(ctx, w.request)
	} else {
		granted, err = l.waiters.Wait(ctx, w.request, w.until)
	}
	if err != nil {
		return err
	}
	r := granted.(grant).Reservation //nolint:forcetypeassert // askForWaiters grants nothing else
	return r.wait(ctx, w.until, func(error) error { return granted.Deny(&w.request) })
}

// Do waits like [Limiter.Wait], then runs a function and returns its error. If Wait
// fails, the function is not run. If the function fails, the unit stays charged. The
// longest wait does not bound the function.
func (l *Limiter) Do(ctx context.Context, key string, limit Quota, fn func(context.Context) error, options ...WaitOption) error {
	if err := l.Wait(ctx, key, limit, options...); err != nil {
		return err
	}
	return fn(ctx)
}

// heldBack is a limit with a level that is the time for which a key is held back, in milliseconds. Its
// name is reserved.
var heldBack = GCRA(int(longestHoldBack/time.Millisecond), Per(1000, time.Second)).ownNamed(exact.Reserved + "held-back")

// longestHoldBack bounds the time of [Limiter.HoldBack].
const longestHoldBack = 24 * time.Hour

// HoldBack keeps all waiters [WithHoldBack] in the fleet from using a key for a time,
// such as another server's Retry-After. The time is rounded up to milliseconds, and is
// at most 24 hours. Of several times, the one that ends last counts.
func (l *Limiter) HoldBack(ctx context.Context, key string, d time.Duration) error {
	milliseconds := exact.DivideUp(int64(min(max(0, d), longestHoldBack)), int64(time.Millisecond))
	check := checkOf(key, heldBack, 0)
	if err := validate([]Check{check}); err != nil || milliseconds == 0 {
		return err
	}
	return l.settle(ctx, []Settlement{{Check: check, Cost: int(milliseconds), Raise: true}})
}

func gaveUp(ctx context.Context) error {
	return fmt.Errorf("core: the wait was given up: %w", context.Cause(ctx))
}

// waiting is a wait with its options.
type waiting struct {
	request    wait.Request
	until      time.Time // zero: for ever
	tries      bool      // it does not wait
	placesOnly bool      // see unexported.PlacesOnly
}

// begin applies the options, and bounds the wait by the context's deadline.
func (w *waiting) begin(ctx context.Context, options []WaitOption) error {
	for _, option := range options {
		option.applyWait(w)
	}
	if ctx.Err() != nil {
		return gaveUp(ctx)
	}
	if deadline, ok := ctx.Deadline(); ok && (w.until.IsZero() || deadline.Before(w.until)) {
		w.until, w.request.Cause = deadline, context.DeadlineExceeded
	}
	return nil
}

// checksOfWaiter returns the checks of a waiter: that of the limit, and perhaps that of heldBack.
func checksOfWaiter(q *wait.Request) []Check {
	checks := []Check{checkOf(q.Key, limitOf(q.Limit), q.Cost)}
	if heldUp(q) {
		checks[0].Mode = Condition
	} else {
		checks[0].Headroom = q.Older.Units
	}
	if q.Heeds {
		checks = append(checks, heldBackCheck(q.Key))
	}
	return checks
}

// heldBackCheck returns the condition that a key is not held back.
func heldBackCheck(key string) Check {
	return Check{Key: key, Limit: heldBack, Cost: heldBack.Capacity(), Mode: Condition}
}

// Wait waits for the reservation's turn under [Shaping] limits: for the longest Delay of the
// decisions, counted from when they were made. It returns at once if no limit is a Shaping one.
//
// If the context ends first, or its deadline comes too soon (then Wait does not wait at all),
// everything that was reserved is given back in the background, and the error says why. The turn goes
// to the next waiter in this process for as many units. All waiters behind move up by a turn, so that
// the pace stays even. The last turn is free again, unless a request of another process has queued
// behind it.
//
// Call Wait before Settle and Cancel: after them it returns an error at once.
func (r *Reservation) Wait(ctx context.Context) error {
	return r.wait(ctx, time.Time{}, func(reason error) error { return reason })
}

// wait is Wait until an instant at most. late makes an error of a turn that comes later.
func (r *Reservation) wait(ctx context.Context, until time.Time, late func(reason error) error) error {
	if r.ledger.settled {
		return ErrSettled
	}
	index, queues := r.shaped()
	if queues == 0 || !r.Allowed() {
		return nil
	}
	if deadline, ok := ctx.Deadline(); ok && (until.IsZero() || deadline.Before(until)) {
		until = deadline
	}
	delay := r.decisions[index].Delay
	due := r.answered.Add(delay)
	if !until.IsZero() && until.Before(due) {
		// The store has decided at some time between asked and answered.
		if until.Before(r.asked.Add(delay)) {
			r.giveBackLater()
			return late(fmt.Errorf("core: the turn comes in %v, after the deadline: %w", delay, context.DeadlineExceeded))
		}
		due = until
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(r.limiter.open, func() { cancel(context.Cause(r.limiter.open)) })()
	if queues > 1 { // a turn in several queues cannot be handed on
		if wait.Until(ctx, due) {
			return nil
		}
		r.giveBackLater()
		return gaveUpTurn(ctx)
	}
	turn, came := r.limiter.turns.Wait(ctx, r.turnKey(index), due, call.Receipt(r.receipts[index]), func(last call.Receipt) {
		r.receipts[index] = Receipt(last)
		r.giveBackLater()
	})
	if !came {
		return gaveUpTurn(ctx)
	}
	r.receipts[index] = Receipt(turn)
	return nil
}

// shaped returns the check with the longest Delay, and how many have one.
func (r *Reservation) shaped() (index, queues int) {
	for i := range r.decisions {
		if d := r.decisions[i].Delay; d > 0 && !r.checks[i].Shadow {
			queues++
			if queues == 1 || d > r.decisions[index].Delay {
				index = i
			}
		}
	}
	return index, queues
}

func gaveUpTurn(ctx context.Context) error {
	return fmt.Errorf("core: gave up a turn: %w", context.Cause(ctx))
}

// giveBackLater gives everything back in the background. The reservation counts as settled then.
func (r *Reservation) giveBackLater() { _ = r.SettleLater(make([]int, len(r.checks))...) }

func (r *Reservation) turnKey(index int) wait.TurnKey {
	c := &r.checks[index]
	return wait.TurnKey{Key: c.Key, Limit: c.Limit.known().Identity(), Cost: c.Units()}
}
