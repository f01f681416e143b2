package wait

import (
	"errors"
	"slices"
	"sync"
	"time"
)

const (
	// MostAtOnce is how many items are done in one go at most.
	MostAtOnce = 128
	// GoesAtOnce is how many goes there are at once at most. Only as many begin as there are items for.
	GoesAtOnce = 16
	// WorkRoom is how many items may wait at most.
	WorkRoom = 65_536
	// LongestWork is how long an item that could not be done is tried again, from its own first try.
	LongestWork = 2 * time.Second
	// WorkPause is the time between two tries.
	WorkPause = 100 * time.Millisecond
	// longestDrain bounds how long Drain waits.
	longestDrain = 2 * time.Second
)

// Work does items. Do, Final and Lost have to be set before the first Add. Then it may be used by many goroutines at
// once. It has goroutines while there is something to do.
type Work[T any] struct {
	// Do does some items. With an error, it returns the items certainly not done, and how many others may have been done.
	// It must not panic, and is called by several goroutines at once.
	Do func(items []Item[T]) (left []Item[T], unknown int, err error)
	// Final reports whether it is of no use to try again after an error.
	Final func(error) bool
	// Lost is called with the number of items given up after an error, and of other items that may not have been done. It
	// must not panic.
	Lost func(lost, unknown int, err error)

	mu       sync.Mutex
	pending  []Item[T]
	goes     int           // that are being done
	paused   bool          // the latest go has failed: the next one waits
	failed   bool          // so there is one at a time, until one succeeds
	drained  bool          // there is no time left for the items that are being tried
	finished chan struct{} // closed when there is nothing left; nil: Drain does not wait
}

// Item is something to do.
type Item[T any] struct {
	Value T
	more  bool      // the next one belongs to it: both are done in one go
	until time.Time // a try that fails after this is the last one; zero: it was never tried
}

// Add adds items to be done, and does not wait for that. Up to MostAtOnce of them are done in one go, in their order. It returns
// false, and adds none of them, if there is no room for all.
func (w *Work[T]) Add(values ...T) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.pending)+len(values) > WorkRoom {
		return false
	}
	w.drained = false
	for i, value := range values {
		w.pending = append(w.pending, Item[T]{Value: value, more: (i+1)%MostAtOnce != 0 && i+1 < len(values)})
	}
	w.begin()
	return true
}

// begin begins as many goes as there are items for: beside others, full ones. The lock is held.
func (w *Work[T]) begin() {
	for len(w.pending) > 0 && !w.paused && (w.goes == 0 || w.goes < GoesAtOnce && !w.failed && len(w.pending) >= MostAtOnce) {
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

// take takes the next items to do. The lock is held.
func (w *Work[T]) take() []Item[T] {
	n := min(len(w.pending), MostAtOnce)
	for n < len(w.pending) && n > 1 && w.pending[n-1].more {
		n--
	}
	some := w.pending[:n:n]
	w.pending = w.pending[n:]
	return some
}

// do does some items.
func (w *Work[T]) do(some []Item[T]) {
	began := time.Now()
	left, unknown, err := w.Do(some)
	lost := 0
	w.mu.Lock()
	w.failed = err != nil
	if err != nil {
		var kept int
		if kept, lost = w.putBack(left, began, err); kept > 0 && !w.paused {
			w.paused = true
			time.AfterFunc(WorkPause, w.resume)
		}
	}
	w.mu.Unlock()
	if lost+unknown > 0 {
		w.Lost(lost, unknown, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.goes--
	w.begin()
}

// putBack keeps the items that can be tried again after a failed try that began at an instant. It returns how many it
// keeps, and how many are lost. The lock is held.
func (w *Work[T]) putBack(left []Item[T], began time.Time, err error) (kept, lost int) {
	if w.Final(err) || w.drained {
		lost = len(left) + len(w.pending)
		w.pending = nil
		return 0, lost
	}
	now, all := time.Now(), len(left)
	left = slices.DeleteFunc(left, func(one Item[T]) bool { return !one.until.IsZero() && now.After(one.until) })
	for i := range left {
		if left[i].until.IsZero() {
			left[i].until = began.Add(LongestWork)
		}
	}
	w.pending = slices.Concat(left, w.pending)
	return len(left), all - len(left)
}

// resume ends the pause after a failure.
func (w *Work[T]) resume() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.paused = false
	w.begin()
}

// ErrDrained is why items are given up that could not be done until Drain had waited for long enough.
var ErrDrained = errors.New("there was no time left for them")

// Drain returns when there is nothing left to do. After two seconds it gives the rest up: items that are being tried have
// no other try.
func (w *Work[T]) Drain() {
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
		w.Lost(lost, 0, ErrDrained)
	}
}
