package core

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"github.com/weir-go/ratelimit/core/internal/background"
	"github.com/weir-go/ratelimit/core/internal/failure"
)

// laterSettlement is a reservation that is to be settled, with what it has really cost.
type laterSettlement struct {
	of    *Reservation
	costs []int
	own   *settlements // those that are sent; nil before
}

// cancelLater gives reservations back in the background, the last one first: a turn in a queue can be
// given back only while no other has queued behind it.
func (l *Limiter) cancelLater(reservations ...*Reservation) {
	list := make([]laterSettlement, 0, len(reservations))
	for _, r := range slices.Backward(reservations) {
		list = append(list, laterSettlement{of: r, costs: make([]int, len(r.checks))})
	}
	l.settleLater(list...)
}

// settleLater settles reservations in the background. They must not be used any more.
func (l *Limiter) settleLater(list ...laterSettlement) {
	for _, one := range list {
		one.of.hold.End()
	}
	l.background.Add(list...)
}

// settleAll settles some reservations of one limiter in one call. With an error, it returns those that
// were certainly not settled.
//
//nolint:contextcheck,nolintlint // it is settled whoever has left; seen where it is called
func settleAll(list []background.Item[laterSettlement]) (left []background.Item[laterSettlement], err error) {
	limiter := list[0].Value.of.limiter
	return background.Join(list, func(one *laterSettlement) []Settlement {
		one.own = new(settlements)
		_ = one.of.settlements(one.own, one.costs) // an error says that it was settled before
		return one.own.list
	}, func(all []Settlement) error {
		return unlessPanicked(func() error { return limiter.settle(context.Background(), all) })
	}, func(one *laterSettlement, first int, err error) (left bool) {
		one.of.note(one.own, failure.Part(err, first, len(one.own.list)))
		return !one.of.ledger.Settled
	})
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
func (l *Limiter) reportLost(err error) {
	defer func() { _ = recover() }() // a logger that panics does not end the process
	l.unsettled.Log(l.logger(), "core: reservations could not be settled and stay charged as they are", slog.Any("error", err))
}
