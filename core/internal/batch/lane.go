package batch

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Errors of [Lane.Do], and of calls that were not sent.
var (
	// ErrClosed means that the lane is closed.
	ErrClosed = errors.New("the lane is closed")
	// ErrSuspended means that the breaker is open.
	ErrSuspended = errors.New("the breaker is open")
	// ErrFull means that as many calls wait as may.
	ErrFull = errors.New("the queue is full")
	// ErrOverdue means that a call has waited in the queue for as long as it may.
	ErrOverdue = errors.New("the queue is too slow")
	// ErrStalled means that there is no room, or has been none for as long as a call may wait, since
	// the server has not answered the batch before.
	ErrStalled = errors.New("the server does not answer those who came before")
	// ErrUnconnected means that a call has waited for as long as it may, and there is still no
	// connection.
	ErrUnconnected = errors.New("there is no connection yet")
	// ErrTimedOut means that a client which ignores deadlines has not returned in time. The call
	// was sent unless the error is also ErrUnconnected.
	ErrTimedOut = errors.New("the server has not answered within the budget")
	// ErrLeft means that the caller's context has ended while the call was under way. It has been
	// sent, or is about to be: [Lane.Wait] waits for its answer.
	ErrLeft = errors.New("the caller has left")
)

// Config says how a lane works. All fields but Hash, Same, Ready, Connect and Report are needed.
type Config[Q, A any] struct {
	// Send sends a batch, and sets the Answer or Err of each group. It returns an error if the
	// server has answered none of them.
	Send func(ctx *Context, batch []*Group[Q, A]) error
	// Fail returns the error that a call gets for one of this package, or for a panic of Send,
	// which is not nil then. ctx is that of the batch; nil: the call was not sent.
	Fail func(ctx *Context, err error) error
	// Outcome says what an error of Send says about the server.
	Outcome func(error) Outcome
	// Weight returns how much of a batch a question takes that is asked so many times, at least 1.
	Weight func(q *Q, times int) int
	// Hash returns a number that is the same for questions which ask the same, and 0 for one that
	// is never asked together with another. Same reports whether two do ask the same. The default
	// is to group nothing.
	Hash func(*Q) uint64
	Same func(a, b *Q) bool

	// Budget is how long the server may take for its answer, from when a batch is sent.
	Budget time.Duration
	// Patience is how long a call may wait until it is sent: for its turn, and for a connection.
	Patience time.Duration
	// InFlight is how many batches may be under way at once, and Full how much a batch weighs at
	// most, unless one call alone weighs more. MostWaiting bounds the queue.
	InFlight, Full, MostWaiting int
	// Heeds says that Send returns when its context ends. Otherwise a batch that is overdue is
	// answered without it, and another worker takes its place.
	Heeds bool

	// Ready reports whether a batch would find an open connection. Connect opens one, in a time
	// of its own. The default is that there always is one.
	Ready   func() bool
	Connect func(ctx context.Context) error
	// ConnectTimeout is how long Connect may take.
	ConnectTimeout time.Duration

	// Breaker keeps calls from a server that has failed. Nil lets every call through.
	Breaker *Breaker
	// Report is told of each batch that was sent, after its calls have been answered.
	Report func(Report)
}

// Report tells about one batch.
type Report struct {
	// Calls is how many calls travelled in it, and Weight what they weighed.
	Calls, Weight int
	// Elapsed is how long it took from when it was sent.
	Elapsed time.Duration
	// Err is why it has failed, or nil.
	Err error
}

// Lane is a queue of calls to one server, with the workers that send them. It may be used by many
// goroutines at once. It has no goroutine while nobody waits.
type Lane[Q, A any] struct {
	Config[Q, A]

	calls sync.Pool

	mu         sync.Mutex
	queue      queue[Q, A]
	inFlight   int
	healthy    bool  // the latest batch was answered
	connecting bool  // a connection is being opened, since then:
	unreached  bool  // the latest attempt has failed
	dialed     int64 // see sinceEpoch; of several attempts that fail, the first
	heard      int64 // when the server last answered, or was asked when nothing was under way
	expiry     *time.Timer
	armed      bool // the expiry will fire
	sparing    []*sending[Q, A]
	groups     []*Group[Q, A] // to be used again
	closed     bool
	ended      chan struct{} // closed when the last batch has ended after Close
}

// New returns a lane. It starts no goroutine.
func New[Q, A any](config Config[Q, A]) *Lane[Q, A] {
	l := &Lane[Q, A]{Config: config, ended: make(chan struct{})}
	l.expiry = time.AfterFunc(time.Hour, l.expire)
	l.expiry.Stop()
	return l
}

// NewCall returns a call to fill in: its question may be what another caller has asked. It must be
// freed when [Lane.Do] has returned, whatever that says; after ErrLeft, when [Lane.Wait] has
// returned.
func (l *Lane[Q, A]) NewCall() *Call[Q, A] {
	if c, ok := l.calls.Get().(*Call[Q, A]); ok {
		return c
	}
	return &Call[Q, A]{answered: make(chan struct{}, 1)}
}

// Free gives a call back, and with it the room of its question, which is not touched: an overdue
// batch may still read it, and keeps the call then.
func (l *Lane[Q, A]) Free(c *Call[Q, A]) {
	if c.status == left {
		return
	}
	var none A
	c.Answer, c.Err, c.Place = none, nil, 0
	l.calls.Put(c)
}

// Do has a call answered. It returns an error if that cannot be, or if the caller's context ends
// before; otherwise the call has its Answer or Err.
func (l *Lane[Q, A]) Do(ctx context.Context, c *Call[Q, A]) error {
	if l.Breaker.Refuses() || l.Breaker.Due() && l.revive() {
		return l.fail(ErrSuspended)
	}
	now := sinceEpoch()
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return l.fail(ErrClosed)
	}
	if l.inFlight == 0 && !l.connecting && l.queue.empty() && !l.unreached {
		l.heard = now
	}
	if patience, ok := l.alone(ctx); ok {
		l.inFlight++
		s := l.newSending()
		g := l.newGroup(c, now)
		g.alone = true
		s.batch = append(s.batch, g)
		s.weight = l.Weight(&c.Question, 1)
		l.mu.Unlock()
		l.send(s, patience, false)
		<-c.answered
		return nil
	}
	err := l.enqueue(c, now)
	if err == nil {
		l.dispatch()
	}
	l.mu.Unlock()
	if err != nil {
		return l.fail(err)
	}
	return l.await(ctx, c)
}

// alone reports whether a call can be sent at once, by its caller, and how long that may take to
// be sent. The caller cannot leave meanwhile: they have to have the time, and the server has to
// be healthy. l is locked.
func (l *Lane[Q, A]) alone(ctx context.Context) (patience time.Duration, ok bool) {
	if !l.queue.empty() || !l.healthy || !l.Heeds || l.inFlight >= l.InFlight || l.inFlight > 0 && !l.ready() {
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

// await returns when a call has been answered, or its caller's context has ended. A call that was
// not sent by then never will be.
func (l *Lane[Q, A]) await(ctx context.Context, c *Call[Q, A]) error {
	select {
	case <-c.answered:
		return nil
	case <-ctx.Done():
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

// Wait waits for the answer to a call whose caller has left.
func (l *Lane[Q, A]) Wait(c *Call[Q, A]) { <-c.answered }

// end says that the lane has ended, if it is closed and nothing is left to be done. l is locked.
func (l *Lane[Q, A]) end() {
	if l.closed && l.inFlight == 0 && !l.connecting && l.queue.empty() {
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
	inFlight = l.inFlight
	if l.connecting {
		inFlight++
	}
	return l.queue.calls, inFlight
}

// Close lets no more calls in, and returns when those that are in have been answered: within the
// patience and the budget.
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
