package wait

import "time"

// Rank is the place of a queue's first waiter among the first waiters of other queues and lines for the same key, in all processes.
// One goroutine uses it at a time.
type Rank interface {
	// Stand publishes the first waiter of the queue: its request, when it came, and when it asks next. It returns the
	// first waiters of the others, and whether the store has told them. The earlier ones for which there is room, in units, ask at once.
	Stand(first Request, came, next time.Time, room int) (others []Other, told bool)
	// Leave tells the other processes that this queue has no waiter any more, or none that could be granted just now.
	Leave()
}

// Older is the first waiters of other processes that came before a request. The request leaves room for their units.
type Older struct {
	Units int // how many they want
	First int // how many of these the one wants that came first
	// Far says that one of them came so long before that more of its process have, too: then the request is not granted at all, and only
	// finds out when there is room.
	Far bool
}

// Other is the first waiter of another queue or line, mostly of another process.
type Other struct {
	Came  time.Time
	Units int
}

const (
	// slack is by how much a waiter may have come after the first waiter of another process, and still be served before
	// it. So processes with waiters that came in turns share calls among their own waiters, instead of one call for each.
	slack = 100 * time.Millisecond
	// fresh is how long a known rank counts as current.
	fresh = 10 * time.Millisecond
	// linger is for how long a queue without waiters remembers the waiters of other processes.
	linger = 200 * time.Millisecond
	// rejoins is how long before the end of a hold-back its waiters stand in the order again, so that the first one that asks knows the
	// others.
	rejoins = 100 * time.Millisecond
	// longestLead is how long before its request a waiter publishes itself, at most.
	longestLead = 20 * time.Millisecond
)

// standing is the rank of the first waiter of a queue when it was last published.
type standing struct {
	rank   Rank // nil: there is no order over processes
	of     *queued
	others []Other
	at     time.Time
	told   time.Time     // when the waiter was said to ask next
	took   time.Duration // how long Stand took
	room   int           // see Answer
	held   time.Time     // see Answer
	behind int           // units of others that the latest request has left room for
	sure   bool          // none of these has been served meanwhile
}

// stands reports whether the first waiter has to be published: before a rest, unless the others know it, and before its
// request. q is locked.
func (q *queue) stands(wait time.Duration) bool {
	s := &q.standing
	switch {
	case s.rank == nil, q.aside():
		return false
	case wait > max(fresh, s.took):
		return s.of != q.first || s.room > 0 || !s.told.Equal(q.due()) || !s.sure && time.Since(s.at) >= fresh
	case wait > min(s.took, longestLead):
		return false
	}
	return s.room > 0 || s.of != q.first && len(s.others) > 0 || time.Since(s.at) > fresh
}

// tellOthers publishes the first waiter. q is locked, but not during the call of Stand.
func (q *queue) tellOthers() {
	s := &q.standing
	w, due, room := q.first, q.due(), s.room
	q.mu.Unlock()
	began := time.Now()
	others, told := s.rank.Stand(w.request, w.came, due, room)
	ended := time.Now()
	q.mu.Lock()
	if !told {
		others = s.others // they have hardly been served meanwhile
	}
	s.sure = s.of == w && s.told.Equal(due) || s.behind == 0
	s.of, s.others, s.at, s.told, s.took, s.room = w, others, ended, due, ended.Sub(began), 0
	if q.older(w).Units < s.behind { // the waiters served since were counted twice
		s.behind, q.again = 0, ended
	}
}

// aside reports whether the first waiter stays out of the order just now: its key is held back, however much room the others leave. q is
// locked.
func (q *queue) aside() bool {
	return q.standing.rank != nil && time.Until(q.standing.held) > rejoins
}

// leaveOthers has the other processes forget the first waiter until it is published again. q is locked, but not meanwhile.
func (q *queue) leaveOthers() {
	s := &q.standing
	*s = standing{rank: s.rank, took: s.took, held: s.held, sure: true}
	q.mu.Unlock()
	s.rank.Leave()
	q.mu.Lock()
}

// OlderThan returns the first waiters of other processes that came before an instant.
func OlderThan(came time.Time, others []Other) (older Older) {
	first := came
	for _, other := range others {
		if !other.Came.Before(came) {
			continue
		}
		older.Units += other.Units
		older.Far = older.Far || came.Sub(other.Came) > slack
		if other.Came.Before(first) {
			first, older.First = other.Came, other.Units
		}
	}
	return older
}

// older is OlderThan a waiter. q is locked.
func (q *queue) older(w *queued) Older {
	return OlderThan(w.came, q.standing.others)
}

// lead returns the part of a wait for the first waiter's request after which the worker publishes the waiter again,
// shortly before the request. q is locked.
func (q *queue) lead(wait time.Duration) time.Duration {
	if q.aside() {
		return min(wait, time.Until(q.standing.held)-rejoins)
	}
	lead := min(q.standing.took, longestLead)
	if q.standing.rank == nil || wait <= lead {
		return wait
	}
	if wait -= lead; q.standing.sure {
		return wait
	}
	return min(wait, fresh)
}

// lingers tells the other processes that the queue has no waiter any more, and reports whether it has one after all.
// While waiters of other processes are known, a waiter that comes within a moment stands behind them, as if it had come
// before the last one left. q is locked, but not meanwhile.
func (q *queue) lingers(timer *time.Timer) bool {
	s := &q.standing
	if s.rank == nil {
		return false
	}
	contended := len(s.others) > 0
	*s = standing{rank: s.rank}
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

// follows reports whether a waiter may be asked for together with the first one: no other process has a much older one. q
// is locked.
func (q *queue) follows(w *queued) bool {
	return !q.older(w).Far
}

// requests returns the requests of a group, each of which leaves room for the others that came before. q is locked.
func (q *queue) requests(group []*queued) []Request {
	requests := make([]Request, len(group))
	for i, w := range group {
		requests[i] = w.request
		requests[i].Older = q.older(w)
		if i == 0 {
			q.standing.behind = requests[0].Older.Units
		}
	}
	return requests
}
