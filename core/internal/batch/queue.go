package batch

import "time"

// enqueue puts a call into the queue, in the group with the same request if there is one. l is locked.
func (l *Lane[Q, A]) enqueue(c *Call[Q, A], now int64) error {
	switch {
	case l.queue.calls >= l.MostWaiting && l.silent(now):
		return ErrStalled
	case l.queue.calls >= l.MostWaiting:
		return ErrFull
	case l.unconnected(now):
		return ErrUnconnected
	}
	c.status, c.since = waiting, now
	var hash uint64
	if l.Hash != nil {
		hash = l.Hash(&c.Request)
	}
	if g := l.queue.byHash[hash]; g != nil && hash != 0 && l.Same(&g.first.Request, &c.Request) {
		g.add(c)
	} else {
		g = l.newGroup(c, now)
		g.hash = hash
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
	if g.length == 0 {
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
	l.armed = !l.queue.empty()
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
	switch {
	case l.unconnected(now):
		err = ErrUnconnected
	case l.silent(now):
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

// unconnected reports whether the lane has tried to connect for as long as a call may wait, in vain.
// l is locked.
func (l *Lane[Q, A]) unconnected(now int64) bool {
	return l.connecting && l.inFlight == 0 && now-l.dialed >= int64(l.Patience) && !l.ready()
}

// silent reports whether the server has answered no batch for as long as a call may wait. l is
// locked.
func (l *Lane[Q, A]) silent(now int64) bool { return now-l.heard >= int64(l.Patience) }

// answer tells the caller of a call that it has failed.
func (c *Call[Q, A]) answer(err error) {
	c.Err = err
	c.answered <- struct{}{}
}
