package wait

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/ratelimit/core/internal/exact"
)

// QueueKey identifies a queue of waiters. Each of several plans of one name has a queue of its own, and waiters that heed a
// hold-back have another one.
type QueueKey struct {
	Key   string
	Limit *exact.Spec
	Heeds bool
}

// Request is a waiter's request for units.
type Request struct {
	QueueKey

	Cost  int
	Older Older // waiters of other processes
	Cause error // of the deadline that bounds the wait, or nil
}

// together reports whether two requests of one queue may be made in one Ask.
func (q *Request) together(other *Request) bool { return (q.Cost == 0) == (other.Cost == 0) }

// alike reports whether an answer about a request of a queue holds for another one.
func (q *Request) alike(other *Request) bool { return q.Cost == other.Cost }

// Queues are the queues of all keys. They are made by [NewQueues] and may be used by many goroutines at
// once. A key has a goroutine while it has waiters.
type Queues struct {
	QueueConfig

	mu    sync.Mutex
	byKey map[QueueKey]*queue
	keys  atomic.Int64 // how many there are; read without the lock, to see that there are none
}

// NewQueues returns empty queues.
func NewQueues(config QueueConfig) *Queues {
	return &Queues{QueueConfig: config, byKey: make(map[QueueKey]*queue)}
}

// Wait makes a request when it is the waiter's turn, and returns the grant, or the error of a waiter
// that cannot be granted it in time. The zero until is no bound.
//
// Wait returns when ctx ends, and when Closed is closed. It also returns at until, unless a request of the queue is in
// flight or due just then: the answer decides. A grant to a waiter that has left is
// given back.
func (s *Queues) Wait(ctx context.Context, q Request, until time.Time) (Grant, error) {
	w := &queued{request: q, until: until, came: time.Now(), place: absent, told: make(chan outcome, 1)}
	for {
		queue := s.queueOf(q.QueueKey)
		joined, first, err := queue.join(w)
		switch {
		case !joined:
			continue // the last waiter has just left it
		case err != nil:
			return nil, err
		case first:
			queue.askAlone(ctx, w)
		}
		return queue.stand(ctx, w)
	}
}

// Try is Wait without waiting for room. It makes the request, unless that is known to be denied: behind
// a waiter that has been denied, or before the next grant.
func (s *Queues) Try(ctx context.Context, q Request) (grant Grant, err error) {
	w := &queued{request: q, until: time.Now()}
	if queue := s.find(q.QueueKey); queue != nil {
		if err := queue.denyAtOnce(w); err != nil {
			return grant, err
		}
	}
	answer := s.Ask(ctx, []Request{q})
	switch {
	case answer.Err != nil && ctx.Err() != nil:
		return nil, s.GaveUp(ctx)
	case answer.Err != nil:
		return nil, answer.Err
	case len(answer.Grants) == 0:
		return nil, answer.Latest.Deny(&q, answer.Next)
	case answer.Grants[0].Late(w.until):
		s.Return(answer.Grants)
		s.Wake(q.QueueKey)
		return nil, answer.Grants[0].Deny(&q)
	}
	return answer.Grants[0], nil
}

// Wake makes a request for the waiters of a key at once, since the caller has just given units back that the latest
// answer did not count. If a request is in flight, it may have been decided before: a denial is then followed by another
// request at once. Several Wakes may lead to one request. Wake does not block, and does nothing for a key without
// waiters.
func (s *Queues) Wake(key QueueKey) {
	if q := s.find(key); q != nil {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.roomMade()
	}
}

// find returns the queue of a key, or nil.
func (s *Queues) find(key QueueKey) *queue {
	if s.keys.Load() == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byKey[key]
}

func (s *Queues) queueOf(key QueueKey) *queue {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.byKey[key]
	if q == nil {
		q = &queue{Queues: s, key: key, changed: make(chan struct{}, 1), latest: unanswered{context.DeadlineExceeded}}
		q.bounded.less = func(a, b *queued) bool { return a.until.Before(b.until) }
		q.bounded.moved = func(w *queued, place int) { w.place = place }
		s.byKey[key] = q
		s.keys.Store(int64(len(s.byKey)))
	}
	return q
}

// forget forgets a queue that has no waiters any more.
func (s *Queues) forget(q *queue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byKey[q.key] == q {
		delete(s.byKey, q.key)
		s.keys.Store(int64(len(s.byKey)))
	}
}

// Len returns how many keys have waiters.
func (s *Queues) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.byKey)
}

// queue holds the waiters of one key, first come, first served.
type queue struct {
	*Queues

	key     QueueKey
	changed chan struct{} // another waiter is first, or there may be room

	mu          sync.Mutex
	first, last *queued
	bounded     indexed[*queued] // the waiters that have a bound, the soonest first
	asking      bool             // a worker, or the first waiter, makes the requests
	gone        bool             // it has been forgotten

	latest Denial    // of the latest answer
	next   time.Time // no request is granted before
	again  time.Time // but one is made; zero: none is
	about  *queued   // next is about its request; nil: about none
	alike  bool      // next is about equal requests alone, otherwise about all that go together
	full   bool      // see Answer
	woken  bool      // there may be room since the latest request was made
	// ahead is the sum of the times that the waiters take, in microseconds. fresh is the first waiter that came while
	// next was not known, so that it was not known either whether it comes too late.
	ahead int64
	fresh *queued

	standing standing
}

// join puts a waiter at the end of the queue, unless it is known that its grant would come too late.
// It reports whether the queue still exists, and whether the waiter makes its request itself.
func (q *queue) join(w *queued) (joined, first bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.gone {
		return false, false, nil
	}
	known := q.known()
	if err := q.denial(w); err != nil {
		return true, false, err
	}
	q.push(w)
	if !known && q.fresh == nil {
		q.fresh = w
	}
	if q.asking {
		if q.first == w {
			q.wake() // the worker lingers
		}
		return true, false, nil
	}
	q.asking = true
	return true, true, nil
}

// due returns when the next request is made. q is locked.
func (q *queue) due() time.Time {
	if !q.again.IsZero() && q.again.Before(q.next) {
		return q.again
	}
	return q.next
}

// known reports whether it is known that nothing is granted just now. q is locked.
func (q *queue) known() bool { return time.Until(q.next) > 0 }

// denial returns an error if it is known that a new waiter's grant would come too late. q is locked.
func (q *queue) denial(w *queued) error {
	if at := q.earliest(q.ahead, w); q.known() && w.late(at) {
		return q.latest.Deny(&w.request, at)
	}
	return nil
}

// denyAtOnce returns an error if the request of a Try would overtake a waiter that has been denied, or
// is known to come too soon.
func (q *queue) denyAtOnce(w *queued) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.first != nil && q.first == q.about && q.alike {
		return q.latest.Deny(&w.request, q.earliest(q.ahead, w))
	}
	return q.denial(w)
}

// earliest returns when a request can be granted at the earliest, as far as is known. ahead is the sum of the times that
// the waiters before it take. q is locked.
func (q *queue) earliest(ahead int64, w *queued) time.Time {
	if q.first == nil || !q.full {
		return q.next
	}
	// The first waiter gets its grant at next, and then one after the other.
	after := ahead - q.takes(q.first) + q.takes(w)
	return q.next.Add(time.Duration(min(after, longest.Microseconds())) * time.Microsecond)
}

// longest bounds the time that one waiter takes, so that thousands of them can be added up.
const longest = 365 * 24 * time.Hour

// takes returns Takes of a waiter's request, in microseconds.
func (q *queue) takes(w *queued) int64 {
	return min(q.Takes(&w.request), longest).Microseconds()
}

// push puts a waiter at the end. q is locked.
func (q *queue) push(w *queued) {
	w.waits, w.previous = true, q.last
	if q.last == nil {
		q.first = w
	} else {
		q.last.behind = w
	}
	q.last = w
	q.ahead += q.takes(w)
	if !w.until.IsZero() {
		q.bounded.add(w)
	}
}

// remove takes a waiter out of the queue. q is locked.
func (q *queue) remove(w *queued) {
	if w.previous == nil {
		q.first = w.behind
	} else {
		w.previous.behind = w.behind
	}
	if w.behind == nil {
		q.last = w.previous
	} else {
		w.behind.previous = w.previous
	}
	if q.fresh == w {
		q.fresh = w.behind
	}
	w.waits, w.previous, w.behind = false, nil, nil
	if w.place != absent {
		q.bounded.remove(w.place)
	}
	q.ahead -= q.takes(w)
	if q.first == nil { // the latest answer concerns no waiter any more
		q.next, q.about, q.full = time.Time{}, nil, false
	}
}

// headChanged forgets next if it is about other requests than the first waiter's. q is locked.
func (q *queue) headChanged() {
	if q.first == nil || q.about == nil {
		return
	}
	same := q.about.request.together
	if q.alike {
		same = q.about.request.alike
	}
	if !same(&q.first.request) {
		q.next = time.Time{}
	}
}

// roomMade has the first waiter asked for at once, and again after the answer to a request that is in flight. q is
// locked.
func (q *queue) roomMade() {
	if q.first == nil {
		return
	}
	q.woken, q.next = true, time.Time{}
	q.wake()
}

// wake tells the worker that next has changed. q is locked.
func (q *queue) wake() {
	select {
	case q.changed <- struct{}{}:
	default:
	}
}
