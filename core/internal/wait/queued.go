package wait

import (
	"context"
	"time"
)

// queued is one place in a queue.
type queued[Q, G any] struct {
	request Q
	came    time.Time
	until   time.Time // zero: no bound
	told    chan outcome[G]

	// The queue's lock guards the fields below.
	waits            bool // it is in the queue
	asked            bool // its request is in flight
	overdue          bool // its time is up, and the next answer decides
	previous, behind *queued[Q, G]
	place            int // in bounded
}

// outcome is the end of a wait. Each waiter gets one.
type outcome[G any] struct {
	grant G
	err   error
}

func (w *queued[Q, G]) late(at time.Time) bool { return !w.until.IsZero() && w.until.Before(at) }

// tell takes a waiter out of the queue and ends its wait. q is locked.
func (q *queue[K, Q, G, D]) tell(w *queued[Q, G], o outcome[G]) {
	q.remove(w)
	w.told <- o
}

// stand waits for the outcome of a waiter.
func (q *queue[K, Q, G, D]) stand(ctx context.Context, w *queued[Q, G]) (none G, err error) {
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
				return none, q.GaveUp(ctx)
			}
			return q.unlessGone(ctx, <-w.told) // in the same moment
		case <-q.Closed:
			if left := q.leave(w); left {
				return none, q.ErrClosed
			}
			return q.unlessGone(ctx, <-w.told)
		case <-over:
			if err := q.timeIsUp(w); err != nil {
				return none, err
			}
		}
	}
}

// timeIsUp takes a waiter out of the queue when its time is up, and returns its error. It returns nil if the waiter has
// its outcome already, or if a request is in flight or due: then the answer decides.
func (q *queue[K, Q, G, D]) timeIsUp(w *queued[Q, G]) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	w.overdue = w.waits && (w.asked || !q.known())
	if !w.waits || w.overdue {
		return nil
	}
	q.depart(w)
	return q.Deny(w.request, q.latest, q.next, nil)
}

// unlessGone returns a waiter's outcome. If the waiter's context has ended, a grant is given back.
func (q *queue[K, Q, G, D]) unlessGone(ctx context.Context, o outcome[G]) (G, error) {
	if o.err != nil || ctx.Err() == nil {
		return o.grant, o.err
	}
	q.Return([]G{o.grant})
	var none G
	return none, q.GaveUp(ctx)
}

// leave takes a waiter out of the queue, and reports whether it was in it.
func (q *queue[K, Q, G, D]) leave(w *queued[Q, G]) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !w.waits {
		return false
	}
	q.depart(w)
	return true
}

// depart takes a waiter out of the queue, as if it had never been there. q is locked.
func (q *queue[K, Q, G, D]) depart(w *queued[Q, G]) {
	first := q.first == w
	q.remove(w)
	if first {
		q.headChanged()
		q.wake()
	}
}
