package wait

import (
	"fmt"
	"time"
)

// arm sets the timer to the next event that something has to be done about, or stops it. A renewal that is due waits
// while all places are in flight. The lock is held.
func (l *Leases) arm() {
	next := min(l.fresh.next(), l.deadlines.next())
	if l.mayStart() {
		next = min(next, l.renewals.next())
	}
	l.setAlarm(next)
}

// setAlarm sets the timer to an instant, or stops it. The lock is held.
func (l *Leases) setAlarm(at time.Duration) {
	l.alarm = at
	switch {
	case at == never && l.timer != nil:
		l.timer.Stop()
	case at == never:
	case l.timer == nil:
		l.timer = time.AfterFunc(at-l.now(), l.wake)
	default:
		l.timer.Reset(at - l.now())
	}
}

// mayStart reports whether another Renew may begin. The lock is held.
func (l *Leases) mayStart() bool { return !l.starting && l.inFlight < l.InFlight }

// wake is the timer's function.
func (l *Leases) wake() {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return
	}
	l.running++
	now := l.now()
	lost := l.expire(now)
	l.renewDue(now)
	l.mu.Unlock()
	l.tell(lost)
	l.leave()
}

// expire ends the leases that are no longer certain, and returns them. The lock is held.
func (l *Leases) expire(now time.Duration) (lost []finished) {
	l.promote(now)
	for x := l.deadlines.due(now); x != nil; x = l.deadlines.due(now) {
		lost = append(lost, l.finish(x, ErrExpired))
	}
	return lost
}

// renewDue begins a Renew if a lease is due, and sets the timer. The lock is held.
func (l *Leases) renewDue(now time.Duration) {
	if l.mayStart() && l.renewals.next() <= now {
		l.starting = true
		l.inFlight++
		l.running++
		go l.renew()
	}
	l.arm()
}

// renew renews the leases that are due, up to Most.
func (l *Leases) renew() {
	defer l.leave()
	batch, places, sent := l.take()
	if len(batch) == 0 {
		return
	}
	answers := make([]Renewal, len(batch))
	err := l.ask(places, answers)
	took := l.now() - sent
	l.tell(l.apply(batch, answers, sent))
	l.report(answers, took, err)
}

// take takes the leases that are due, up to Most, and lets another goroutine take the rest. It returns them with the
// time just before they are sent.
func (l *Leases) take() (batch []*Lease, places []*Place, sent time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.starting = false
	sent = l.now()
	l.promote(sent)
	for len(batch) < l.Most {
		x := l.renewals.pop(sent)
		if x == nil {
			break
		}
		if x.at[deadline] <= sent {
			continue // it is lost, and the timer is about to say so
		}
		batch, places = append(batch, x), append(places, x.of)
	}
	if len(batch) == 0 {
		l.inFlight--
	}
	l.renewDue(sent)
	return batch, places, sent
}

// ask calls Renew. If it panics, nothing is known.
func (l *Leases) ask(places []*Place, answers []Renewal) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			clear(answers)
			err = fmt.Errorf("lease: Renew panicked: %v", cause)
		}
	}()
	return l.Renew(l.closes, places, answers)
}

// apply handles the answers to a batch that was sent at an instant. It returns the leases that are lost.
func (l *Leases) apply(batch []*Lease, answers []Renewal, sent time.Duration) (lost []finished) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	l.inFlight--
	fraction := l.random()
	lost = l.expire(now) // an answer that comes too late changes nothing
	for i, x := range batch {
		switch {
		case x.over != nil:
		case answers[i] == Held: // sent after the last one, so that the deadline only moves forwards
			l.deadlines.put(x, sent+certain(x.length))
			l.renewals.put(x, sent+x.length/3)
		case answers[i] == NotHeld:
			lost = append(lost, l.finish(x, ErrNotHeld))
		default:
			l.renewals.put(x, now+pauseOf(x.length, fraction))
		}
	}
	l.renewDue(now)
	return lost
}

// pauseOf returns the time until a renewal that failed is retried. A random fraction of it keeps the processes of a fleet
// from retrying in step. A batch has the same fraction, so that it stays together.
func pauseOf(length time.Duration, fraction float64) time.Duration {
	least := max(length/30, shortestPause)
	return least + part(least/2, fraction)
}

// tell ends the contexts of leases that are lost, and then calls the hook for each.
func (l *Leases) tell(lost []finished) {
	for i := range lost {
		contain(lost[i].cancel)
	}
	if l.Lost == nil {
		return
	}
	for i := range lost {
		contain(func() { l.Lost(lost[i].of, lost[i].reason) })
	}
}

// report calls the hook after a Renew.
func (l *Leases) report(answers []Renewal, took time.Duration, err error) {
	if l.Renewed == nil {
		return
	}
	r := RenewalReport{Took: took, Err: err}
	for _, answer := range answers {
		switch answer {
		case Held:
			r.Held++
		case NotHeld:
			r.NotHeld++
		default:
			r.Unanswered++
		}
	}
	contain(func() { l.Renewed(r) })
}

// contain calls a function that is not ours, and recovers if it panics: the process goes on, and so do the leases.
func contain(foreign func()) {
	defer func() { _ = recover() }()
	foreign()
}

// leave counts a goroutine out.
func (l *Leases) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running--; l.running == 0 && l.stopped != nil {
		close(l.stopped)
	}
}
