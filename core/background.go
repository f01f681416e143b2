package core

import (
	"context"
	"errors"
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

const (
	// mostAtOnce is how many reservations are settled in one go at most.
	mostAtOnce = 128
	// goesAtOnce is how many goes there are at once at most. Only as many begin as there are reservations for.
	goesAtOnce = 16
	// workRoom is how many reservations may wait at most.
	workRoom = 65_536
	// longestWork is how long a settlement that could not be made is tried again, from its own first try.
	longestWork = 2 * time.Second
	// workPause is the time between two tries.
	workPause = 100 * time.Millisecond
	// longestDrain bounds how long drain waits.
	longestDrain = 2 * time.Second
)

// work settles reservations in the background. settle and lost have to be set before the first add. Then it may be used
// by many goroutines at once. It has goroutines while there is something to do.
type work struct {
	// settle settles some reservations. With an error, it returns those certainly not settled, and how many others may have
	// been. It must not panic, and is called by several goroutines at once.
	settle func(list []laterSettlement) (left []laterSettlement, unknown int, err error)
	// lost is called with the number of reservations given up after an error, and of others that may not have been settled.
	// It must not panic.
	lost func(lost, unknown int, err error)

	mu       sync.Mutex
	pending  []laterSettlement
	goes     int           // that are being done
	paused   bool          // the latest go has failed: the next one waits
	failed   bool          // so there is one at a time, until one succeeds
	drained  bool          // there is no time left for the items that are being tried
	finished chan struct{} // closed when there is nothing left; nil: drain does not wait
}

// add adds reservations to be settled, and does not wait for that. Up to mostAtOnce of them are done in one go, in their order. It returns
// false, and adds none of them, if there is no room for all.
func (w *work) add(list ...laterSettlement) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.pending)+len(list) > workRoom {
		return false
	}
	w.drained = false
	for i, one := range list {
		one.more = (i+1)%mostAtOnce != 0 && i+1 < len(list)
		w.pending = append(w.pending, one)
	}
	w.begin()
	return true
}

// begin begins as many goes as there are reservations for: beside others, full ones. The lock is held.
func (w *work) begin() {
	for len(w.pending) > 0 && !w.paused && (w.goes == 0 || w.goes < goesAtOnce && !w.failed && len(w.pending) >= mostAtOnce) {
		w.goes++
		go w.do(w.take())
	}
	if len(w.pending) == 0 && w.goes == 0 {
		w.pending = nil
		if w.finished != nil {
			close(w.finished)
			w.finished = nil
		}
	}
}

// take takes the next reservations to settle. The lock is held.
func (w *work) take() []laterSettlement {
	n := min(len(w.pending), mostAtOnce)
	for n < len(w.pending) && n > 1 && w.pending[n-1].more {
		n--
	}
	some := w.pending[:n:n]
	w.pending = w.pending[n:]
	return some
}

// do settles some reservations.
func (w *work) do(some []laterSettlement) {
	began := time.Now()
	left, unknown, err := w.settle(some)
	lost := 0
	w.mu.Lock()
	w.failed = err != nil
	if err != nil {
		var kept int
		if kept, lost = w.putBack(left, began, err); kept > 0 && !w.paused {
			w.paused = true
			time.AfterFunc(workPause, w.resume)
		}
	}
	w.mu.Unlock()
	if lost+unknown > 0 {
		w.lost(lost, unknown, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.goes--
	w.begin()
}

// putBack keeps the reservations that can be tried again after a failed try that began at an instant. It returns how many it
// keeps, and how many are lost. The lock is held.
func (w *work) putBack(left []laterSettlement, began time.Time, err error) (kept, lost int) {
	if FailureOf(err) == Closed || w.drained {
		lost = len(left) + len(w.pending)
		w.pending = nil
		return 0, lost
	}
	now, all := time.Now(), len(left)
	left = slices.DeleteFunc(left, func(one laterSettlement) bool { return !one.until.IsZero() && now.After(one.until) })
	for i := range left {
		if left[i].until.IsZero() {
			left[i].until = began.Add(longestWork)
		}
	}
	w.pending = slices.Concat(left, w.pending)
	return len(left), all - len(left)
}

// resume ends the pause after a failure.
func (w *work) resume() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.paused = false
	w.begin()
}

// errDrained is why reservations are given up that could not be settled until drain had waited for long enough.
var errDrained = errors.New("there was no time left for them")

// drain returns when there is nothing left to do. After two seconds it gives the rest up: those that are being tried have
// no other try.
func (w *work) drain() {
	w.mu.Lock()
	if w.goes == 0 && len(w.pending) == 0 {
		w.mu.Unlock()
		return
	}
	if w.finished == nil {
		w.finished = make(chan struct{})
	}
	finished := w.finished
	w.mu.Unlock()
	patience := time.NewTimer(longestDrain)
	defer patience.Stop()
	select {
	case <-finished:
		return
	case <-patience.C:
	}
	w.mu.Lock()
	lost := len(w.pending)
	w.pending, w.drained = nil, w.goes > 0
	w.begin()
	w.mu.Unlock()
	if lost > 0 {
		w.lost(lost, 0, errDrained)
	}
}
