package batch

import (
	"context"
	"encoding"
	"strconv"
	"sync/atomic"
	"time"
)

// Context is the context of one batch. Until the batch is sent, its deadline bounds the wait for a
// connection: a budget after something was last heard of the server, and at the end of the patience at the
// latest. From then on its deadline is the budget, which is the server's time alone. A batch that
// has not been sent by its deadline is never sent. A Context carries no values, and is used again when
// the batch has ended in time.
//
// The client of the server has no hook for the moment of sending. But at that moment it asks each
// argument for its bytes, and one of them is a [Mark].
type Context struct {
	context.Context //nolint:containedctx // the background, of which this is a kind

	budget   time.Duration
	patience time.Duration    // for getting a connection
	heard    func() time.Time // when the server was last known to be there; nil: that is not known
	taken    func()           // called when the batch is sent; may be nil
	overdue  func()           // called when the deadline has passed; nil if the client heeds deadlines
	began    time.Time
	waits    atomic.Int64 // since when, after began, it waits for its connection
	deadline atomic.Int64 // after began, of a batch that was sent
	sent     atomic.Int64 // when, after began, and 1 more; or unsent, or neverSent

	repeated atomic.Bool // the client has sent a call again

	passed atomic.Bool
	done   chan struct{} // closed when the deadline has passed
	timer  *time.Timer
	fired  atomic.Bool // the timer has fired: its goroutine may still read this
	mark   Mark
}

const (
	unsent    = 0
	neverSent = -1 // its time was up
)

func newContext(budget time.Duration, heard func() time.Time, taken, overdue func()) *Context {
	c := &Context{Context: context.Background(), budget: budget, heard: heard, taken: taken, overdue: overdue, done: make(chan struct{})}
	c.mark.context = c
	c.timer = time.AfterFunc(time.Hour, c.strike)
	c.timer.Stop()
	return c
}

// begin starts a batch, which must be sent within its patience.
func (c *Context) begin(patience time.Duration) {
	c.began, c.patience = time.Now(), patience
	c.sent.Store(unsent)
	c.repeated.Store(false)
	c.waits.Store(0)
	c.timer.Reset(min(patience, c.budget))
}

// until returns when the time of the batch is over, after began, and whether that is for the silence of the server.
func (c *Context) until() (end time.Duration, silent bool) {
	if c.sent.Load() > unsent {
		return time.Duration(c.deadline.Load()), false
	}
	from := time.Duration(c.waits.Load())
	latest := from + c.patience
	if c.heard != nil {
		from = max(from, c.heard().Sub(c.began))
	}
	return min(from+c.budget, latest), from+c.budget <= latest
}

// left returns how much is left of the time of the batch.
func (c *Context) left() time.Duration {
	end, _ := c.until()
	return end - time.Since(c.began)
}

// Silent reports whether a batch that was not sent in time has waited for a budget in which nothing was heard of the server.
func (c *Context) Silent() bool {
	end, silent := c.until()
	return silent && time.Since(c.began) >= end-time.Millisecond // a socket may be a moment early
}

// end reports whether the timer has not fired, so that the context can begin again.
func (c *Context) end() bool { return c.timer.Stop() && !c.fired.Load() }

// postpone has the timer fire later.
func (c *Context) postpone(d time.Duration) {
	if !c.timer.Reset(d) {
		c.fired.Store(true)
	}
}

// strike is the timer's function: it runs when the wait for a connection may be over, and at the end of the budget if
// overdue is set.
func (c *Context) strike() {
	switch left := c.left(); {
	case left > 0 && (c.overdue != nil || c.sent.Load() == unsent): // the server was heard of, or the batch sent
		c.fired.Store(true) // before the timer can be stopped again
		c.timer.Reset(left)
		return
	case c.sent.CompareAndSwap(unsent, neverSent):
	case c.overdue == nil:
		return // it was sent in the same moment
	}
	if c.passed.Swap(true) {
		return
	}
	close(c.done)
	if c.overdue != nil {
		c.overdue()
	}
}

// Sent reports whether the batch has been sent. A batch that was not sent was not carried out.
func (c *Context) Sent() bool { return c.sent.Load() > unsent }

// Repeated reports whether a call may have been sent more than once, without [Context.SendAgain] in between. Then the
// answer is that of the last sending, and the results of earlier ones are unknown.
func (c *Context) Repeated() bool { return c.repeated.Load() }

// SendAgain starts the budget anew when the next call is sent: for a server that has answered, but
// must be asked once more.
func (c *Context) SendAgain() {
	sent := c.sent.Load()
	if sent <= unsent {
		return
	}
	c.waits.Store(int64(time.Since(c.began)))
	if !c.sent.CompareAndSwap(sent, unsent) {
		return
	}
	c.postpone(min(c.patience, c.budget))
}

// Elapsed returns how long ago the batch was sent, or begun if it was not sent.
func (c *Context) Elapsed() time.Duration {
	return time.Since(c.began) - time.Duration(max(0, c.sent.Load()-1))
}

// Mark returns an argument that stands for a value and tells the context when the call is sent. A
// context has one mark: use it for the last argument of a call.
func (c *Context) Mark(value any) *Mark {
	c.mark.value = value
	return &c.mark
}

// Deadline implements [context.Context].
func (c *Context) Deadline() (time.Time, bool) {
	end, _ := c.until()
	return c.began.Add(end), true
}

// Done implements [context.Context].
func (c *Context) Done() <-chan struct{} { return c.done }

// Err implements [context.Context].
func (c *Context) Err() error {
	if c.passed.Load() {
		return context.DeadlineExceeded
	}
	return nil
}

// Mark is an argument of a call. The client writes it as an [encoding.BinaryMarshaler].
type Mark struct {
	context *Context
	value   any
	text    []byte
}

// MarshalBinary returns the value's text, and starts the budget when the first call of the batch is sent. It returns an
// error, so that the client sends nothing, if the time to send the call is over.
func (m *Mark) MarshalBinary() ([]byte, error) {
	c := m.context
	m.text = appendValue(m.text[:0], m.value)
	if c.sent.Load() > unsent {
		c.repeated.Store(true) // the client does that by itself, or was told to send several
		return m.text, nil
	}
	elapsed := int64(time.Since(c.began))
	c.deadline.Store(elapsed + int64(c.budget))
	if !c.sent.CompareAndSwap(unsent, elapsed+1) {
		return nil, context.DeadlineExceeded
	}
	if c.taken != nil {
		c.taken()
	}
	if c.overdue != nil {
		c.postpone(c.budget)
	}
	return m.text, nil
}

// String returns the value's text, for code that prints calls.
func (m *Mark) String() string { return string(appendValue(nil, m.value)) }

func appendValue(b []byte, value any) []byte {
	switch value := value.(type) {
	case string:
		return append(b, value...)
	case int64:
		return strconv.AppendInt(b, value, 10)
	case int:
		return strconv.AppendInt(b, int64(value), 10)
	case encoding.BinaryMarshaler:
		text, _ := value.MarshalBinary() // it is a word of ours, which has one
		return append(b, text...)
	}
	return b
}
