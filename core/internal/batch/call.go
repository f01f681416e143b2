package batch

// Call is the request of one caller to a server, and the answer. It is made by [Lane.NewCall].
type Call[Q, A any] struct {
	// Request is the caller's request. It belongs to the call until the call is freed.
	Request Q
	// Answer and Err are set when the call has been answered. All calls of a group get the same
	// answer. Place is the call's position in its group, in order of arrival from 0.
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

// status tells the owner of a call. The lane's lock guards it.
type status uint8

const (
	idle    status = iota // the caller's
	waiting               // in the queue
	sent                  // of a batch, until it is answered
	left                  // an overdue batch may still read it: it must not be used again
)

// Group is a number of calls with the same request, in order of arrival. The request is sent once.
// A call that shares its request with no other is a group of one.
type Group[Q, A any] struct {
	// Request is the request of the group's calls, and Len how many there are: how often it is made.
	Request *Q
	Len     int
	// Alone says that the group is one call, sent by its caller. That caller cannot leave early.
	Alone bool
	// Answer and Err are set by [Config.Send], and go to every call of the group.
	Answer A
	Err    error

	first, last *Call[Q, A]
	hash        uint64
	weight      int          // as if its request were made once
	since       int64        // when its first call came, which may have left since
	before      *Group[Q, A] // in the queue
	behind      *Group[Q, A]
}

// Single returns a group of one call that no lane sends.
func Single[Q, A any](c *Call[Q, A]) *Group[Q, A] {
	return &Group[Q, A]{first: c, last: c, Request: &c.Request, Len: 1}
}

// add puts a call at the end of the group.
func (g *Group[Q, A]) add(c *Call[Q, A]) {
	c.group, c.previous, c.next = g, g.last, nil
	if g.last == nil {
		g.first, g.Request = c, &c.Request
	} else {
		g.last.next = c
	}
	g.last = c
	g.Len++
}

// remove takes a call out of the group.
func (g *Group[Q, A]) remove(c *Call[Q, A]) {
	if c.previous != nil {
		c.previous.next = c.next
	} else if g.first = c.next; g.first != nil {
		g.Request = &g.first.Request
	}
	if c.next == nil {
		g.last = c.previous
	} else {
		c.next.previous = c.previous
	}
	c.group, c.previous, c.next = nil, nil, nil
	g.Len--
}

// queue holds the groups that wait, in the order in which their first calls came. The zero value
// is an empty queue.
type queue[Q, A any] struct {
	first, last *Group[Q, A]
	byHash      map[uint64]*Group[Q, A]
	calls       int
	weight      int // of the groups
}

// push puts a group at the end.
func (q *queue[Q, A]) push(g *Group[Q, A]) { q.insert(g, q.last) }

// insert puts a group behind another one, or at the beginning if that is nil.
func (q *queue[Q, A]) insert(g, before *Group[Q, A]) {
	q.weight += g.weight
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

// postpone moves a group to the place of the first call that it still has, after earlier ones have left.
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
	q.weight -= g.weight
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
