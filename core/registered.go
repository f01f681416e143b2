package core

import (
	"cmp"
	"slices"
	"sync"

	"github.com/weir-go/ratelimit/core/internal/call"
)

// registered are the waiters that the store knows of each line of this process. A registration belongs to the line: the
// first waiter of the line asks under the oldest one. So places kept for the line go to its first waiter, even if that
// waiter joined later than the registered one.
type registered struct {
	mu     sync.Mutex
	byLine map[uint64][]*call.Waiter // by the instants of their registration, without the waiters that ask just now
}

// take returns the registered waiter under which a call asks: the oldest for the first call of a line, and the newest for
// another call. It returns nil if there is none left: the call is then registered anew.
func (r *registered) take(line uint64, first bool) *call.Waiter {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.byLine[line]
	place := len(list) - 1
	if first {
		place = min(place, 0)
	} else if place == 0 {
		return nil // the first call's
	}
	if place < 0 {
		return nil
	}
	w := list[place]
	r.set(line, slices.Delete(list, place, place+1))
	return w
}

// put adds a waiter of a line that was denied.
func (r *registered) put(line uint64, w *call.Waiter) {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.byLine[line]
	place, _ := slices.BinarySearchFunc(list, w, func(a, b *call.Waiter) int { return cmp.Compare(a.Since, b.Since) })
	r.set(line, slices.Insert(list, place, w))
}

// keep removes the waiters of a line beyond most, the number of its calls, and returns them.
func (r *registered) keep(line uint64, most int) []*call.Waiter {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.byLine[line]
	if len(list) <= most {
		return nil
	}
	r.set(line, list[:most:most])
	return list[most:]
}

// set sets the waiters of a line. r is locked.
func (r *registered) set(line uint64, list []*call.Waiter) {
	switch {
	case len(list) == 0:
		delete(r.byLine, line)
	case r.byLine == nil:
		r.byLine = map[uint64][]*call.Waiter{line: list}
	default:
		r.byLine[line] = list
	}
}
