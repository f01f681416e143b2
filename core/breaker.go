package core

import (
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"
)

const (
	defaultBreakerFailures = 5
	defaultBreakerPause    = 500 * time.Millisecond
)

// BreakerState says whether a server is asked.
type BreakerState string

const (
	// BreakerClosed means that it is. This is the normal state.
	BreakerClosed BreakerState = "closed"
	// BreakerOpen means that it has failed several times in a row. Questions fail at once, with
	// [Suspended].
	BreakerOpen BreakerState = "open"
	// BreakerHalfOpen means that it is being tried with one call. All other questions fail at
	// once.
	BreakerHalfOpen BreakerState = "half-open"
)

// breaker keeps questions from a server that does not answer. A nil breaker lets all
// of them through.
type breaker struct {
	circuit *gobreaker.TwoStepCircuitBreaker[struct{}]
	// changed is the state that the circuit has changed to and nobody has been told of,
	// as its number plus 1. The circuit tells it while it is locked.
	changed atomic.Int32
	report  func(BreakerState)
}

// newBreaker returns a breaker that opens after a number of failures in a row, for
// about the pause: processes that have lost the same server shall not all come back
// at once.
func newBreaker(failures int, pause time.Duration, report func(BreakerState)) *breaker {
	if failures == 0 {
		return nil
	}
	b := &breaker{report: report}
	b.circuit = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		MaxRequests:   1,
		Timeout:       pause*3/4 + rand.N(pause/2+1),
		ReadyToTrip:   func(counts gobreaker.Counts) bool { return counts.ConsecutiveFailures >= uint32(failures) },
		IsSuccessful:  func(err error) bool { return !FailureOf(err).blamesServer() },
		OnStateChange: func(_ string, _, to gobreaker.State) { b.changed.Store(int32(to) + 1) },
	})
	return b
}

// refuses reports whether a question need not be tried.
func (b *breaker) refuses() bool {
	if b == nil {
		return false
	}
	defer b.tell()
	return b.circuit.State() == gobreaker.StateOpen
}

// begin asks for a call, which done has to be told the end of. Without done there must
// be none.
func (b *breaker) begin() (done func(error)) {
	if b == nil {
		return func(error) {}
	}
	defer b.tell()
	end, err := b.circuit.Allow()
	if err != nil {
		return nil
	}
	return func(err error) {
		end(err)
		b.tell()
	}
}

// tell reports a change of state.
func (b *breaker) tell() {
	switch b.changed.Swap(0) {
	case int32(gobreaker.StateClosed) + 1:
		b.report(BreakerClosed)
	case int32(gobreaker.StateOpen) + 1:
		b.report(BreakerOpen)
	case int32(gobreaker.StateHalfOpen) + 1:
		b.report(BreakerHalfOpen)
	}
}

var errSuspended = &failure{Suspended, errors.New("core: redis has failed several times in a row and is not asked for a while")}
