package batch

import (
	"context"
	"time"
)

// longestSilence is the number of budgets without a word from the server after which an attempt to connect is given up,
// and the next one can begin: a network that comes back may have forgotten lost packets.
const longestSilence = 10

// revive begins to open a connection to a server with an open breaker, and reports whether there is none yet: callers do
// not wait for a server that may still be gone. Once there is a connection, the next call is the breaker's trial.
func (l *Lane[Q, A]) revive() bool {
	if l.ready() {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed && l.connecting == 0 {
		l.dial(sinceEpoch())
	}
	return true
}

// dial begins to open a connection for a call that has come at an instant. l is locked.
func (l *Lane[Q, A]) dial(now int64) {
	if l.connecting == 0 && l.unreached == nil {
		l.dialed = now
	}
	l.connecting++
	go l.connect(now)
}

func (l *Lane[Q, A]) ready() bool { return l.Ready == nil || l.Ready(int(l.unsent.Load())) }

// connect opens a connection and sends the calls that wait for it. A connection that comes too late
// for them is kept for later calls. Each budget in which nothing is heard of the server is a failure of it.
// If the breaker is due, the attempt is its trial, and one failure at the most.
func (l *Lane[Q, A]) connect(began int64) {
	ctx, cancel := context.WithTimeout(context.Background(), l.ConnectTimeout)
	defer cancel()
	admitted, trial := l.Breaker.Admit()
	opened := make(chan error, 1)
	go func() { opened <- l.open(ctx) }()
	alarm := time.NewTimer(l.Budget)
	defer alarm.Stop()
	for silences := 0; ; {
		select {
		case err := <-opened:
			work, outcome := l.connected(err, silences >= longestSilence)
			if outcome == Failed && silences > 0 && !trial {
				outcome = Unknown // it was counted
			}
			if admitted {
				l.Breaker.Ended(trial, outcome)
			}
			if work {
				l.work()
			}
			return
		case <-alarm.C:
		}
		silent, next := l.listen(began)
		alarm.Reset(next)
		if !silent {
			continue
		}
		if admitted && !trial { // a trial ends with the attempt
			l.Breaker.Ended(false, Failed)
			admitted, trial = l.Breaker.Admit()
		}
		if silences++; silences >= longestSilence {
			cancel()
		}
	}
}

// connected notes how an attempt to connect has ended, and whether it was given up. It reports whether there is work for
// a worker, which it counts, and the outcome for the breaker.
func (l *Lane[Q, A]) connected(err error, givenUp bool) (work bool, outcome Outcome) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.connecting--
	defer l.end()
	if err == nil {
		l.unreached = nil
		if work = l.wants(0); work {
			l.start()
		}
		return work, Unknown // a connection alone does not make a server that answers
	}
	if l.inFlight > 0 {
		return false, Unknown // the server may be answering on other connections
	}
	if givenUp && l.unreached != nil {
		return false, Failed // the waiting calls were told
	}
	l.unreached = nil
	if outcome = l.Outcome(err); outcome == Failed {
		l.unreached = err
	}
	l.failAll(err)
	return false, outcome
}

// listen reports whether nothing was heard of the server for a budget since an attempt to connect has begun. Then it
// tells the calls that wait for a connection. next is when to listen again.
func (l *Lane[Q, A]) listen(began int64) (silent bool, next time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := sinceEpoch()
	if left := int64(l.Budget) - (now - max(began, l.heardOf())); left > 0 {
		return false, time.Duration(left)
	}
	if l.inFlight > 0 {
		return false, l.Budget
	}
	err := l.fail(ErrUnconnected)
	if l.Outcome(err) != Failed {
		return false, l.Budget // others have all connections: the calls wait for their turn
	}
	l.unreached = err
	l.failAll(err)
	l.end()
	return true, l.Budget
}

// open calls Connect. A panic is an error, too.
func (l *Lane[Q, A]) open(ctx context.Context) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = l.Fail(nil, PanicError{cause})
		}
	}()
	return l.Connect(ctx)
}
