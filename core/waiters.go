package core

import (
	"context"
	"errors"
	"time"

	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/wait"
)

// waitersOf returns the queues of a limiter.
func waitersOf(l *Limiter) *wait.Queues[queueKey, waitRequest, *Reservation, Decision] {
	return wait.NewQueues(wait.QueueConfig[queueKey, waitRequest, *Reservation, Decision]{
		Ask:      l.askForWaiters,
		Return:   func(grants []*Reservation) { l.cancelLater(grants...) },
		Together: func(a, b waitRequest) bool { return a.limit == b.limit && (a.cost == 0) == (b.cost == 0) },
		Alike:    func(a, b waitRequest) bool { return a.limit == b.limit && a.cost == b.cost },
		Fits:     func(r *Reservation, q waitRequest) bool { return r.checks[0].Units() == q.cost },
		Late: func(r *Reservation, until time.Time) bool {
			index, queues := r.shaped()
			return queues > 0 && until.Before(r.asked.Add(r.decisions[index].Delay))
		},
		Rank:  l.rankOf(),
		Takes: func(q waitRequest) time.Duration { return microseconds(q.limit.spec.Spacing(q.cost)) },
		Deny: func(q waitRequest, latest Decision, at time.Time, r **Reservation) error {
			return q.deny(latest, at, r)
		},
		GaveUp: gaveUp,
		Most:   mostTogether,
		Closed: l.open.Done(), ErrClosed: call.ErrClosed,
	})
}

// mostTogether is how many waiters share a call to the store at most.
const mostTogether = 1000

// askForWaiters makes the requests of some waiters, in their order.
func (l *Limiter) askForWaiters(ctx context.Context, requests []waitRequest) (a wait.Answer[*Reservation, Decision]) {
	requests = requests[:together(requests)]
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
			requests[len(granted)].schedule(&a, held)
		}
	default:
		a.Latest = granted[len(granted)-1].decisions[0]
		if a.Latest.Remaining == 0 {
			a.Next, a.Full = time.Now().Add(a.Latest.NextAfter), true
		}
	}
	return a
}

// reserveInOrder makes calls, which differ in the cost of their first check, until one is denied. It returns the
// reservations granted, and the denial if there is one. A store may answer only the first calls.
func (l *Limiter) reserveInOrder(ctx context.Context, calls [][]Check) (granted []*Reservation, denied []Decision, err error) {
	reservations, asked := make([]*Reservation, len(calls)), make([]Call, len(calls))
	for i, checks := range calls {
		r := l.reservationFor(checks)
		reservations[i], asked[i] = r, Call{Checks: r.checks, Decisions: r.decisions, Receipts: r.receipts}
	}
	began := time.Now()
	answered, err := l.decider.Decide(ctx, asked)
	switch {
	case err != nil:
		return nil, nil, err
	case answered == 0:
		return nil, nil, errors.New("core: the store has answered none of the calls, want the first at least")
	}
	ended := time.Now()
	for i, r := range reservations[:answered] {
		if !asked[i].Passed() || r.checks[0].Mode == Condition { // there is room, but it is for older waiters
			return reservations[:i], r.decisions, nil
		}
		r.asked, r.answered = began, ended
	}
	return reservations[:answered], nil, nil
}

// deny returns the error of a waiter that cannot be admitted before an instant, or that gets its turn too late.
func (q *waitRequest) deny(latest Decision, at time.Time, late **Reservation) error {
	if late != nil {
		shaped, _ := (*late).shaped()
		return &LimitedError{Decision: (*late).decisions[shaped], cause: q.cause}
	}
	latest.Allowed, latest.Delay, latest.Limit = false, 0, q.limit
	if latest.RetryAfter != Never && !latest.Estimated && !at.IsZero() {
		latest.RetryAfter = max(0, time.Until(at))
	}
	return &LimitedError{Decision: latest, cause: q.cause}
}

// wakeWaiters wakes the waiters of the same key and limit as a check, since some of its units may be free now.
func (l *Limiter) wakeWaiters(c *Check) {
	if l.wakes == nil || !c.holds() || !l.wakes.Heard() { // else the store tells the waiters their turns
		l.lines.Wake(keyOfLine(c))
	}
	l.waiters.Wake(queueKey{c.Key, c.Limit, false})
	l.waiters.Wake(queueKey{c.Key, c.Limit, true})
}
