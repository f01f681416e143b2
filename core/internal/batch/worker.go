package batch

import (
	"runtime"
	"sync/atomic"
	"time"
)

// sending is a batch, with all that a worker needs to send it. It is used again.
type sending[Q, A any] struct {
	context *Context
	batch   []*Group[Q, A]
	lone    Group[Q, A] // the batch, if that is a call which its caller sends
	weight  int
	trial   bool  // of the breaker
	began   int64 // when it was about to be sent, see sinceEpoch

	// unsent says that it is counted among those of the lane.
	unsent atomic.Bool

	// answered is set by the worker that answers the batch, or by the clock if the batch is overdue.
	answered atomic.Bool
}

// dispatch starts a worker at an instant, if there is work for one more, or has a connection opened for it. l is locked.
func (l *Lane[Q, A]) dispatch(now int64) {
	switch {
	case !l.wants(0):
	case l.ready():
		l.start()
		go l.work()
	case l.connecting == 0 || l.inFlight > 0 && l.wants(l.connecting):
		l.dial(now)
	}
}

// wants reports whether there is work for one more worker, besides those in flight and this many others. l is locked.
func (l *Lane[Q, A]) wants(others int) bool {
	workers := l.inFlight + others
	if l.queue.first == nil || workers < l.InFlight {
		return l.queue.first != nil
	}
	return l.queue.weight >= (l.boarding+others+1)*l.Full && workers < l.window.of(l.most())
}

// most returns how many batches may be in flight at once.
func (l *Lane[Q, A]) most() int {
	if l.MostInFlight == nil {
		return l.InFlight
	}
	return l.MostInFlight()
}

// start counts a worker in. l is locked.
func (l *Lane[Q, A]) start() {
	l.inFlight++
	l.boarding++
}

// work sends one batch after the other until the queue is empty. inFlight already counts the worker.
func (l *Lane[Q, A]) work() {
	for again := true; again; {
		if l.crowd.Load() > 0 {
			runtime.Gosched()
		}
		l.mu.Lock()
		l.boarding--
		s := l.newSending()
		var patience time.Duration
		if l.inFlight <= l.InFlight || l.queue.weight >= l.Full { // beyond those, batches are full
			patience = l.board(s)
			if l.Gather {
				l.noteCrowd(len(s.batch))
			}
		}
		if len(s.batch) == 0 {
			l.land(s)
			l.sparing = append(l.sparing, s)
			l.mu.Unlock()
			return
		}
		now := sinceEpoch()
		l.begin(s, now)
		l.dispatch(now)
		l.mu.Unlock()
		again = l.send(s, patience, true)
	}
}

// begin notes that a batch is about to be sent. l is locked.
func (l *Lane[Q, A]) begin(s *sending[Q, A], now int64) {
	s.began = now
	s.unsent.Store(true)
	l.unsent.Add(1)
}

// took notes that a batch has its connection, or needs none any more.
func (l *Lane[Q, A]) took(s *sending[Q, A]) {
	if s.unsent.CompareAndSwap(true, false) {
		l.unsent.Add(-1)
	}
}

// crowdLasts is how many batches of one group it takes until no crowd is expected any more.
const crowdLasts = 8

// noteCrowd notes how many groups a batch has. l is locked.
func (l *Lane[Q, A]) noteCrowd(groups int) {
	if groups > 1 {
		l.crowd.Store(crowdLasts)
	} else if left := l.crowd.Load(); left > 0 {
		l.crowd.Store(left - 1)
	}
}

// newSending returns an empty batch. l is locked.
func (l *Lane[Q, A]) newSending() *sending[Q, A] {
	if last := len(l.sparing) - 1; last >= 0 {
		s := l.sparing[last]
		l.sparing = l.sparing[:last]
		return s
	}
	return new(sending[Q, A])
}

// board moves as many groups as fit from the queue into a batch. It returns how long the batch may wait for its
// connection: the rest of the first call's patience. l is locked.
func (l *Lane[Q, A]) board(s *sending[Q, A]) (patience time.Duration) {
	if first := l.queue.first; first != nil {
		patience = max(min(l.Budget, l.Patience), l.Patience-time.Duration(sinceEpoch()-first.since))
	}
	for g := l.queue.first; g != nil; g = l.queue.first {
		weight := l.Weight(g.Request, g.Len)
		if s.weight > 0 && s.weight+weight > l.Full {
			break
		}
		l.queue.remove(g)
		l.queue.calls -= g.Len
		place := 0
		for c := g.first; c != nil; c = c.next {
			c.status, c.Place = sent, place
			place++
		}
		s.batch, s.weight = append(s.batch, g), s.weight+weight
	}
	return patience
}

// send sends a batch, answers its calls, and counts it out. It reports whether a worker is to send
// another one, for which it has been counted in again.
func (l *Lane[Q, A]) send(s *sending[Q, A], patience time.Duration, worker bool) (again bool) {
	report := Report{Weight: s.weight}
	for _, g := range s.batch {
		report.Calls += g.Len
	}
	s.answered.Store(false)
	var admitted bool
	admitted, s.trial = l.Breaker.Admit()
	if admitted {
		report.Err = l.carryOut(s, patience)
		report.Elapsed = s.context.Elapsed()
	} else {
		report.Err = l.fail(ErrSuspended)
		s.fail(report.Err)
	}
	if !s.answered.CompareAndSwap(false, true) {
		return false // it was overdue: inFlight counts another worker instead
	}
	l.took(s)
	outcome := Unknown
	if admitted {
		if outcome = Succeeded; report.Err != nil {
			outcome = l.Outcome(report.Err)
		}
		l.Breaker.Ended(s.trial, outcome)
	}
	spent := s.context != nil && !s.context.end() // the clock may be about to look at it
	deliver(s.batch)
	l.mu.Lock()
	now := sinceEpoch()
	if l.healthy = outcome == Succeeded; l.healthy {
		l.answered, l.unreached = now, nil
		l.window.note(now, report.Elapsed)
		if 4*s.weight >= 3*l.Full {
			l.window.noteFull(report.Elapsed, l.inFlight, l.most())
		}
	} else if outcome == Failed {
		l.suffer(s, now)
	}
	l.land(s)
	if !spent {
		l.sparing = append(l.sparing, s)
	}
	if l.queue.first != nil {
		if again = worker && l.healthy && l.wants(0); again {
			l.start()
		} else {
			l.dispatch(now)
		}
	}
	l.mu.Unlock()
	if admitted && l.Report != nil {
		l.Report(report)
	}
	return again
}

// suffer notes that a batch has failed. If the server has answered nothing for a budget since the batch was sent, queued
// calls stop waiting. A process that notices late has stood still itself, and knows nothing. l is locked.
func (l *Lane[Q, A]) suffer(s *sending[Q, A], now int64) {
	l.window.reset()
	if late := time.Duration(now-s.began) - l.Budget; l.answered <= s.began && late >= 0 && late < l.Budget/latest {
		l.failAll(l.fail(ErrStalled))
	}
}

// latest is the part of a budget, one in four, by which a process may be late to notice the end of a budget.
const latest = 4

// fail sets the error of all groups of a batch.
func (s *sending[Q, A]) fail(err error) {
	for _, g := range s.batch {
		g.Err = err
	}
}

// carryOut calls Send. If Send panics, all calls get that as their error.
func (l *Lane[Q, A]) carryOut(s *sending[Q, A], patience time.Duration) (err error) {
	if s.context == nil {
		s.context = newContext(l.Budget, l.Heard, func() { l.took(s) }, l.overdue(s))
	}
	defer func() {
		if cause := recover(); cause != nil {
			err = l.Fail(s.context, PanicError{cause})
			s.fail(err)
		}
	}()
	s.context.begin(patience)
	return l.Send(s.context, s.batch)
}

// PanicError is the error of a Send or Connect that has panicked.
type PanicError struct{ Cause any }

func (p PanicError) Error() string { return "panicked" }

// overdue returns the function that answers an overdue batch of a client which ignores deadlines, or
// nil if the client heeds them. The client may still read the calls, so they are not used again.
func (l *Lane[Q, A]) overdue(s *sending[Q, A]) func() {
	if l.Heeds {
		return nil
	}
	return func() {
		if !s.answered.CompareAndSwap(false, true) {
			return
		}
		reason := ErrTimedOut
		if !s.context.Sent() {
			reason = ErrUnconnected
		}
		l.took(s)
		err := l.Fail(s.context, reason)
		outcome := l.Outcome(err)
		l.Breaker.Ended(s.trial, outcome)
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, g := range s.batch {
			for c := g.first; c != nil; {
				next := c.next
				c.status = left
				c.answer(err)
				c = next
			}
		}
		now := sinceEpoch()
		if l.healthy = false; outcome == Failed {
			l.suffer(s, now)
		}
		l.inFlight--
		l.dispatch(now)
		l.end()
	}
}

// deliver hands each call the answer of its group.
func deliver[Q, A any](batch []*Group[Q, A]) {
	for _, g := range batch {
		answer, err := g.Answer, g.Err
		for c := g.first; c != nil; {
			next := c.next // the call is its caller's again as soon as it is answered
			c.group, c.previous, c.next = nil, nil, nil
			c.Answer, c.Err = answer, err
			c.answered <- struct{}{}
			c = next
		}
	}
}

// land puts a batch away, and counts its worker out. l is locked.
func (l *Lane[Q, A]) land(s *sending[Q, A]) {
	for _, g := range s.batch {
		if !g.Alone {
			l.spareGroup(g)
		}
	}
	clear(s.batch)
	s.batch, s.lone, s.weight = s.batch[:0], Group[Q, A]{}, 0
	l.inFlight--
	if l.closed {
		l.end()
	}
}
