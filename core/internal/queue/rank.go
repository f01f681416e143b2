package queue

import "time"

// Rank is where the first waiter of a queue stands among the first ones of other processes' queues for the same key. One
// goroutine uses it at a time.
type Rank[Q any] interface {
	// Stand tells the others of the first waiter of the queue: its request, when it came, and when it asks next. It returns
	// the others. calls has those who came before it ask at once.
	Stand(first Q, came, next time.Time, calls bool) []Other
	// Behind returns the request that leaves room for some units of others. far says that one of them came so long before
	// that more of its process have, too: then the request is not granted at all, but told when there is room.
	Behind(q Q, units int, far bool) Q
	// Leave tells the others that nobody waits any more.
	Leave()
}

// Other is the first waiter of another process.
type Other struct {
	Came  time.Time
	Units int
}

const (
	// slack is by how much a waiter may have come after the first one of another process, and still be asked for before
	// it: so that processes whose waiters came in turns share a call each, and not one for each waiter.
	slack = 100 * time.Millisecond
	// fresh is for how long it is known where a waiter stands.
	fresh = 10 * time.Millisecond
	// linger is for how long a queue without waiters remembers that others wait.
	linger = 200 * time.Millisecond
	// longestLead is by how much at most a waiter looks where it stands before it asks.
	longestLead = 20 * time.Millisecond
)

// standing is where the first waiter of a queue stood when the others were told of it.
type standing[Q, G any] struct {
	rank   Rank[Q] // nil: there is no order over processes
	of     *waiter[Q, G]
	others []Other
	at     time.Time
	told   time.Time     // when it was said to ask next
	took   time.Duration // to tell
	older  bool          // see Answer
	behind int           // units of others that the latest request has left room for
	sure   bool          // nobody of these has been served meanwhile
}

// stands reports whether the others have to be told of the first waiter: before a rest, if they do not know it, and before
// its request. q is locked.
func (q *queue[K, Q, G, D]) stands(wait time.Duration) bool {
	s := &q.standing
	switch {
	case s.rank == nil:
		return false
	case wait > max(fresh, s.took):
		return s.of != q.first || s.older || !s.told.Equal(q.due()) || !s.sure && time.Since(s.at) >= fresh
	case wait > min(s.took, longestLead):
		return false
	}
	return s.older || s.of != q.first && len(s.others) > 0 || time.Since(s.at) > fresh
}

// tellOthers tells the others of the first waiter. q is locked, and is not meanwhile.
func (q *queue[K, Q, G, D]) tellOthers() {
	s := &q.standing
	w, due, older := q.first, q.due(), s.older
	q.mu.Unlock()
	began := time.Now()
	others := s.rank.Stand(w.request, w.came, due, older)
	ended := time.Now()
	q.mu.Lock()
	s.sure = s.of == w && s.told.Equal(due) || s.behind == 0
	s.of, s.others, s.at, s.told, s.took, s.older = w, others, ended, due, ended.Sub(began), false
	if units, _ := q.before(w); units < s.behind { // whoever has been served was counted twice
		s.behind, q.again = 0, ended
	}
}

// before returns how many units others want that came before a waiter, and whether one of them came long before. q is
// locked.
func (q *queue[K, Q, G, D]) before(w *waiter[Q, G]) (units int, far bool) {
	for _, other := range q.standing.others {
		if other.Came.Before(w.came) {
			units += other.Units
			far = far || w.came.Sub(other.Came) > slack
		}
	}
	return units, far
}

// lead returns how long the worker rests until it looks where the first waiter stands, of a time until that one's request.
// q is locked.
func (q *queue[K, Q, G, D]) lead(wait time.Duration) time.Duration {
	lead := min(q.standing.took, longestLead)
	if q.standing.rank == nil || wait <= lead {
		return wait
	}
	if wait -= lead; q.standing.sure {
		return wait
	}
	return min(wait, fresh)
}

// lingers tells the others that nobody waits any more, and reports whether somebody does after all. While waiters of other
// processes are known, whoever comes within a moment stands behind them, as if it had come before the last one left.
// q is locked, and is not meanwhile.
func (q *queue[K, Q, G, D]) lingers(timer *time.Timer) bool {
	s := &q.standing
	if s.rank == nil {
		return false
	}
	contended := len(s.others) > 0
	*s = standing[Q, G]{rank: s.rank}
	q.mu.Unlock()
	s.rank.Leave()
	q.mu.Lock()
	if q.first == nil && contended {
		q.mu.Unlock()
		timer.Reset(linger)
		select {
		case <-timer.C:
		case <-q.changed:
		case <-q.Closed:
		}
		q.mu.Lock()
	}
	return q.first != nil
}

// follows reports whether a waiter may be asked for together with the first one, whatever others want. q is locked.
func (q *queue[K, Q, G, D]) follows(w *waiter[Q, G]) bool {
	_, far := q.before(w)
	return !far
}

// requests returns the requests of a group, each of which leaves room for the others that came before. q is locked.
func (q *queue[K, Q, G, D]) requests(group []*waiter[Q, G]) []Q {
	requests := make([]Q, len(group))
	for i, w := range group {
		requests[i] = w.request
		units, far := q.before(w)
		if units > 0 {
			requests[i] = q.standing.rank.Behind(w.request, units, far)
		}
		if i == 0 {
			q.standing.behind = units
		}
	}
	return requests
}
