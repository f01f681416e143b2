package core

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/weir-go/ratelimit/core/internal/background"
)

// laterSettlement is a reservation that is to be settled, with what it has really cost.
type laterSettlement struct {
	of    *Reservation
	costs []int
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
	type share struct {
		item  background.Item[laterSettlement]
		own   *settlements
		first int // the place of its first settlement
	}
	var all []Settlement
	var shares []share
	for _, one := range list {
		own := new(settlements)
		if err := one.Value.of.settlements(own, one.Value.costs); err != nil {
			continue // it was settled before
		}
		shares = append(shares, share{one, own, len(all)})
		all = append(all, own.list...)
	}
	if len(all) == 0 {
		return nil, nil
	}
	err = unlessPanicked(func() error { return shares[0].item.Value.of.limiter.settle(context.Background(), all) })
	for _, s := range shares {
		own := err
		if partly, ok := errors.AsType[*PartlySettledError](err); ok {
			own = partly.part(s.first, len(s.own.list))
		}
		of := s.item.Value.of
		of.note(s.own, own)
		if !of.settled {
			left = append(left, s.item)
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
func (l *Limiter) reportLost(err error) {
	defer func() { _ = recover() }() // a logger that panics does not end the process
	l.unsettled.Log(l.logger(), "core: reservations could not be settled and stay charged as they are", slog.Any("error", err))
}
