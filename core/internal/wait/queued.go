package wait

import (
	"context"
	"time"
)

// queued is one place in a queue.
type queued struct {
	request Request
	came    time.Time
	until   time.Time // zero: no bound
	told    chan outcome

	// The queue's lock guards the fields below.
	waits            bool // it is in the queue
	asked            bool // its request is in flight
	overdue          bool // its time is up, and the next answer decides
	previous, behind *queued
	place            int // in bounded
}

// outcome is the end of a wait. Each waiter gets one.
type outcome struct {
	grant Grant
	err   error
}

func (w *queued) late(at time.Time) bool { return !w.until.IsZero() && w.until.Before(at) }

// tell takes a waiter out of the queue and ends its wait. q is locked.
func (q *queue) tell(w *queued, o outcome) {
	q.remove(w)
	w.told <- o
}

// stand waits for the outcome of a waiter.
func (q *queue) stand(ctx context.Context, w *queued) (Grant, error) {
	var over <-chan time.Time
	if !w.until.IsZero() {
		timer := time.NewTimer(time.Until(w.until))
		defer timer.Stop()
		over = timer.C
	}
	for {
		select {
		case o := <-w.told:
			return q.unlessGone(ctx, o)
		case <-ctx.Done():
			if left := q.leave(w); left {
				return nil, q.GaveUp(ctx)
			}
			return q.unlessGone(ctx, <-w.told) // in the same moment
		case <-q.Closed:
			if left := q.leave(w); left {
				return nil, q.ErrClosed
			}
			return q.unlessGone(ctx, <-w.told)
		case <-over:
			if err := q.timeIsUp(w); err != nil {
				return nil, err
			}
		}
	}
}

// timeIsUp takes a waiter out of the queue when its time is up, and returns its error. It returns nil if the waiter has
// its outcome already, or if a request is in flight or due: then the answer decides.
func (q *queue) timeIsUp(w *queued) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	w.overdue = w.waits && (w.asked || !q.known())
	if !w.waits || w.overdue {
		return nil
	}
	q.depart(w)
	return q.latest.Deny(&w.request, q.next)
}

// unlessGone returns a waiter's outcome. If the waiter's context has ended, a grant is given back.
func (q *queue) unlessGone(ctx context.Context, o outcome) (Grant, error) {
	if o.err != nil || ctx.Err() == nil {
		return o.grant, o.err
	}
	q.Return([]Grant{o.grant})
	return nil, q.GaveUp(ctx)
}

// leave takes a waiter out of the queue, and reports whether it was in it.
func (q *queue) leave(w *queued) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !w.waits {
		return false
	}
	q.depart(w)
	return true
}

// depart takes a waiter out of the queue, as if it had never been there. q is locked.
func (q *queue) depart(w *queued) {
	first := q.first == w
	q.remove(w)
	if first {
		q.headChanged()
		q.wake()
	}
}
