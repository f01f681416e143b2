package core

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-go/ratelimit/core/internal/exact"
)

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
	if r.settled {
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
	if queues > 1 { // a turn in several queues cannot be handed on
		return r.holdUntil(ctx, due)
	}
	turn, came := r.limiter.turns.Wait(ctx, r.turnKey(index), due, r.receipts[index], func(last Receipt) {
		r.receipts[index] = last
		r.giveBackLater()
	})
	if !came {
		return gaveUpTurn(ctx)
	}
	r.receipts[index] = turn
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

// delay returns the longest Delay of the decisions.
func (r *Reservation) delay() time.Duration {
	if index, queues := r.shaped(); queues > 0 {
		return r.decisions[index].Delay
	}
	return 0
}

func (r *Reservation) holdUntil(ctx context.Context, due time.Time) error {
	timer := time.NewTimer(time.Until(due))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		r.giveBackLater()
		return gaveUpTurn(ctx)
	}
}

func gaveUpTurn(ctx context.Context) error {
	return fmt.Errorf("core: gave up a turn: %w", context.Cause(ctx))
}

// giveBackLater gives everything back in the background. The reservation counts as settled then.
func (r *Reservation) giveBackLater() { _ = r.SettleLater(make([]int, len(r.checks))...) }

// turnKey identifies turns that can be exchanged: of one queue, for as many units.
type turnKey struct {
	key   string
	limit *exact.Spec // its identity
	cost  int
}

func (r *Reservation) turnKey(index int) turnKey {
	c := &r.checks[index]
	return turnKey{c.Key, c.Limit.spec.Identity(), c.Units()}
}
