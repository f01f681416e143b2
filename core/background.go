package core

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/wait"
)

// laterSettlement is a reservation that is to be settled, with its real costs.
type laterSettlement struct {
	of    *Reservation
	costs []int
	own   *settlements // the settlements to send; nil before
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
	places, others wait.Work[laterSettlement]
}

// init sets how the backlog of a limiter is settled.
func (b *backlog) init(l *Limiter) {
	for _, w := range [...]*wait.Work[laterSettlement]{&b.places, &b.others} {
		w.Do, w.Lost = settleAll, l.reportLost
		w.Final = func(err error) bool { return FailureOf(err) == Closed }
	}
}

// add adds settlements, and returns false if there is no room for them.
func (b *backlog) add(list ...laterSettlement) bool {
	if len(list) > 0 && !slices.ContainsFunc(list, func(one laterSettlement) bool { return !one.of.placesOnly() }) {
		return b.places.Add(list...)
	}
	return b.others.Add(list...)
}

// drain returns when all is settled, or after two seconds.
func (b *backlog) drain() {
	var group sync.WaitGroup
	group.Go(b.places.Drain)
	group.Go(b.others.Drain)
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
var errBacklog = call.Unsent(Overloaded, "core: %d settlements wait in the background already", wait.WorkRoom)

// settleAll settles some reservations of one limiter in one call. With an error, it returns those certainly not settled,
// and how many may have been.
//
//nolint:contextcheck,nolintlint // a caller that has left does not stop it; seen where it is called
func settleAll(list []wait.Item[laterSettlement]) (left []wait.Item[laterSettlement], unknown int, err error) {
	limiter := list[0].Value.of.limiter
	return wait.DoTogether(list, func(one *laterSettlement) []Settlement {
		one.own = new(settlements)
		_ = one.of.settlements(one.own, one.costs) // an error says that it was settled before
		return one.own.list
	}, func(all []Settlement) error {
		return unlessPanicked(func() error { return limiter.settle(context.Background(), all) })
	}, func(one *laterSettlement, first int, err error) wait.Outcome {
		err = call.PartOfError(err, first, len(one.own.list))
		one.of.note(one.own, err)
		switch {
		case err == nil:
			return wait.Done
		case one.of.ledger.settled:
			return wait.Uncertain
		}
		return wait.Again
	})
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
