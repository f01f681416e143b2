package redisstore

import (
	"sync"
	"time"

	"github.com/weir-go/ratelimit/core/internal/call"
)

// calls counts the calls in flight that batches do not count: calls that take several batches, and calls that take none.
// The zero value counts nothing.
type calls struct {
	mu     sync.Mutex
	open   int
	closed bool
	ended  chan struct{} // closed when the last call has ended after close
}

// begin counts a call in, unless no more may begin.
func (c *calls) begin() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return call.ErrClosed
	}
	c.open++
	return nil
}

// follow counts in a call that follows from an earlier one, even after close.
func (c *calls) follow() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open++
	if c.closed && c.ended == nil {
		c.ended = make(chan struct{})
	}
}

// end counts a call out.
func (c *calls) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open--
	if c.open == 0 && c.ended != nil {
		close(c.ended)
		c.ended = nil
	}
}

// close lets no more calls begin.
func (c *calls) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.open > 0 && c.ended == nil {
		c.ended = make(chan struct{})
	}
}

// drain returns when the calls that began before close have ended, or the budget is used
// up.
func (c *calls) drain(budget time.Duration) {
	c.mu.Lock()
	ended := c.ended
	c.mu.Unlock()
	if ended == nil {
		return
	}
	patience := time.NewTimer(budget)
	defer patience.Stop()
	select {
	case <-ended:
	case <-patience.C:
	}
}
