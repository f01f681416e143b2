package core

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Wait returns when the turn has come of what was reserved under [Shaping] limits, and
// at once if nothing is shaped: it holds its caller for the longest Delay of the
// decisions.
//
// If the context ends before, or its deadline comes first (then it does not wait at
// all), everything that was reserved is given back, and the error says why. The turn
// goes to the next one who waits in this process for as many units, and so on, so that
// those who are left move up and the pace stays even; the last turn is free again for
// whoever comes, unless others, in other processes, have queued behind it.
//
// Wait comes before Settle and Cancel: after them it is an error, at once.
func (r *Reservation) Wait(ctx context.Context) error {
	if r.settled {
		return errSettled
	}
	t := turn{r: r, moved: make(chan struct{}, 1)}
	queues := 0
	for i := range r.decisions {
		if d := r.decisions[i].Delay; d > 0 && !r.checks[i].Shadow {
			queues++
			if d > t.held {
				t.index, t.held = i, d
			}
		}
	}
	if queues == 0 || !r.Allowed() {
		return nil
	}
	t.due = time.Now().Add(t.held)
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(t.due) {
		err := fmt.Errorf("core: the turn comes in %v, after the deadline: %w", t.held, context.DeadlineExceeded)
		return r.giveUp(ctx, err)
	}
	turns := &r.limiter.turns
	if queues == 1 { // a turn in several queues cannot be handed on
		t.queue = turns.join(r.checks[t.index].lineKey(), &t)
	}
	if turns.hold(ctx, &t) {
		turns.pass(&t)
		return nil
	}
	err := fmt.Errorf("core: gave up a place in the queue: %w", context.Cause(ctx))
	if t.queue == nil {
		return r.giveUp(ctx, err)
	}
	return because(err, turns.leave(context.WithoutCancel(ctx), &t))
}

// giveUp gives back what was reserved, even if nobody waits for it any more, and
// returns the error.
func (r *Reservation) giveUp(ctx context.Context, reason error) error {
	return because(reason, r.Cancel(context.WithoutCancel(ctx)))
}

// because returns the reason for giving up, and what kept it from being given back.
func because(reason, failure error) error {
	if failure != nil {
		return fmt.Errorf("%w (and it stays charged: %w)", reason, failure)
	}
	return reason
}

// turn is a place in a shaped queue that somebody waits for.
type turn struct {
	r     *Reservation
	index int           // of the check
	held  time.Duration // at first
	due   time.Time
	moved chan struct{} // due has changed
	queue *queue        // nil: the turn is handed to nobody

	givenBack chan error
}

// queue is the turns that are waited for in this process, of one limit of one key.
type queue struct {
	key     lineKey
	waiting []*turn // in the order in which they are due
	// left are the turns that are to be given back, the last of the queue first: in
	// another order, one would find that others queue behind it.
	left   []*turn
	giving bool // somebody is at it
}

// turns are the queues of a limiter. The zero value is ready to use.
type turns struct {
	mu     sync.Mutex
	queues map[lineKey]*queue
}

func (s *turns) join(key lineKey, t *turn) *queue {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queues[key]
	if q == nil {
		q = &queue{key: key}
		if s.queues == nil {
			s.queues = make(map[lineKey]*queue)
		}
		s.queues[key] = q
	}
	place := len(q.waiting)
	for place > 0 && q.waiting[place-1].due.After(t.due) {
		place--
	}
	q.waiting = slices.Insert(q.waiting, place, t)
	return q
}

// hold returns true when a turn has come, and false if the context ends before.
func (s *turns) hold(ctx context.Context, t *turn) bool {
	timer := time.NewTimer(t.held)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-t.moved:
		case <-timer.C:
		}
		s.mu.Lock()
		left := time.Until(t.due)
		s.mu.Unlock()
		if left <= 0 {
			return true
		}
		timer.Reset(left)
	}
}

// pass takes a turn that has come out of its queue.
func (s *turns) pass(t *turn) {
	if t.queue == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t.queue.waiting = slices.DeleteFunc(t.queue.waiting, func(other *turn) bool { return other == t })
	s.tidy(t.queue)
}

// tidy forgets a queue in which nobody is. s is locked.
func (s *turns) tidy(q *queue) {
	if len(q.waiting) == 0 && len(q.left) == 0 && !q.giving {
		delete(s.queues, q.key)
	}
}

// mostGivenBack is how many reservations are given back in one call at most.
const mostGivenBack = 64

// leave takes a turn out of its queue: those behind it move up by a turn each, and the
// turn of the last of them is given back, with everything else that was reserved. Of
// several who leave at once, one gives back for all.
func (s *turns) leave(ctx context.Context, t *turn) error {
	s.mu.Lock()
	q := t.queue
	q.handOn(t)
	t.givenBack = make(chan error, 1)
	q.left = append(q.left, t)
	if !q.giving {
		q.giving = true
		for len(q.left) > 0 {
			some := q.left[:min(len(q.left), mostGivenBack)]
			q.left = q.left[len(some):]
			s.mu.Unlock()
			cancelAll(ctx, some)
			s.mu.Lock()
		}
		q.giving = false
		s.tidy(q)
	}
	s.mu.Unlock()
	return <-t.givenBack
}

// cancelAll gives back what some reservations of one limiter have charged, in one call,
// and tells each what has become of it. One that was settled before spoils no other.
func cancelAll(ctx context.Context, turns []*turn) {
	var all []Settlement
	var given []*turn
	for _, t := range turns {
		settlements, err := t.r.settlements(make([]int, len(t.r.checks)))
		if err != nil {
			t.givenBack <- err
			continue
		}
		t.r.settled = true // even if that fails, as in Settle
		all = append(all, settlements...)
		given = append(given, t)
	}
	if len(given) == 0 {
		return
	}
	err := turns[0].r.limiter.settle(ctx, all)
	for _, t := range given {
		t.givenBack <- err
	}
}

// handOn hands a turn to the next one in the queue who takes as long, and so on, and
// takes out of the queue who had it; his is now the last of these turns. The queue is
// locked.
func (q *queue) handOn(t *turn) {
	place := slices.Index(q.waiting, t)
	q.waiting = slices.Delete(q.waiting, place, place+1)
	for _, next := range q.waiting[place:] {
		if next.r.checks[next.index].Cost != t.r.checks[t.index].Cost {
			return
		}
		t.due, next.due = next.due, t.due
		mine, theirs := &t.r.moments[t.index], &next.r.moments[next.index]
		*mine, *theirs = *theirs, *mine
		select {
		case next.moved <- struct{}{}:
		default:
		}
	}
}
