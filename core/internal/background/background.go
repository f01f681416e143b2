// Package background does what nobody waits for, many items in one go. What certainly was not done is tried
// again for a while, and given up after that.
package background

import (
	"slices"
	"sync"
	"time"
)

const (
	// Most is how many items are done in one go at most.
	Most = 128
	// Longest is how long an item that could not be done is tried again.
	Longest = 2 * time.Second
	// Pause is the time between two tries.
	Pause = 100 * time.Millisecond
	// longestDrain bounds how long Drain waits.
	longestDrain = 2 * time.Second
)

// Work is what is to be done. Do, Final and Lost have to be set before the first Add. Then it may be used by
// many goroutines at once. It has a goroutine while there is something to do.
type Work[T any] struct {
	// Do does some items. With an error, it returns those that were certainly not done. It must not
	// panic.
	Do func(items []Item[T]) (left []Item[T], err error)
	// Final reports whether it is of no use to try again after an error.
	Final func(error) bool
	// Lost is told of an error after which something is given up. It must not panic.
	Lost func(error)

	mu       sync.Mutex
	pending  []Item[T]
	working  bool
	finished chan struct{} // closed when there is nothing left; nil: Drain does not wait
}

// Item is something to do.
type Item[T any] struct {
	Value T
	until time.Time // a try that fails after this is the last one
}

// Add adds items to be done, and does not wait for that.
func (w *Work[T]) Add(values ...T) {
	if len(values) == 0 {
		return
	}
	until := time.Now().Add(Longest)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, value := range values {
		w.pending = append(w.pending, Item[T]{value, until})
	}
	if !w.working {
		w.working = true
		go w.work()
	}
}

// work works until there is nothing left.
func (w *Work[T]) work() {
	for {
		some := w.take()
		if len(some) == 0 {
			return
		}
		left, err := w.Do(some)
		if err == nil {
			continue
		}
		kept := w.putBack(left, err)
		if kept == 0 || kept < len(left) {
			w.Lost(err)
		}
		if kept > 0 {
			time.Sleep(Pause)
		}
	}
}

// take returns the next items to do. If there are none, the work is finished.
func (w *Work[T]) take() []Item[T] {
	w.mu.Lock()
	defer w.mu.Unlock()
	some := w.pending[:min(len(w.pending), Most)]
	w.pending = w.pending[len(some):]
	if len(some) == 0 {
		w.working, w.pending = false, nil
		if w.finished != nil {
			close(w.finished)
			w.finished = nil
		}
	}
	return some
}

// putBack keeps what can be retried after an error, and returns how many of left that are.
func (w *Work[T]) putBack(left []Item[T], err error) int {
	now := time.Now()
	late := func(one Item[T]) bool { return w.Final(err) || now.After(one.until) }
	w.mu.Lock()
	defer w.mu.Unlock()
	kept := slices.DeleteFunc(left, late)
	w.pending = slices.Concat(kept, slices.DeleteFunc(w.pending, late))
	return len(kept)
}

// Drain returns when there is nothing left to do, or after two seconds.
func (w *Work[T]) Drain() {
	w.mu.Lock()
	if !w.working {
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
	case <-patience.C:
	}
}
