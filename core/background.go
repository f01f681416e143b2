package core

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/ratelimit/core/internal/call"
)

// laterSettlement is a reservation that is to be settled, with its real costs.
type laterSettlement struct {
	of    *Reservation
	costs []int
	own   settlements // to be sent

	more  bool      // the next one belongs to it: both are settled in one go
	until time.Time // a try that fails after this is the last one; zero: it was never tried
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

// settleLater settles reservations in the background, or logs that they are lost. They must not be used any more.
func (l *Limiter) settleLater(list ...laterSettlement) {
	for _, one := range list {
		one.of.hold.End()
	}
	if !l.background.add(list...) {
		l.reportLost(len(list), 0, errBacklog)
	}
}

// backlog has the reservations to settle in the background. Places have a backlog of their own, so that nothing else
// delays them.
type backlog struct {
	places, others work
}

// init sets how the backlog of a limiter is settled.
func (b *backlog) init(l *Limiter) {
	for _, w := range [...]*work{&b.places, &b.others} {
		w.settle, w.lost = settleAll, l.reportLost
	}
}

// add adds settlements, and returns false if there is no room for them.
func (b *backlog) add(list ...laterSettlement) bool {
	if len(list) > 0 && !slices.ContainsFunc(list, func(one laterSettlement) bool { return !one.of.placesOnly() }) {
		return b.places.add(list...)
	}
	return b.others.add(list...)
}

// drain returns when all is settled, or after two seconds.
func (b *backlog) drain() {
	var group sync.WaitGroup
	group.Go(b.places.drain)
	group.Go(b.others.drain)
	group.Wait()
}

// placesOnly reports whether nothing but places is to be settled.
func (r *Reservation) placesOnly() bool {
	for i := range r.checks {
		if !r.checks[i].holds() && !r.ledger.isDone(i) {
			return false
		}
	}
	return true
}

// errBacklog is the error of a settlement for which the background has no room.
var errBacklog = call.Unsent(Overloaded, "core: %d settlements wait in the background already", workRoom)

// settleAll settles some reservations of one limiter in one call. With an error, it returns those certainly not settled,
// and how many may have been.
//
//nolint:contextcheck,nolintlint // a caller that has left does not stop it; seen where it is called
func settleAll(list []laterSettlement) (left []laterSettlement, unknown int, err error) {
	var all []Settlement
	for i := range list {
		one := &list[i]
		one.own = settlements{}
		_ = one.of.settlements(&one.own, one.costs) // an error says that it was settled before
		all = append(all, one.own.list...)
	}
	if len(all) == 0 {
		return nil, 0, nil
	}
	limiter := list[0].of.limiter
	err = unlessPanicked(func() error { return limiter.settle(context.Background(), all) })
	first := 0 // of the settlements of one
	for i := range list {
		one := &list[i]
		sent := len(one.own.list)
		if sent == 0 {
			continue
		}
		own := call.PartOfError(err, first, sent)
		first += sent
		switch one.of.note(&one.own, own); {
		case own == nil:
		case one.of.ledger.settled:
			unknown++
		default:
			left = append(left, *one)
		}
	}
	return left, unknown, err
}

// unlessPanicked asks a store on a goroutine of its own, and turns a panic of the store into an error: a store of your
// own may panic, and the process goes on.
func unlessPanicked(ask func() error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("core: the store panicked: %v", cause)
		}
	}()
	return ask()
}

// losses are settlements that were given up. The first is logged at once. Those of the next seconds are logged together
// after that, so that each is counted in one line.
type losses struct {
	mu            sync.Mutex
	lost, unknown int
	err           error
	quiet         *time.Timer // nil: the next loss is logged at once
}

// quietLosses is for how long losses are gathered after a line.
const quietLosses = 10 * time.Second

// reportLost logs how many reservations were not settled, and how many others may not have been.
func (l *Limiter) reportLost(lost, unknown int, err error) {
	s := &l.losses
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost, s.unknown, s.err = s.lost+lost, s.unknown+unknown, err
	if s.quiet == nil {
		l.logLosses()
		s.quiet = time.AfterFunc(quietLosses, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.quiet == nil {
				return
			}
			if s.lost+s.unknown == 0 {
				s.quiet = nil
				return
			}
			l.logLosses()
			s.quiet.Reset(quietLosses)
		})
	}
}

// endLosses logs the losses that were not logged yet.
func (l *Limiter) endLosses() {
	s := &l.losses
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.quiet == nil {
		return
	}
	s.quiet.Stop()
	if s.quiet = nil; s.lost+s.unknown > 0 {
		l.logLosses()
	}
}

// logLosses logs the losses. They are locked.
func (l *Limiter) logLosses() {
	defer func() { _ = recover() }() // a logger that panics does not end the process
	s := &l.losses
	lost, unknown, err := s.lost, s.unknown, s.err
	s.lost, s.unknown, s.err = 0, 0, nil
	l.logger().Warn("core: reservations could not be settled and stay charged as they are",
		slog.Int("lost", lost), slog.Int("perhaps_settled", unknown), slog.Any("error", err))
}
