// Package batch lets the calls of many goroutines to one server share round trips.
//
// A call that comes alone is sent at once, on its caller's goroutine. When as many batches are in
// flight as may be, calls wait in a queue and are sent together in the next batch. So a lone call
// never waits for others, and under load a call takes a fraction of a round trip. Calls with the
// same request that wait together form a group, which is sent once.
//
// A [Lane] is such a queue with its workers. A server has one [Breaker], which its lanes share.
//
// The package knows neither Redis nor limits: [Config] says how a batch is sent.
package batch

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// Errors of [Lane.Do], and of calls that were not sent.
var (
	// ErrClosed means that the lane is closed.
	ErrClosed = errors.New("the lane is closed")
	// ErrSuspended means that the breaker is open.
	ErrSuspended = errors.New("the breaker is open")
	// ErrFull means that the queue has as many calls as it may have.
	ErrFull = errors.New("the queue is full")
	// ErrOverdue means that a call has waited in the queue for as long as it may.
	ErrOverdue = errors.New("the queue is too slow")
	// ErrStalled means that the server has answered nothing for a budget, while calls that came before were in flight.
	ErrStalled = errors.New("the server does not answer the calls in flight")
	// ErrUnconnected means that nothing was heard of the server for a budget, while a connection was being opened.
	ErrUnconnected = errors.New("there is no connection yet")
	// ErrTimedOut means that a client which ignores deadlines has not returned in time. The call
	// was sent unless the error is also ErrUnconnected.
	ErrTimedOut = errors.New("the server has not answered within the budget")
	// ErrLeft means that the caller's context has ended while the call was in flight. The call has
	// been sent, or is about to be: [Lane.Wait] waits for its answer.
	ErrLeft = errors.New("the caller has left")
)

// Config says how a lane works. All fields but Hash, Same, MostInFlight, Ready, Connect, Heard and Report are needed.
type Config[Q, A any] struct {
	// Send sends a batch, and sets the Answer or Err of each group. It returns an error if the
	// server has answered none of them.
	Send func(ctx *Context, batch []*Group[Q, A]) error
	// Fail turns an error of this package into the error that a call gets. A panic of Send comes as
	// a [PanicError]. ctx is the context of the batch, or nil if the call was not sent.
	Fail func(ctx *Context, err error) error
	// Outcome tells the meaning of an error of Send for the breaker.
	Outcome func(error) Outcome
	// Weight returns how much of a batch a request takes if it is made a number of times, at least 1.
	Weight func(q *Q, times int) int
	// Hash returns the same number for equal requests, and 0 for a request that is never grouped.
	// Same reports whether two requests are equal. The default is to group nothing.
	Hash func(*Q) uint64
	Same func(a, b *Q) bool

	// Budget is how long the server may take for its answer, from when a batch is sent.
	Budget time.Duration
	// Patience is how long a call may wait until it is sent: for its turn, and for a connection. While nothing is heard of
	// the server, no call waits for longer than the Budget.
	Patience time.Duration
	// InFlight is how many batches may be in flight at once, however small. Full is how much a batch weighs at
	// most, unless one call alone weighs more. MostWaiting is how many calls the queue holds.
	InFlight, Full, MostWaiting int
	// MostInFlight returns how many batches may be in flight at once in all. Those beyond InFlight are full, and as many as
	// the round trip has room for: see window. The default is InFlight.
	MostInFlight func() int
	// Gather has a batch wait until the goroutines that can run have run once, if one of the latest batches had several
	// groups: they may have something to add to it. So batches are fewer and larger, and each is sent a moment later.
	Gather bool
	// Heeds says that Send returns when its context ends. Otherwise the calls of an overdue batch
	// get an error without waiting for Send, and another worker takes its place.
	Heeds bool

	// Ready reports whether a batch would find an open connection if this many others are about to take one each. Connect
	// opens one, within ConnectTimeout. The default is that there always is one.
	Ready          func(others int) bool
	Connect        func(ctx context.Context) error
	ConnectTimeout time.Duration
	// Heard returns when the server was last known to be there: when it has accepted a connection, or answered a step on the
	// way to one. The zero time says that this is not known. The default knows nothing.
	Heard func() time.Time

	// Breaker keeps calls from a server that has failed. Nil lets every call through.
	Breaker *Breaker
	// Report is called for each batch that was sent, after its calls have been answered.
	Report func(Report)
}

// Report tells about one batch.
type Report struct {
	// Calls is how many calls the batch had, and Weight the sum of their weights.
	Calls, Weight int
	// Elapsed is the time since the batch was sent.
	Elapsed time.Duration
	// Err is why the batch failed, or nil.
	Err error
}

// Lane is a queue of calls to one server, with the workers that send them. It may be used by many goroutines at once. It
// has no goroutine while no call waits.
type Lane[Q, A any] struct {
	Config[Q, A]

	calls  sync.Pool
	unsent atomic.Int32 // batches that are about to take a connection

	mu         sync.Mutex
	queue      queue[Q, A]
	inFlight   int
	boarding   int // of those, workers that have taken nothing from the queue yet
	window     window
	healthy    bool  // the latest batch was answered
	connecting int   // connections that are being opened
	unreached  error // why the latest attempt has failed, or fails; nil: it has not
	dialed     int64 // when it began, see sinceEpoch; of several attempts that fail, the first
	answered   int64 // when the server last answered, or a call came while none was in flight
	expiry     *time.Timer
	armed      bool // the expiry will fire
	sparing    []*sending[Q, A]
	groups     []*Group[Q, A] // to be used again
	crowd      atomic.Int32   // how many more batches gather, if none has several groups; 0: the next one waits for none to join it
	closed     bool
	ended      chan struct{} // closed when the last batch has ended after Close
}

// New returns a lane. It starts no goroutine.
func New[Q, A any](config Config[Q, A]) *Lane[Q, A] {
	l := &Lane[Q, A]{Config: config, ended: make(chan struct{})}
	l.window.least = config.InFlight
	l.expiry = time.AfterFunc(time.Hour, l.expire)
	l.expiry.Stop()
	return l
}

// NewCall returns a call. The caller must set its Request: it may still hold an earlier one. Free the call when [Lane.Do]
// has returned, also with an error; after ErrLeft, when [Lane.Wait] has returned.
func (l *Lane[Q, A]) NewCall() *Call[Q, A] {
	if c, ok := l.calls.Get().(*Call[Q, A]); ok {
		return c
	}
	return &Call[Q, A]{answered: make(chan struct{}, 1)}
}

// Free gives a call back to be used again, together with the memory of its Request. A call that an
// overdue batch may still read is not used again.
func (l *Lane[Q, A]) Free(c *Call[Q, A]) {
	if c.status == left {
		return
	}
	var none A
	c.Answer, c.Err, c.Place = none, nil, 0
	l.calls.Put(c)
}

// Do makes a call and waits for its answer: when Do returns nil, the call has its Answer or Err. Do
// returns an error if the call cannot be sent, or if ctx ends first.
func (l *Lane[Q, A]) Do(ctx context.Context, c *Call[Q, A]) error {
	if !l.Breaker.lets() && (!l.Breaker.Due() || l.revive()) {
		return l.fail(ErrSuspended)
	}
	now := sinceEpoch()
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return l.fail(ErrClosed)
	}
	if l.inFlight == 0 && l.connecting == 0 && l.queue.first == nil && l.unreached == nil {
		l.answered = now
	}
	if patience, ok := l.alone(ctx); ok {
		l.inFlight++
		s := l.newSending()
		s.lone = Group[Q, A]{Request: &c.Request, Len: 1, Alone: true, first: c, last: c}
		s.batch = append(s.batch, &s.lone)
		s.weight = l.Weight(&c.Request, 1)
		l.begin(s, now)
		l.mu.Unlock()
		l.send(s, patience, false)
		<-c.answered
		return nil
	}
	err := l.enqueue(c, now)
	if err == nil {
		l.dispatch(now)
	}
	l.mu.Unlock()
	if err != nil {
		return err
	}
	return l.await(ctx, c)
}

// alone reports whether the caller can send a call at once, and how long sending may take. Such a
// caller cannot leave early, so their context must leave enough time and the server must be healthy.
// l is locked.
func (l *Lane[Q, A]) alone(ctx context.Context) (patience time.Duration, ok bool) {
	if l.queue.first != nil || !l.healthy || !l.Heeds || l.crowd.Load() > 0 || l.inFlight >= l.InFlight || l.inFlight > 0 && !l.ready() {
		return 0, false
	}
	deadline, limited := ctx.Deadline()
	if !limited {
		return l.Patience, true
	}
	left := time.Until(deadline)
	return min(left, l.Patience), left > l.Budget
}

func (l *Lane[Q, A]) fail(err error) error { return l.Fail(nil, err) }

// await returns when a call has been answered or its caller's context has ended. A call that has not
// been sent by then is never sent.
func (l *Lane[Q, A]) await(ctx context.Context, c *Call[Q, A]) error {
	done := ctx.Done()
	if done == nil { // to wait for one channel takes less time than for two
		<-c.answered
		return nil
	}
	select {
	case <-c.answered:
		return nil
	case <-done:
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.status == waiting {
		l.take(c)
		return l.fail(context.Cause(ctx))
	}
	select {
	case <-c.answered: // in the same moment
		return nil
	default:
		return ErrLeft
	}
}

// Wait waits for the answer to a call that its caller has left.
func (l *Lane[Q, A]) Wait(c *Call[Q, A]) { <-c.answered }

// end closes ended, if the lane is closed and nothing is left to do. l is locked.
func (l *Lane[Q, A]) end() {
	if l.closed && l.inFlight == 0 && l.connecting == 0 && l.queue.first == nil {
		select {
		case <-l.ended:
		default:
			close(l.ended)
		}
	}
}

// Load returns how many calls wait, and how many batches are in flight or wait for a connection
// that is being opened.
func (l *Lane[Q, A]) Load() (waiting, inFlight int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.queue.calls, l.inFlight + l.connecting
}

// Close lets no more calls in. It returns when the others have been answered, at the latest after
// the patience and the budget.
func (l *Lane[Q, A]) Close() {
	l.mu.Lock()
	l.closed = true
	l.end()
	l.mu.Unlock()
	patience := time.NewTimer(l.Patience + l.Budget)
	defer patience.Stop()
	select {
	case <-l.ended:
	case <-patience.C:
	}
	l.expiry.Stop()
}
