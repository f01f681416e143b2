package main

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"

	"github.com/weir-go/ratelimit/core"
)

// instants is a store that takes down when each attempt was decided, by the clock of the store
// behind it, which a Decision does not tell.
type instants struct {
	core.Store

	now    func() time.Duration          // the page's clock
	behind atomic.Pointer[time.Duration] // how far it is behind the store's; nil: not known yet
}

// Decide implements [core.Store].
func (s *instants) Decide(ctx context.Context, calls []core.Call) (answered int, err error) {
	first, before := &calls[0], s.now()
	if first.Receipts == nil {
		first.Receipts = make([]core.Receipt, len(first.Checks))
	}
	if answered, err = s.Store.Decide(ctx, calls); err != nil {
		return 0, err
	}
	decided := time.Duration(first.Receipts[0].At) * time.Microsecond
	if s.behind.Load() == nil {
		behind := decided - (before+s.now())/2
		s.behind.CompareAndSwap(nil, &behind) // the first one stays, so that all are in the store's order
	}
	if a, ok := ctx.Value(attemptKey{}).(*attempt); ok {
		a.visitor.Lock()
		a.instant = decided - *s.behind.Load()
		a.visitor.Unlock()
	}
	return answered, nil
}

// inOrder compares two answers by when their requests were decided.
//
// Requests that come together share a call to the store, which decides them at one instant. Those
// that a limit admits then come before the denied ones, and leave ever less.
func inOrder(a, b answer) int {
	return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.Number, b.Number))
}

// rankOf returns the place of a decision among those of the same instant.
func rankOf(d *core.Decision) int {
	if !d.Allowed {
		return d.Limit.Capacity() + 1
	}
	return d.Limit.Capacity() - d.Remaining
}
