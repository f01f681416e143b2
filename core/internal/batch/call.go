package batch

// Call is what one caller asks a server, and the answer. It is made by [Lane.NewCall].
type Call[Q, A any] struct {
	// Question is what is asked. It is the call's own until the call is freed.
	Question Q
	// Answer and Err are what has come of it, once the call is answered. Calls of a group have
	// the same answer, and Place says which of them this one is, in order of arrival from 0.
	Answer A
	Err    error
	Place  int

	status   status
	group    *Group[Q, A]
	since    int64 // when it began to wait, see sinceEpoch
	previous *Call[Q, A]
	next     *Call[Q, A] // in its group
	answered chan struct{}
}

// status says whose a call is. The lane's lock guards it.
type status uint8

const (
	idle    status = iota // the caller's
	waiting               // in the queue
	sent                  // of a batch, until it is answered
	left                  // nobody's, or an overdue batch's: it must not be used again
)

// Group is calls that ask the same, in order of arrival: they are asked once. A call that nobody
// asks with is a group, too.
type Group[Q, A any] struct {
	// Answer and Err are set by [Config.Send], and go to every call of the group.
	Answer A
	Err    error

	alone       bool // its caller sends it
	first, last *Call[Q, A]
	length      int
	hash        uint64
	since       int64        // when its first call came, be it there or not
	before      *Group[Q, A] // in the queue
	behind      *Group[Q, A]
}

// Question returns what the group asks.
func (g *Group[Q, A]) Question() *Q { return &g.first.Question }

// Alone reports whether the group is one call that its caller sends, who cannot leave meanwhile.
func (g *Group[Q, A]) Alone() bool { return g.alone }

// Len returns how many calls the group has: how often the question is asked.
func (g *Group[Q, A]) Len() int { return g.length }

// add puts a call at the end of the group.
func (g *Group[Q, A]) add(c *Call[Q, A]) {
	c.group, c.previous, c.next = g, g.last, nil
	if g.last == nil {
		g.first = c
	} else {
		g.last.next = c
	}
	g.last = c
	g.length++
}

// remove takes a call out of the group.
func (g *Group[Q, A]) remove(c *Call[Q, A]) {
	if c.previous == nil {
		g.first = c.next
	} else {
		c.previous.next = c.next
	}
	if c.next == nil {
		g.last = c.previous
	} else {
		c.next.previous = c.previous
	}
	c.group, c.previous, c.next = nil, nil, nil
	g.length--
}

// queue is the groups that wait, in the order in which their first calls came. The zero value is
// an empty queue.
type queue[Q, A any] struct {
	first, last *Group[Q, A]
	byHash      map[uint64]*Group[Q, A]
	calls       int
}

func (q *queue[Q, A]) empty() bool { return q.first == nil }

// push puts a group at the end.
func (q *queue[Q, A]) push(g *Group[Q, A]) { q.insert(g, q.last) }

// insert puts a group behind another one, or at the beginning if that is nil.
func (q *queue[Q, A]) insert(g, before *Group[Q, A]) {
	behind := q.first
	if before != nil {
		behind = before.behind
		before.behind = g
	} else {
		q.first = g
	}
	if behind != nil {
		behind.before = g
	} else {
		q.last = g
	}
	g.before, g.behind = before, behind
	if g.hash != 0 {
		if q.byHash == nil {
			q.byHash = make(map[uint64]*Group[Q, A])
		}
		q.byHash[g.hash] = g
	}
}

// postpone puts a group, whose first calls have left, where the first one that it has belongs.
func (q *queue[Q, A]) postpone(g *Group[Q, A]) {
	q.remove(g)
	g.since = g.first.since
	place := q.last
	for place != nil && place.since > g.since {
		place = place.before
	}
	q.insert(g, place)
}

// remove takes a group out of the queue.
func (q *queue[Q, A]) remove(g *Group[Q, A]) {
	if g.before == nil {
		q.first = g.behind
	} else {
		g.before.behind = g.behind
	}
	if g.behind == nil {
		q.last = g.before
	} else {
		g.behind.before = g.before
	}
	g.before, g.behind = nil, nil
	if g.hash != 0 && q.byHash[g.hash] == g {
		delete(q.byHash, g.hash)
	}
}
