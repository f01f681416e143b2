package core

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-go/ratelimit/core/internal/exact"
)

// Wait returns when the turn has come of what was reserved under [Shaping] limits, and at once if
// nothing is shaped: it holds its caller for the longest Delay of the decisions, counted from when
// they were made.
//
// If the context ends before, or its deadline comes first (then it does not wait at all), everything
// that was reserved is given back in the background, and the error says why. The turn goes to the
// next one who waits in this process for as many units, and so on, so that those who are left move
// up and the pace stays even; the last turn is free again for whoever comes, unless others, in other
// processes, have queued behind it.
//
// Wait comes before Settle and Cancel: after them it is an error, at once.
func (r *Reservation) Wait(ctx context.Context) error {
	return r.wait(ctx, time.Time{}, func(reason error) error { return reason })
}

// wait is Wait for who has time until an instant at most; late makes an error of a turn that comes
// after that.
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
		// The decision was made at some time between asking and the answer.
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

// delay returns how long the caller is held.
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

// giveBackLater has everything given back in the background. The reservation is settled then.
func (r *Reservation) giveBackLater() { _ = r.SettleLater(make([]int, len(r.checks))...) }

// turnKey tells the turns of a queue that take equally long from others.
type turnKey struct {
	key   string
	limit *exact.Spec // its identity
	cost  int
}

func (r *Reservation) turnKey(index int) turnKey {
	c := &r.checks[index]
	return turnKey{c.Key, c.Limit.spec.Identity(), c.Units()}
}
