package batch

import "context"

// revive begins to open a connection to a server whose breaker is open, and reports whether there
// is none yet: no caller has to wait for a server that may still be gone. Once there is a
// connection, the next call is the breaker's trial.
func (l *Lane[Q, A]) revive() bool {
	if l.ready() {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed && !l.connecting {
		l.dial(sinceEpoch())
	}
	return true
}

// dial begins to open a connection for a call that has come at an instant: a call that waits for the
// connection in vain waits as long as the attempt takes. l is locked.
func (l *Lane[Q, A]) dial(now int64) {
	l.connecting = true
	if !l.unreached {
		l.dialed = now
	}
	go l.connect()
}

func (l *Lane[Q, A]) ready() bool { return l.Ready == nil || l.Ready() }

// connect opens a connection and sends the calls that wait for it. A connection that comes too late
// for them is kept for later calls. If the breaker is due, a failure counts as its trial.
func (l *Lane[Q, A]) connect() {
	admitted, trial := l.Breaker.Admit()
	err := l.open()
	l.mu.Lock()
	l.connecting, l.unreached = false, err != nil && l.Outcome(err) == Failed
	work := err == nil && !l.queue.empty() && l.inFlight < l.InFlight
	failed := err != nil && l.inFlight == 0
	if work {
		l.inFlight++
	}
	if failed {
		l.failAll(err)
	}
	l.end()
	l.mu.Unlock()
	if admitted {
		outcome := Unknown // a connection alone does not make a server that answers
		if failed {
			outcome = l.Outcome(err)
		}
		l.Breaker.Ended(trial, outcome)
	}
	if work {
		l.work()
	}
}

// open calls Connect. A panic is an error, too.
func (l *Lane[Q, A]) open() (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), l.ConnectTimeout)
	defer cancel()
	defer func() {
		if cause := recover(); cause != nil {
			err = l.Fail(nil, PanicError{cause})
		}
	}()
	return l.Connect(ctx)
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
