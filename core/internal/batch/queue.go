package batch

import (
	"math"
	"time"
)

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

// enqueue puts a call into the queue, in the group with the same request if there is one, or returns the error that the call
// gets. l is locked.
func (l *Lane[Q, A]) enqueue(c *Call[Q, A], now int64) error {
	switch {
	case l.queue.calls >= l.MostWaiting && l.silent(now):
		return l.fail(ErrStalled)
	case l.queue.calls >= l.MostWaiting:
		return l.fail(ErrFull)
	case l.unconnected(now):
		if l.connecting == 0 {
			l.dial(now)
		}
		return l.unreached
	}
	c.status, c.since = waiting, now
	var hash uint64
	if l.Hash != nil {
		hash = l.Hash(&c.Request)
	}
	if g := l.queue.byHash[hash]; g != nil && hash != 0 && l.Same(g.Request, &c.Request) {
		g.add(c)
	} else {
		g = l.newGroup(c, now)
		g.hash, g.weight = hash, l.Weight(&c.Request, 1)
		l.queue.push(g)
	}
	l.queue.calls++
	if !l.armed {
		l.arm(now)
	}
	return nil
}

// newGroup returns a group of one call. l is locked.
func (l *Lane[Q, A]) newGroup(c *Call[Q, A], now int64) *Group[Q, A] {
	var g *Group[Q, A]
	if last := len(l.groups) - 1; last >= 0 {
		g, l.groups = l.groups[last], l.groups[:last]
	} else {
		g = new(Group[Q, A])
	}
	g.since = now
	g.add(c)
	return g
}

// take takes a call that waits out of the queue. l is locked.
func (l *Lane[Q, A]) take(c *Call[Q, A]) {
	g := c.group
	g.remove(c)
	c.status = idle
	l.queue.calls--
	if g.Len == 0 {
		l.queue.remove(g)
		l.spareGroup(g)
	}
}

func (l *Lane[Q, A]) spareGroup(g *Group[Q, A]) {
	*g = Group[Q, A]{}
	if len(l.groups) < l.Full {
		l.groups = append(l.groups, g)
	}
}

// arm sets the expiry to the moment at which the oldest call is overdue. l is locked.
func (l *Lane[Q, A]) arm(now int64) {
	l.armed = l.queue.first != nil
	if l.armed {
		l.expiry.Reset(max(0, l.Patience-time.Duration(now-l.queue.first.since)))
	}
}

// expire answers the calls that have waited too long.
func (l *Lane[Q, A]) expire() {
	l.mu.Lock()
	now := sinceEpoch()
	overdue := func(since int64) bool { return now-since >= int64(l.Patience) }
	err := ErrOverdue
	if l.silent(now) {
		err = ErrStalled
	}
	for g := l.queue.first; g != nil && overdue(g.since); g = l.queue.first {
		for c := g.first; c != nil && overdue(c.since); c = g.first {
			l.take(c)
			c.answer(l.fail(err))
		}
		if g.first != nil {
			l.queue.postpone(g)
		}
	}
	l.arm(now)
	l.end()
	l.mu.Unlock()
}

// failAll answers all calls that wait with an error. l is locked.
func (l *Lane[Q, A]) failAll(err error) {
	l.healthy = false
	for g := l.queue.first; g != nil; g = l.queue.first {
		for c := g.first; c != nil; {
			next := c.next
			l.take(c)
			c.answer(err)
			c = next
		}
	}
}

// unconnected reports whether the lane has tried to connect for a budget, in vain: calls do not wait for the next
// attempt. l is locked.
func (l *Lane[Q, A]) unconnected(now int64) bool {
	return l.unreached != nil && l.inFlight == 0 && now-max(l.dialed, l.heardOf()) >= int64(l.Budget) && !l.ready()
}

// silent reports whether nothing was heard of the server for a budget. l is locked.
func (l *Lane[Q, A]) silent(now int64) bool {
	return now-max(l.answered, l.heardOf()) >= int64(l.Budget)
}

// heardOf returns when something was last heard of the server, see sinceEpoch.
func (l *Lane[Q, A]) heardOf() int64 {
	if l.Heard == nil {
		return math.MinInt64
	}
	return int64(l.Heard().Sub(epoch))
}

// answer tells the caller of a call that it has failed.
func (c *Call[Q, A]) answer(err error) {
	c.Err = err
	c.answered <- struct{}{}
}
