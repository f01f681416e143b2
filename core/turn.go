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
func (r *Reservation) Wait(ctx context.Context) error {
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
	key := r.checks[t.index].lineKey()
	turns := &r.limiter.turns
	if queues == 1 { // a turn in several queues cannot be handed on
		turns.join(key, &t)
	}
	if turns.hold(ctx, &t) {
		turns.leave(key, &t, false)
		return nil
	}
	turns.leave(key, &t, true)
	return r.giveUp(ctx, fmt.Errorf("core: gave up a place in the queue: %w", context.Cause(ctx)))
}

// giveUp gives back what was reserved, even if nobody waits for it any more, and
// returns the error.
func (r *Reservation) giveUp(ctx context.Context, because error) error {
	if err := r.Cancel(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("%w (and it stays charged: %w)", because, err)
	}
	return because
}

// turn is a place in a shaped queue that somebody waits for.
type turn struct {
	r     *Reservation
	index int           // of the check
	held  time.Duration // at first
	due   time.Time
	moved chan struct{} // due has changed
}

// turns are those that are waited for in this process. The zero value is ready to
// use.
type turns struct {
	mu     sync.Mutex
	queues map[lineKey][]*turn // in the order in which they are due
}

func (s *turns) join(key lineKey, t *turn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.queues == nil {
		s.queues = make(map[lineKey][]*turn)
	}
	queue := s.queues[key]
	place := len(queue)
	for place > 0 && queue[place-1].due.After(t.due) {
		place--
	}
	s.queues[key] = slices.Insert(queue, place, t)
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

// leave takes a turn out of its queue. If it is handed on, those behind it move up by a
// turn each, and the turn becomes that of the last of them.
func (s *turns) leave(key lineKey, t *turn, handOn bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	queue := s.queues[key]
	place := slices.Index(queue, t)
	if place < 0 {
		return
	}
	queue = slices.Delete(queue, place, place+1)
	if len(queue) == 0 {
		delete(s.queues, key)
		return
	}
	s.queues[key] = queue
	for _, next := range queue[place:] {
		if !handOn || next.r.checks[next.index].Cost != t.r.checks[t.index].Cost {
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
