package core

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/wait"
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

// register prepares the waiters of the checks that are asked, one for the places of each line in which the call stands. A store
// registers them if it denies the call.
func (q *waitedCall) register(w *wait.Waiter, asked []int) {
	l := q.limiter
	if l.wakes == nil {
		return
	}
	l.wakes.Use()
	q.waiters, q.lines = make([]*call.Waiter, len(q.checks)), make([]uint64, len(q.checks)) // the former ones may be in use by a call that was left
	several := slices.ContainsFunc(asked[1:], func(i int) bool { return !q.checks[i].Shadow && q.checks[i].Limit != Unlimited })
	for i := range q.checks {
		if !forPlaces(q.checks, i) {
			continue
		}
		line, first := l.lines.Of(w, classOf(&q.checks[i]))
		if q.lines[i] = line; line == 0 || !slices.Contains(asked, i) {
			continue
		}
		own := &call.Waiter{ID: l.wakes.ID(line, several)}
		if former := l.registered.take(line, first); former != nil {
			*own = *former
		}
		own.Age = time.Since(q.arrived).Microseconds()
		q.waiters[i] = own
	}
}

// forPlaces reports whether a check of a call waits for places, and not for those of its alternatives, too.
func forPlaces(checks []Check, check int) bool {
	c := &checks[check]
	return !c.Shadow && c.Limit != Unlimited && c.holds() && !isEither(checks, check)
}

// keepRegistered keeps the waiters that the store has registered with its denial for the next calls of their lines.
func (q *waitedCall) keepRegistered() {
	for i, own := range q.waiters {
		if own != nil && own.Since > 0 {
			q.limiter.registered.put(q.lines[i], own)
		}
	}
	q.waiters = nil
}

// leave takes the call out of its lines: see [wait.Lines.Leave].
func (q *waitedCall) leave(w *wait.Waiter, more func(wait.Class) int) {
	l := q.limiter
	if l.wakes == nil {
		l.lines.Leave(w, more)
		return
	}
	stood := make([]uint64, len(q.checks))
	for i := range q.checks {
		if c := &q.checks[i]; c.Limit != Unlimited {
			stood[i], _ = l.lines.Of(w, classOf(c))
		}
	}
	l.lines.Leave(w, more)
	l.leaveRank(q.ranked.line)
	for i, line := range stood {
		var own *call.Waiter
		if more == nil && q.waiters != nil { // the call was left, or has failed
			own = q.waiters[i]
		}
		q.forget(i, line, own)
	}
}

// forget has the store forget a waiter, which may be nil, and the waiters of a line beyond the calls left in it.
func (q *waitedCall) forget(check int, line uint64, own *call.Waiter) {
	l := q.limiter
	gone := l.registered.keep(line, l.lines.Len(line))
	if own != nil && own.Since > 0 {
		gone = append(gone, own)
	}
	if len(gone) == 0 {
		return
	}
	c := &q.checks[check]
	list := make([]call.Correction, len(gone))
	for i, w := range gone {
		list[i] = call.Correction{Key: c.Key, Spec: c.spec(), Leaves: w}
		list[i].Events = -c.Units()
	}
	redisOf(l.store).LeaveLater(list)
}
