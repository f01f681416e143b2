package core

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weir-go/ratelimit/core/internal/exact"
	"github.com/weir-go/ratelimit/core/internal/queue"
)

// LimitedError is the error of [Limiter.Wait] and [Limiter.Do] when a limit keeps them
// from being admitted in time. [errors.As] finds it.
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
	return waitOption(func(w *waiting) { w.request.heeds = true })
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
// Under [Unlimited], Wait returns at once. Otherwise it checks, sleeps until RetryAfter and checks
// again, never sooner. The waiters of one key and limit in this process are served in the order in
// which they came, and share calls, as many as fit. Waiters [WithHoldBack] have a queue of their own.
// There is no order between the waiters of different processes.
func (l *Limiter) Wait(ctx context.Context, key string, limit Limit, options ...WaitOption) error {
	return l.WaitN(ctx, key, limit, 1, options...)
}

// WaitN is [Limiter.Wait] for n units together. A large cost is not overtaken by
// smaller ones behind it.
func (l *Limiter) WaitN(ctx context.Context, key string, limit Limit, n int, options ...WaitOption) error {
	if l.trace.Wait != nil {
		return l.tracedWait(ctx, key, limit, n, options)
	}
	return l.waitN(ctx, key, limit, n, options)
}

func (l *Limiter) waitN(ctx context.Context, key string, limit Limit, n int, options []WaitOption) error {
	w := &waiting{request: waitRequest{key: key, limit: limit, cost: n}}
	for _, option := range options {
		option.applyWait(w)
	}
	if err := validate(w.request.checks()); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return gaveUp(ctx)
	}
	if limit == Unlimited {
		return nil
	}
	if deadline, ok := ctx.Deadline(); ok && (w.until.IsZero() || deadline.Before(w.until)) {
		w.until, w.request.cause = deadline, context.DeadlineExceeded
	}
	if n > limit.Capacity() { // it is denied without a queue
		decisions, err := l.AllowAll(ctx, w.request.checks()[:1]...)
		if err != nil {
			return err
		}
		return &LimitedError{Decision: decisions[0]}
	}
	var r *Reservation
	var err error
	if w.tries {
		r, err = l.waiters.Try(ctx, w.request.queueKey(), w.request)
	} else {
		r, err = l.waiters.Wait(ctx, w.request.queueKey(), w.request, w.until)
	}
	if err != nil {
		return err //nolint:wrapcheck // it is one of this package's
	}
	if !r.checks[0].Limit.spec.Algorithm.Delays() {
		return nil
	}
	return r.wait(ctx, w.until, func(error) error { return w.request.deny(r.decisions[0], time.Time{}, &r) })
}

// Do waits like [Limiter.Wait], then runs a function and returns its error. If Wait
// fails, the function is not run. If the function fails, the unit stays charged. The
// longest wait does not bound the function.
func (l *Limiter) Do(ctx context.Context, key string, limit Limit, fn func(context.Context) error, options ...WaitOption) error {
	if err := l.Wait(ctx, key, limit, options...); err != nil {
		return err
	}
	return fn(ctx)
}

// heldBack is a limit whose level is how long a key is held back, in milliseconds. Its
// name is reserved.
var heldBack = GCRA(int(longestHoldBack/time.Millisecond), Per(1000, time.Second)).ownNamed(exact.Reserved + "held-back")

// longestHoldBack bounds the time of [Limiter.HoldBack].
const longestHoldBack = 24 * time.Hour

// HoldBack keeps all waiters [WithHoldBack] in the fleet from using a key for a time,
// such as another server's Retry-After. The time is rounded up to milliseconds, and is
// at most 24 hours. Of several times, the one that ends last counts.
func (l *Limiter) HoldBack(ctx context.Context, key string, d time.Duration) error {
	milliseconds := exact.DivideUp(int64(min(max(0, d), longestHoldBack)), int64(time.Millisecond))
	return l.settle(ctx, []Settlement{{Check: checkOf(key, heldBack, 0), Cost: int(milliseconds), Raise: true}})
}

func gaveUp(ctx context.Context) error {
	return fmt.Errorf("core: the wait was given up: %w", context.Cause(ctx))
}

// waiting is a wait with its options.
type waiting struct {
	request waitRequest
	until   time.Time // zero: for ever
	tries   bool      // it does not wait
}

// waitRequest is a waiter's request.
type waitRequest struct {
	key   string
	limit Limit
	cost  int
	heeds bool  // see WithHoldBack
	cause error // of a LimitedError: that of the context's deadline, or nil
}

// queueKey identifies a queue of waiters.
type queueKey struct {
	key   string
	limit *exact.Spec // its identity
	heeds bool
}

func (q *waitRequest) queueKey() queueKey { return queueKey{q.key, q.limit.spec.Identity(), q.heeds} }

// checks returns the checks of a waiter: that of the limit, and perhaps that of heldBack.
func (q *waitRequest) checks() []Check {
	checks := []Check{checkOf(q.key, q.limit, q.cost)}
	if q.heeds {
		checks = append(checks, Check{Key: q.key, Limit: heldBack, Cost: heldBack.Capacity(), Mode: Condition})
	}
	return checks
}

// waitersOf returns the queues of a limiter.
func waitersOf(l *Limiter) *queue.Queues[queueKey, waitRequest, *Reservation, Decision] {
	return queue.New(queue.Config[queueKey, waitRequest, *Reservation, Decision]{
		Ask:      l.askForWaiters,
		Return:   func(grants []*Reservation) { l.background.cancel(grants...) },
		Together: func(a, b waitRequest) bool { return a.limit == b.limit && (a.cost == 0) == (b.cost == 0) },
		Alike:    func(a, b waitRequest) bool { return a.limit == b.limit && a.cost == b.cost },
		Fits:     func(r *Reservation, q waitRequest) bool { return r.checks[0].Units() == q.cost },
		Late: func(r *Reservation, until time.Time) bool {
			delay := r.delay()
			return delay > 0 && until.Before(r.asked.Add(delay))
		},
		Takes: func(q waitRequest) time.Duration { return microseconds(q.limit.spec.Spacing(q.cost)) },
		Deny: func(q waitRequest, latest Decision, at time.Time, r **Reservation) error {
			return q.deny(latest, at, r)
		},
		GaveUp: gaveUp,
		Most:   mostTogether,
	})
}

// mostTogether is how many waiters share a call to the store at most.
const mostTogether = 1000

// askForWaiters makes the requests of some waiters, in their order.
func (l *Limiter) askForWaiters(ctx context.Context, requests []waitRequest) (a queue.Answer[*Reservation, Decision]) {
	calls := make([][]Check, len(requests))
	for i := range requests {
		calls[i] = requests[i].checks()
	}
	var granted []*Reservation
	var denied []Decision
	a.Err = unlessPanicked(func() (err error) {
		granted, denied, err = l.reserveInOrder(ctx, calls)
		return err
	})
	a.Grants = granted
	switch {
	case a.Err != nil:
	case denied != nil:
		a.Latest = denied[0]
		var held time.Duration
		if requests[0].heeds {
			held = denied[1].RetryAfter
		}
		if a.Never = a.Latest.RetryAfter == Never; !a.Never {
			a.Next, a.Full = time.Now().Add(max(a.Latest.RetryAfter, held)), a.Latest.RetryAfter >= held
		}
	default:
		a.Latest = granted[len(granted)-1].decisions[0]
		if a.Latest.Remaining == 0 {
			a.Next, a.Full = time.Now().Add(a.Latest.NextAfter), true
		}
	}
	return a
}

// reserveInOrder makes calls, which differ in the cost of their first check, until one is denied. It
// returns what was granted, and the denial if there is one. A store may answer only the first calls.
func (l *Limiter) reserveInOrder(ctx context.Context, calls [][]Check) (granted []*Reservation, denied []Decision, err error) {
	reservations, asked := make([]*Reservation, len(calls)), make([]Call, len(calls))
	for i, checks := range calls {
		r := l.newReservation(checks)
		reservations[i], asked[i] = r, Call{Checks: r.checks, Decisions: r.decisions, Receipts: r.receipts}
	}
	began := time.Now()
	answered, err := l.store.Decide(ctx, asked)
	switch {
	case err != nil:
		return nil, nil, err //nolint:wrapcheck // it is the store's
	case answered == 0:
		return nil, nil, errors.New("core: the store has answered none of the calls, want the first at least")
	}
	ended := time.Now()
	for i, r := range reservations[:answered] {
		if !asked[i].passed() {
			return reservations[:i], r.decisions, nil
		}
		r.asked, r.answered = began, ended
	}
	return reservations[:answered], nil, nil
}

// deny returns the error of a waiter that cannot be admitted before an instant, or whose turn comes too
// late.
func (q *waitRequest) deny(latest Decision, at time.Time, late **Reservation) error {
	if late != nil {
		return &LimitedError{Decision: (*late).decisions[0], cause: q.cause}
	}
	latest.Allowed, latest.Delay, latest.Limit = false, 0, q.limit
	if latest.RetryAfter != Never {
		latest.RetryAfter = max(0, time.Until(at))
	}
	return &LimitedError{Decision: latest, cause: q.cause}
}
