package batch

import (
	"math"
	"time"
)

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
