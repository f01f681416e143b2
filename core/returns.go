package core

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"
)

const (
	// mostReturned is how many reservations are given back in one call at most.
	mostReturned = 128
	// returnTries is how often it is tried to give back what could not be sent, and returnPause how
	// long it is put off in between.
	returnTries = 20
	returnPause = 100 * time.Millisecond
	// longestReturn bounds how long Close waits for what is still to be given back.
	longestReturn = 2 * time.Second
)

// returns gives back what was reserved and nobody wants any more, beside those who have left: they
// do not wait for it. It has a goroutine while there is something to give back.
type returns struct {
	logger   func() *slog.Logger
	lost     warning
	mu       sync.Mutex
	pending  []*Reservation
	working  bool
	finished chan struct{} // closed when there is nothing left; nil: nobody waits for it
}

// add has reservations given back. Of several turns in a queue the last one comes first: in another
// order, one would find that others queue behind it.
func (s *returns) add(reservations ...*Reservation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range slices.Backward(reservations) {
		s.pending = append(s.pending, r)
	}
	if !s.working && len(s.pending) > 0 {
		s.working = true
		go s.work()
	}
}

// work gives back until there is nothing left.
func (s *returns) work() {
	for tries := 0; ; {
		s.mu.Lock()
		some := s.pending[:min(len(s.pending), mostReturned)]
		s.pending = s.pending[len(some):]
		if len(some) == 0 {
			s.working, s.pending = false, nil
			if s.finished != nil {
				close(s.finished)
				s.finished = nil
			}
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		left, err := cancelAll(some)
		if err == nil {
			tries = 0
			continue
		}
		if tries++; len(left) > 0 && tries < returnTries {
			s.mu.Lock()
			s.pending = append(left, s.pending...)
			s.mu.Unlock()
			time.Sleep(returnPause)
			continue
		}
		tries = 0
		s.reportLost(err)
	}
}

// cancelAll gives back what some reservations of one limiter have charged, in one call. With an
// error, it returns those that can be given back later.
//
//nolint:contextcheck,nolintlint // what is left behind is given back whoever has left; seen where it is called
func cancelAll(reservations []*Reservation) (left []*Reservation, err error) {
	type share struct {
		r     *Reservation
		own   settlements
		first int // the place of its first settlement
	}
	var all []Settlement
	var shares []share
	for _, r := range reservations {
		own, err := r.settlements(make([]int, len(r.checks)))
		if err != nil {
			continue // it was settled before
		}
		shares = append(shares, share{r, own, len(all)})
		all = append(all, own.list...)
	}
	if len(all) == 0 {
		return nil, nil
	}
	err = shares[0].r.limiter.settle(context.Background(), all)
	for _, s := range shares {
		own := err
		if partly, ok := errors.AsType[*partlySettledError](err); ok {
			own = partly.of(s.first, len(s.own.list))
		}
		s.r.note(s.own, own)
		if !s.r.settled {
			left = append(left, s.r)
		}
	}
	return left, err
}

// reportLost logs that something stays charged.
func (s *returns) reportLost(err error) {
	defer func() { _ = recover() }() // a logger that panics does not end the process
	s.lost.log(s.logger(), "core: what somebody who waited has left behind stays charged", slog.Any("error", err))
}

// drain returns when there is nothing left to be given back, or after a while.
func (s *returns) drain() {
	s.mu.Lock()
	if !s.working {
		s.mu.Unlock()
		return
	}
	if s.finished == nil {
		s.finished = make(chan struct{})
	}
	finished := s.finished
	s.mu.Unlock()
	patience := time.NewTimer(longestReturn)
	defer patience.Stop()
	select {
	case <-finished:
	case <-patience.C:
	}
}
