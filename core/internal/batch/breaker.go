package batch

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// State says whether a breaker lets calls through.
type State int32

const (
	// Closed means that it does. This is the normal state.
	Closed State = iota
	// Open means that the server has failed several times in a row: no call is made.
	Open
	// HalfOpen means that one call, the trial, is in flight. No other call is made.
	HalfOpen
)

// Outcome says how a call has ended.
type Outcome int

const (
	// Succeeded means that the server has answered.
	Succeeded Outcome = iota
	// Failed means that the server cannot be relied on just now.
	Failed
	// Unknown means that the call says nothing about the server: it was not sent, or its caller
	// gave it up.
	Unknown
)

// Breaker keeps calls from a server that has failed several times in a row: it opens for a
// pause, then lets one call try the server, and closes when that call succeeds. A nil Breaker
// lets every call through. It may be used by many goroutines at once.
type Breaker struct {
	most   int32 // failures in a row
	pause  time.Duration
	report func(State)

	state    atomic.Int32
	failures atomic.Int32
	due      atomic.Int64 // when an open breaker lets a trial through, see sinceEpoch

	mu        sync.Mutex
	changes   []State // to report, in order
	reporting bool    // a goroutine is reporting them
}

// NewBreaker returns a closed breaker that opens after a number of failures in a row. It stays open
// for the pause, give or take a quarter, so that processes which have lost the same server do not all
// come back at the same moment. It returns nil for 0 failures. It reports each change of state, in
// order. The report must not panic.
func NewBreaker(failures int, pause time.Duration, report func(State)) *Breaker {
	if failures == 0 {
		return nil
	}
	return &Breaker{most: int32(failures), pause: pause, report: report}
}

// lets reports whether the breaker is closed, so that every call may be made.
func (b *Breaker) lets() bool { return b == nil || b.state.Load() == int32(Closed) }

// Refuses reports whether a call would be refused now.
func (b *Breaker) Refuses() bool { return !b.lets() && !b.Due() }

// Due reports whether the breaker is open and its pause is over: the next call is the trial.
func (b *Breaker) Due() bool {
	return b != nil && b.state.Load() == int32(Open) && sinceEpoch() >= b.due.Load()
}

// Admit reports whether a call may be made, and whether it is the trial of an open breaker. After
// every call that it admits, [Breaker.Ended] must be called.
func (b *Breaker) Admit() (admitted, trial bool) {
	switch {
	case b.lets():
		return true, false
	case b.Due() && b.change(Open, HalfOpen):
		return true, true
	}
	return false, false
}

// Ended tells the breaker the outcome of a call that it has admitted. While the breaker is not
// closed, only the trial counts: other calls were sent before it opened.
func (b *Breaker) Ended(trial bool, outcome Outcome) {
	switch {
	case b == nil:
	case trial:
		b.trialEnded(outcome)
	case b.state.Load() != int32(Closed):
	case outcome == Succeeded:
		if b.failures.Load() != 0 {
			b.failures.Store(0)
		}
	case outcome == Failed:
		if b.failures.Add(1) < b.most {
			return
		}
		b.postpone() // before it opens, so that no trial slips in
		b.change(Closed, Open)
	}
}

func (b *Breaker) trialEnded(outcome Outcome) {
	next := Open
	switch outcome {
	case Succeeded:
		next = Closed
		b.failures.Store(0)
	case Failed:
		b.postpone()
	case Unknown: // the next call is the trial
	}
	b.change(HalfOpen, next)
}

// change changes the state if it is still the expected one, and reports the change. One goroutine at
// a time reports changes, in order; another one that causes a change leaves its report to it.
func (b *Breaker) change(from, to State) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.state.CompareAndSwap(int32(from), int32(to)) {
		return false
	}
	b.changes = append(b.changes, to)
	if b.reporting {
		return true
	}
	b.reporting = true
	for len(b.changes) > 0 {
		next := b.changes[0]
		b.changes = b.changes[1:]
		b.mu.Unlock()
		b.report(next)
		b.mu.Lock()
	}
	b.reporting = false
	return true
}

// postpone puts the next trial off by the pause.
func (b *Breaker) postpone() {
	b.due.Store(sinceEpoch() + int64(b.pause*3/4+rand.N(b.pause/2+1)))
}

// epoch is an instant from which the monotonic clock is read.
var epoch = time.Now()

func sinceEpoch() int64 { return int64(time.Since(epoch)) }
