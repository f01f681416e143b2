package wait

import (
	"context"
	"sync/atomic"
	"time"
	"weak"

	"github.com/weir-go/ratelimit/core/internal/exact"
)

// Hold is the places that a call has taken, until they are given back. Places of a Hold that becomes unreachable are
// given back when their lease would be renewed. A Hold is made by [Places.Hold]. Once it has its places, it may be used
// by many goroutines at once.
type Hold[T any] struct {
	all     *Places[T]
	places  []*Place[T]
	ended   atomic.Bool   // no lease is renewed any more
	claimed atomic.Uint32 // the one that gives the places back

	one [1]*Place[T] // the array of places, unless there are several
}

// Hold returns a Hold without places.
func (l *Places[T]) Hold() *Hold[T] {
	h := &Hold[T]{all: l}
	h.places = h.one[:0]
	return h
}

// Add adds the places of a check to a Hold that no other goroutine has yet, and begins their lease. The places were asked
// for and granted at two instants.
func (h *Hold[T]) Add(of T, spec *exact.Spec, units int, shadow bool, asked, answered time.Time) {
	p := &Place[T]{Of: of, Spec: spec, Units: units, Shadow: shadow, began: answered, of: weak.Make(h)}
	h.places = append(h.places, p)
	h.all.leases.Start(&p.lease, p, spec.Period, asked)
}

// Begin reports the places of a call, all of which are held now.
func (h *Hold[T]) Begin() {
	for _, p := range h.places {
		h.all.tellHeld(p, p.Units, 0, nil)
	}
}

// First returns the T of the first of the places. Of a nil Hold it is the zero T.
func (h *Hold[T]) First() (of T) {
	if h != nil {
		of = h.places[0].Of
	}
	return of
}

// Release claims the places for the [Permit], ends the Hold, and returns the places to give back. There are none if they
// were claimed before, and of a nil Hold.
func (h *Hold[T]) Release() (list []T) {
	if h == nil {
		return nil
	}
	if _, first := h.Claim(Permit); !first {
		return nil
	}
	h.End()
	for _, place := range h.places {
		list = append(list, place.Of)
	}
	return list
}

// Claimant gives the places of a Hold back.
type Claimant uint32

// The claimants. The zero Claimant is none.
const (
	Permit Claimant = iota + 1
	Reservation
)

// Claim reports whether by is the claimant that gives the places back: the first one. first says that the places had no
// claimant before.
func (h *Hold[T]) Claim(by Claimant) (mine, first bool) {
	if h.claimed.CompareAndSwap(0, uint32(by)) {
		return true, true
	}
	return h.claimed.Load() == uint32(by), false
}

// End ends the leases of a Hold, before its places are given back. It calls hooks: no lock may be held. A second End
// does nothing, and neither does that of a nil Hold.
func (h *Hold[T]) End() {
	if h == nil || h.ended.Swap(true) {
		return
	}
	before := make([]error, len(h.places))
	for i, p := range h.places {
		p.ended.Store(true)
		before[i] = p.lease.Finish()
	}
	for i, p := range h.places {
		h.all.noteEnd(p, before[i])
	}
}

// Context returns a context that ends when this process can no longer be sure of all places, those of shadow checks
// aside, and when parent ends. Its cause says why. Of a nil Hold it is parent.
func (h *Hold[T]) Context(parent context.Context) context.Context {
	if h == nil {
		return parent
	}
	for _, p := range h.places {
		if !p.Shadow {
			parent = p.lease.Context(parent) //nolint:fatcontext // it ends with each lease
		}
	}
	return parent
}

// Err returns nil while this process can be sure of all places, those of shadow checks aside, and otherwise the reason.
// It asks the clock. Of a nil Hold it is nil.
func (h *Hold[T]) Err() error {
	if h == nil {
		return nil
	}
	for _, p := range h.places {
		if err := p.lease.Err(); err != nil && !p.Shadow {
			return err
		}
	}
	return nil
}
