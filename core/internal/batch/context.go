package batch

import (
	"context"
	"encoding"
	"strconv"
	"sync/atomic"
	"time"
)

// Context is the context of one batch. Until the batch is sent, its deadline bounds the wait for a
// connection. From then on its deadline is the budget, which is the server's time alone. A batch that
// has not been sent by its deadline is never sent. A Context carries no values, and is used again when
// the batch has ended in time.
//
// The client of the server has no hook for the moment of sending. But at that moment it asks each
// argument for its bytes, and one of them is a [Mark].
type Context struct {
	context.Context //nolint:containedctx // the background, of which this is a kind

	budget   time.Duration
	patience time.Duration // for getting a connection
	overdue  func()        // called when the deadline has passed; nil if the client heeds deadlines
	began    time.Time
	deadline atomic.Int64 // after began
	sent     atomic.Int64 // when, after began, and 1 more; or unsent, or neverSent

	repeated atomic.Bool // the client has sent a call again

	passed atomic.Bool
	done   chan struct{} // closed when the deadline has passed
	timer  *time.Timer
	fired  atomic.Bool // the timer fired in the moment of sending: its goroutine may still read this
	mark   Mark
}

const (
	unsent    = 0
	neverSent = -1 // its time was up
)

func newContext(budget time.Duration, overdue func()) *Context {
	c := &Context{Context: context.Background(), budget: budget, overdue: overdue, done: make(chan struct{})}
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
	c.deadline.Store(int64(patience))
	c.timer.Reset(patience)
}

// end reports whether the timer has not fired, so that the context can begin again.
func (c *Context) end() bool { return c.timer.Stop() && !c.fired.Load() }

// postpone has the timer fire later.
func (c *Context) postpone(d time.Duration) {
	if !c.timer.Reset(d) {
		c.fired.Store(true)
	}
}

// strike is what the timer calls: at the end of the patience, and at the end of the budget if
// overdue is set.
func (c *Context) strike() {
	switch {
	case c.sent.CompareAndSwap(unsent, neverSent):
	case c.overdue == nil || time.Since(c.began) < time.Duration(c.deadline.Load()):
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

// markSent starts the budget when the first call of the batch is sent. It returns an error if it is
// too late to send it.
func (c *Context) markSent() error {
	elapsed := int64(time.Since(c.began))
	if !c.sent.CompareAndSwap(unsent, elapsed+1) {
		if c.sent.Load() == neverSent {
			return context.DeadlineExceeded
		}
		c.repeated.Store(true) // the client does that by itself, or was told to send several
		return nil
	}
	c.deadline.Store(elapsed + int64(c.budget))
	if c.overdue != nil {
		c.postpone(c.budget)
	}
	return nil
}

// Sent reports whether the batch has been sent. What has not been sent was not carried out.
func (c *Context) Sent() bool { return c.sent.Load() > unsent }

// Repeated reports whether a call may have been sent more than once, without [Context.SendAgain] in between. Then the
// answer is that to the last one, and it is not known what has become of those before.
func (c *Context) Repeated() bool { return c.repeated.Load() }

// SendAgain starts the budget anew when the next call is sent: for a server that has answered, but
// must be asked once more.
func (c *Context) SendAgain() {
	if sent := c.sent.Load(); sent <= unsent || !c.sent.CompareAndSwap(sent, unsent) {
		return
	}
	c.deadline.Store(int64(time.Since(c.began) + c.patience))
	c.postpone(c.patience)
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
	return c.began.Add(time.Duration(c.deadline.Load())), true
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

// MarshalBinary returns the value's text, and starts the budget. It returns an error, so that the
// client sends nothing, if the time to send the call is over.
func (m *Mark) MarshalBinary() ([]byte, error) {
	if err := m.context.markSent(); err != nil {
		return nil, err
	}
	m.text = appendValue(m.text[:0], m.value)
	return m.text, nil
}

// String returns the value's text, for whatever prints calls.
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
