package core

import (
	"errors"
	"slices"
	"sync"
	"time"
)

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
