package core

import (
	"context"
	"errors"
	"time"

	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/wait"
)

// waitersOf returns the queues of a limiter.
func waitersOf(l *Limiter) *wait.Queues {
	return wait.NewQueues(wait.QueueConfig{
		Ask: l.askForWaiters,
		Return: func(grants []wait.Grant) {
			reservations := make([]*Reservation, len(grants))
			for i, granted := range grants {
				reservations[i] = granted.(grant).Reservation //nolint:forcetypeassert // askForWaiters grants nothing else
			}
			l.cancelLater(reservations...)
		},
		Rank:   l.rankOf(),
		Takes:  func(q *wait.Request) time.Duration { return microseconds(q.Limit.Spacing(q.Cost)) },
		GaveUp: gaveUp,
		Most:   mostTogether,
		Closed: l.open.Done(), ErrClosed: call.ErrClosed,
	})
}

// grant is a reservation as the queues see it.
type grant struct{ *Reservation }

// Units implements [wait.Grant].
func (g grant) Units() int { return g.checks[0].Units() }

// Late implements [wait.Grant].
func (g grant) Late(until time.Time) bool {
	index, queues := g.shaped()
	return queues > 0 && until.Before(g.asked.Add(g.decisions[index].Delay))
}

// Deny implements [wait.Grant].
func (g grant) Deny(q *wait.Request) error {
	shaped, _ := g.shaped()
	return &LimitedError{Decision: g.decisions[shaped], cause: q.Cause}
}

// denial is the latest answer as the queues see it.
type denial Decision

// Deny implements [wait.Denial].
func (d *denial) Deny(q *wait.Request, at time.Time) error {
	latest := Decision(*d)
	latest.Allowed, latest.Delay, latest.Limit = false, 0, limitOf(q.Limit)
	if latest.RetryAfter != Never && !latest.Estimated && !at.IsZero() {
		latest.RetryAfter = max(0, time.Until(at))
	}
	return &LimitedError{Decision: latest, cause: q.Cause}
}

// mostTogether is how many waiters share a call to the store at most.
const mostTogether = 1000

// askForWaiters makes the requests of some waiters, in their order.
func (l *Limiter) askForWaiters(ctx context.Context, requests []wait.Request) (a wait.Answer) {
	requests = requests[:together(requests)]
	calls := make([][]Check, len(requests))
	for i := range requests {
		calls[i] = checksOfWaiter(&requests[i])
	}
	var granted []*Reservation
	var denied []Decision
	a.Err = unlessPanicked(func() (err error) {
		granted, denied, err = l.reserveInOrder(ctx, calls)
		return err
	})
	if a.Err != nil {
		return a
	}
	for _, r := range granted {
		a.Grants = append(a.Grants, grant{r})
	}
	var latest Decision
	if denied != nil {
		latest = answerDenied(&requests[len(granted)], &a, denied)
	} else {
		latest = granted[len(granted)-1].decisions[0]
		if latest.Remaining == 0 {
			a.Next, a.Full = time.Now().Add(latest.NextAfter), true
		}
	}
	a.Latest = (*denial)(&latest)
	return a
}

// answerDenied answers a request with a denial, and returns the decision about its limit.
func answerDenied(q *wait.Request, a *wait.Answer, denied []Decision) (latest Decision) {
	latest = denied[0]
	if a.Never = latest.RetryAfter == Never; a.Never {
		return latest
	}
	var held time.Duration
	if q.Heeds {
		held = denied[1].RetryAfter
	}
	now := time.Now()
	if a.Next, a.Full = now.Add(max(latest.RetryAfter, held)), latest.RetryAfter >= held; !a.Full {
		a.Held = now.Add(held)
	}
	schedule(q, a, &latest, held)
	return latest
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

// wakeWaiters wakes the waiters of the same key and limit as a check, since some of its units may be free now.
func (l *Limiter) wakeWaiters(c *Check) {
	if l.lines.Waiting() > 0 && (l.wakes == nil || !c.holds() || !l.wakes.Heard()) { // else the store tells the waiters their turns
		l.lines.Wake(keyOfLine(c))
	}
	if quota, ok := c.Limit.(Quota); ok {
		key := wait.QueueKey{Key: c.Key, Limit: quota.known()}
		l.waiters.Wake(key)
		key.Heeds = true
		l.waiters.Wake(key)
	}
}
