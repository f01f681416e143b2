package core

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/ratelimit/core/internal/warning"
)

const (
	// mostSettledLater is how many reservations are settled in one call at most.
	mostSettledLater = 128
	// settleLaterFor is how long a settlement that could not be sent is tried again, and
	// settleLaterPause the time between two tries.
	settleLaterFor   = 2 * time.Second
	settleLaterPause = 100 * time.Millisecond
	// longestDrain bounds how long Close waits for what is still to be settled.
	longestDrain = 2 * time.Second
)

// background settles reservations without making their callers wait. It has a goroutine while there
// is something to settle.
type background struct {
	logger   func() *slog.Logger
	lost     warning.Warning
	mu       sync.Mutex
	pending  []laterSettlement
	working  bool
	finished chan struct{} // closed when there is nothing left; nil: drain does not wait
}

// laterSettlement is a reservation that is to be settled, with what it has really cost.
type laterSettlement struct {
	of    *Reservation
	costs []int
	until time.Time // a try that fails after this is the last one
}

// cancel gives reservations back, the last one first: a turn in a queue can be given back only while no
// other has queued behind it.
func (b *background) cancel(reservations ...*Reservation) {
	list := make([]laterSettlement, 0, len(reservations))
	for _, r := range slices.Backward(reservations) {
		list = append(list, laterSettlement{of: r, costs: make([]int, len(r.checks))})
	}
	b.settle(list...)
}

// settle settles reservations, which must not be used any more.
func (b *background) settle(list ...laterSettlement) {
	if len(list) == 0 {
		return
	}
	for _, one := range list {
		one.of.hold.end()
	}
	until := time.Now().Add(settleLaterFor)
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, one := range list {
		one.until = until
		b.pending = append(b.pending, one)
	}
	if !b.working {
		b.working = true
		go b.work()
	}
}

// work settles until there is nothing left.
func (b *background) work() {
	for {
		some := b.take()
		if len(some) == 0 {
			return
		}
		left, err := settleAll(some)
		if err == nil {
			continue
		}
		kept := b.putBack(left, err)
		if kept == 0 || kept < len(left) {
			b.reportLost(err)
		}
		if kept > 0 {
			time.Sleep(settleLaterPause)
		}
	}
}

// take returns the next reservations to settle. If there are none, the work is finished.
func (b *background) take() []laterSettlement {
	b.mu.Lock()
	defer b.mu.Unlock()
	some := b.pending[:min(len(b.pending), mostSettledLater)]
	b.pending = b.pending[len(some):]
	if len(some) == 0 {
		b.working, b.pending = false, nil
		if b.finished != nil {
			close(b.finished)
			b.finished = nil
		}
	}
	return some
}

// putBack keeps what can be retried after an error, and returns how many of left that are. If the
// store is closed, nothing can be.
func (b *background) putBack(left []laterSettlement, err error) int {
	now := time.Now()
	late := func(one laterSettlement) bool { return FailureOf(err) == Closed || now.After(one.until) }
	b.mu.Lock()
	defer b.mu.Unlock()
	kept := slices.DeleteFunc(left, late)
	b.pending = slices.Concat(kept, slices.DeleteFunc(b.pending, late))
	return len(kept)
}

// settleAll settles some reservations of one limiter in one call. With an error, it returns those that
// were certainly not settled.
//
//nolint:contextcheck,nolintlint // it is settled whoever has left; seen where it is called
func settleAll(list []laterSettlement) (left []laterSettlement, err error) {
	type share struct {
		laterSettlement

		own   settlements
		first int // the place of its first settlement
	}
	var all []Settlement
	var shares []share
	for _, one := range list {
		own, err := one.of.settlements(one.costs)
		if err != nil {
			continue // it was settled before
		}
		shares = append(shares, share{one, own, len(all)})
		all = append(all, own.list...)
	}
	if len(all) == 0 {
		return nil, nil
	}
	err = unlessPanicked(func() error { return shares[0].of.limiter.settle(context.Background(), all) })
	for _, s := range shares {
		own := err
		if partly, ok := errors.AsType[*PartlySettledError](err); ok {
			own = partly.part(s.first, len(s.own.list))
		}
		s.of.note(s.own, own)
		if !s.of.settled {
			left = append(left, s.laterSettlement)
		}
	}
	return left, err
}

// unlessPanicked asks a store on a goroutine that is nobody else's, and makes an error of its panic: a
// store of your own may panic, and the process goes on.
func unlessPanicked(ask func() error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("core: the store panicked: %v", cause)
		}
	}()
	return ask()
}

// reportLost logs that something was not settled.
func (b *background) reportLost(err error) {
	defer func() { _ = recover() }() // a logger that panics does not end the process
	b.lost.Log(b.logger(), "core: reservations could not be settled and stay charged as they are", slog.Any("error", err))
}

// drain returns when there is nothing left to be settled, or after a while.
func (b *background) drain() {
	b.mu.Lock()
	if !b.working {
		b.mu.Unlock()
		return
	}
	if b.finished == nil {
		b.finished = make(chan struct{})
	}
	finished := b.finished
	b.mu.Unlock()
	patience := time.NewTimer(longestDrain)
	defer patience.Stop()
	select {
	case <-finished:
	case <-patience.C:
	}
}
