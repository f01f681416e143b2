package core

import (
	"context"
	"sync/atomic"
	"time"
)

// budgetContext is a context with a deadline that can be used again, once what it
// was for has ended in time. It carries no values.
type budgetContext struct {
	context.Context //nolint:containedctx // the background, of which this is a kind

	deadline time.Time
	passed   atomic.Bool
	done     chan struct{}
	timer    *time.Timer
}

func newBudgetContext() *budgetContext {
	c := &budgetContext{Context: context.Background(), done: make(chan struct{})}
	c.timer = time.AfterFunc(time.Hour, func() {
		c.passed.Store(true)
		close(c.done)
	})
	c.timer.Stop()
	return c
}

// begin sets the deadline.
func (c *budgetContext) begin(budget time.Duration) {
	c.deadline = time.Now().Add(budget)
	c.timer.Reset(budget)
}

// elapsed returns how long it is since the context began with a budget.
func (c *budgetContext) elapsed(budget time.Duration) time.Duration {
	return time.Since(c.deadline) + budget
}

// end reports whether the deadline has not passed, so that the context can begin
// again.
func (c *budgetContext) end() bool { return c.timer.Stop() }

func (c *budgetContext) Deadline() (time.Time, bool) { return c.deadline, true }
func (c *budgetContext) Done() <-chan struct{}       { return c.done }

func (c *budgetContext) Err() error {
	if c.passed.Load() {
		return context.DeadlineExceeded
	}
	return nil
}
