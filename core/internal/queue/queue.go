package queue

import (
	"context"
	"sync"
	"time"
)

// Config says what those who wait ask for. All fields are needed.
//
// K is a key, Q is what a waiter asks, G is what they are granted, and D is what an answer says
// about those who are not.
type Config[K comparable, Q, G, D any] struct {
	// Ask asks the questions of some waiters, in their order, until one of them is not granted what
	// it asks, and returns the answer. It returns when ctx ends.
	Ask func(ctx context.Context, questions []Q) Answer[G, D]
	// Return gives back grants that nobody takes, the last one first. It does not block.
	Return func(grants []G)
	// Together reports whether two questions of one queue may be asked together, and Alike whether
	// they ask the same, so that what is known of one goes for the other.
	Together, Alike func(a, b Q) bool
	// Fits reports whether a grant is what a question asks.
	Fits func(g G, q Q) bool
	// Late reports whether a grant comes too late for who waits until then. It goes to another one.
	Late func(g G, until time.Time) bool
	// Takes returns the least time that a question takes after another one has left no room.
	Takes func(Q) time.Duration
	// Deny returns the error of a waiter who cannot be granted anything before an instant, by the
	// latest answer. g is the grant that comes too late, if it is that.
	Deny func(q Q, latest D, at time.Time, g *G) error
	// GaveUp returns the error of a waiter whose context has ended.
	GaveUp func(ctx context.Context) error
	// Most is how many are asked together at most.
	Most int
}

// Answer is what those have been told who asked together.
type Answer[G, D any] struct {
	// Grants are for the first of them, in their order.
	Grants []G
	// Latest is what the others were told, or what is left for the next one.
	Latest D
	// Next is when to ask again. The zero time is at once.
	Next time.Time
	// Full says that the one who is granted something at Next leaves no room for others.
	Full bool
	// Never says that the first who was not granted anything never will be.
	Never bool
	// Err is why there is no answer. It is for all of them.
	Err error
}

// Queues are the queues of all keys. They are made by [New] and may be used by many goroutines at
// once. There is a goroutine for each key for which somebody waits, and none otherwise.
type Queues[K comparable, Q, G, D any] struct {
	Config[K, Q, G, D]

	mu    sync.Mutex
	byKey map[K]*queue[K, Q, G, D]
}

// New returns queues in which nobody waits.
func New[K comparable, Q, G, D any](config Config[K, Q, G, D]) *Queues[K, Q, G, D] {
	return &Queues[K, Q, G, D]{Config: config, byKey: make(map[K]*queue[K, Q, G, D])}
}

// Wait returns a grant when it is the waiter's turn to be granted one, or the reason why it is not
// in time: until is the zero time for who has time. It returns at the latest when ctx ends, or at
// until. Only if nobody knows then what the waiter would be told, the answer decides that is under
// way, or the next one if the waiter is asked for in it. What is granted to a waiter who has left is
// returned.
func (s *Queues[K, Q, G, D]) Wait(ctx context.Context, key K, q Q, until time.Time) (G, error) {
	w := &waiter[Q, G]{question: q, until: until, place: absent, told: make(chan outcome[G], 1)}
	for {
		queue := s.queueOf(key)
		joined, first, err := queue.join(w)
		switch {
		case !joined:
			continue // it has just been left by everybody
		case err != nil:
			var none G
			return none, err
		case first:
			queue.askAlone(ctx, w)
		}
		return queue.stand(ctx, w)
	}
}

// Try is Wait for who does not wait: they are told at once what is known, or asked for by themselves.
// Behind somebody for whom there was no room there is none.
func (s *Queues[K, Q, G, D]) Try(ctx context.Context, key K, q Q) (grant G, err error) {
	w := &waiter[Q, G]{question: q, until: time.Now()}
	if queue := s.find(key); queue != nil {
		if err := queue.refuses(w); err != nil {
			return grant, err
		}
	}
	answer := s.Ask(ctx, []Q{q})
	switch {
	case answer.Err != nil && ctx.Err() != nil:
		return grant, s.GaveUp(ctx)
	case answer.Err != nil:
		return grant, answer.Err
	case len(answer.Grants) == 0:
		return grant, s.Deny(q, answer.Latest, answer.Next, nil)
	case s.Late(answer.Grants[0], w.until):
		s.Return(answer.Grants)
		return grant, s.Deny(q, answer.Latest, answer.Next, &answer.Grants[0])
	}
	return answer.Grants[0], nil
}

// find returns the queue of a key, or nil.
func (s *Queues[K, Q, G, D]) find(key K) *queue[K, Q, G, D] {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byKey[key]
}

func (s *Queues[K, Q, G, D]) queueOf(key K) *queue[K, Q, G, D] {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.byKey[key]
	if q == nil {
		q = &queue[K, Q, G, D]{Queues: s, key: key, changed: make(chan struct{}, 1)}
		q.bounded.less = func(a, b *waiter[Q, G]) bool { return a.until.Before(b.until) }
		q.bounded.moved = func(w *waiter[Q, G], place int) { w.place = place }
		s.byKey[key] = q
	}
	return q
}

// forget forgets a queue that everybody has left.
func (s *Queues[K, Q, G, D]) forget(q *queue[K, Q, G, D]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byKey[q.key] == q {
		delete(s.byKey, q.key)
	}
}

// Len returns for how many keys somebody waits.
func (s *Queues[K, Q, G, D]) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.byKey)
}

// waiter is somebody who waits.
type waiter[Q, G any] struct {
	question Q
	until    time.Time // zero: they have time
	told     chan outcome[G]

	// What follows is guarded by the queue's lock.
	waits            bool // they are in the queue
	asked            bool // they are being asked for
	overdue          bool // their time is up, and the next answer decides
	previous, behind *waiter[Q, G]
	place            int // among those who are bounded
}

// outcome is what becomes of a waiter: it is told once.
type outcome[G any] struct {
	grant G
	err   error
}

// queue is those who wait for one key, first come, first served.
type queue[K comparable, Q, G, D any] struct {
	*Queues[K, Q, G, D]

	key     K
	changed chan struct{} // who is first has changed

	mu          sync.Mutex
	first, last *waiter[Q, G]
	bounded     indexed[*waiter[Q, G]] // those who have not all the time, by how much they have
	asking      bool                   // somebody is at it: a worker, or who came first
	gone        bool                   // it has been forgotten

	latest D
	next   time.Time     // nothing is granted before, as far as is known
	about  *waiter[Q, G] // whose question that is about; nil: about none
	alike  bool          // about that question alone, and otherwise about all that can be asked with it
	full   bool          // see Answer
	// ahead is what all who wait take, in microseconds. fresh is the first of those who came when
	// next was not known, so that nobody could tell them that it will be too late.
	ahead int64
	fresh *waiter[Q, G]
}

// join puts a waiter at the end of the queue, unless it is known that it will be too late for them.
// It reports whether the queue still exists, and whether the waiter is to ask for themselves.
func (q *queue[K, Q, G, D]) join(w *waiter[Q, G]) (joined, first bool, err error) {
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
		return true, false, nil
	}
	q.asking = true
	return true, true, nil
}

// known reports whether it is known that nothing is granted just now. q is locked.
func (q *queue[K, Q, G, D]) known() bool { return time.Until(q.next) > 0 }

// denial returns an error if it is known that it will be too late for a waiter who would be the last
// one. q is locked.
func (q *queue[K, Q, G, D]) denial(w *waiter[Q, G]) error {
	if at := q.earliest(q.ahead, w); q.known() && w.late(at) {
		return q.Deny(w.question, q.latest, at, nil)
	}
	return nil
}

// refuses returns an error if a waiter who does not wait would overtake one who does, or is known to be
// too late.
func (q *queue[K, Q, G, D]) refuses(w *waiter[Q, G]) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.first != nil && q.first == q.about && q.alike {
		return q.Deny(w.question, q.latest, q.earliest(q.ahead, w), nil)
	}
	return q.denial(w)
}

// earliest returns when a waiter is granted something at the earliest, behind those who take so
// long. q is locked.
func (q *queue[K, Q, G, D]) earliest(ahead int64, w *waiter[Q, G]) time.Time {
	if q.first == nil || !q.full {
		return q.next
	}
	// The first one is granted it at next, and then one after the other.
	after := ahead - q.takes(q.first) + q.takes(w)
	return q.next.Add(time.Duration(min(after, longest.Microseconds())) * time.Microsecond)
}

// longest bounds what one waiter takes, so that thousands of them can be added up.
const longest = 365 * 24 * time.Hour

// takes returns the least time that a waiter takes, in microseconds.
func (q *queue[K, Q, G, D]) takes(w *waiter[Q, G]) int64 {
	return min(q.Takes(w.question), longest).Microseconds()
}

func (w *waiter[Q, G]) late(at time.Time) bool { return !w.until.IsZero() && w.until.Before(at) }

// push puts a waiter at the end. q is locked.
func (q *queue[K, Q, G, D]) push(w *waiter[Q, G]) {
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
func (q *queue[K, Q, G, D]) remove(w *waiter[Q, G]) {
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
}

// tell takes a waiter out of the queue and tells what becomes of them. q is locked.
func (q *queue[K, Q, G, D]) tell(w *waiter[Q, G], o outcome[G]) {
	q.remove(w)
	w.told <- o
}

// stand returns what becomes of a waiter.
func (q *queue[K, Q, G, D]) stand(ctx context.Context, w *waiter[Q, G]) (none G, err error) {
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
		case <-over:
			if err := q.timeIsUp(w); err != nil {
				return none, err
			}
		}
	}
}

// timeIsUp takes a waiter out of the queue whose time is up, and returns what they are told; or nil
// if they have been told, or the next answer decides.
func (q *queue[K, Q, G, D]) timeIsUp(w *waiter[Q, G]) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	w.overdue = w.waits && (w.asked || !q.known())
	if !w.waits || w.overdue {
		return nil
	}
	q.depart(w)
	return q.Deny(w.question, q.latest, q.next, nil)
}

// unlessGone returns what a waiter was told. A grant to a waiter who is gone is returned.
func (q *queue[K, Q, G, D]) unlessGone(ctx context.Context, o outcome[G]) (G, error) {
	if o.err != nil || ctx.Err() == nil {
		return o.grant, o.err
	}
	q.Return([]G{o.grant})
	var none G
	return none, q.GaveUp(ctx)
}

// leave takes a waiter out of the queue, and reports whether they were in it.
func (q *queue[K, Q, G, D]) leave(w *waiter[Q, G]) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !w.waits {
		return false
	}
	q.depart(w)
	return true
}

// depart takes a waiter out of the queue, as if they had never been there. q is locked.
func (q *queue[K, Q, G, D]) depart(w *waiter[Q, G]) {
	first := q.first == w
	q.remove(w)
	if first {
		q.headChanged()
		q.wake()
	}
}

// headChanged forgets when to ask if that was about another question than the first one's. q is
// locked.
func (q *queue[K, Q, G, D]) headChanged() {
	if q.first == nil || q.about == nil {
		return
	}
	same := q.Together
	if q.alike {
		same = q.Alike
	}
	if !same(q.about.question, q.first.question) {
		q.next = time.Time{}
	}
}

// wake has the worker look who is first. q is locked.
func (q *queue[K, Q, G, D]) wake() {
	select {
	case q.changed <- struct{}{}:
	default:
	}
}
