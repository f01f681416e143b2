package wait

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"
	"time"
	"weak"
)

// Hold is the places that a call has taken, until they are given back. Places of a Hold that becomes unreachable are
// given back when their lease would be renewed. A Hold is made by [Places.Hold]. Once it has its places, it may be used
// by many goroutines at once.
type Hold struct {
	all     *Places
	places  []*Place
	ended   atomic.Bool   // no lease is renewed any more
	claimed atomic.Uint32 // the one that gives the places back
	joined  []*Hold       // the former holds of the places
	unused  bool          // see Unused

	one [1]*Place // the array of places, unless there are several
}

// Hold returns a Hold without places.
func (l *Places) Hold() *Hold {
	h := &Hold{all: l}
	h.places = h.one[:0]
	return h
}

// Add adds the places of a check to a Hold that no other goroutine has yet, and begins their lease. The places were asked
// for and granted at two instants.
func (h *Hold) Add(p *Place, asked, answered time.Time) {
	p.began, p.of = answered, weak.Make(h)
	h.places = append(h.places, p)
	h.all.leases.Start(&p.lease, p, p.Spec.Period, asked)
}

// Begin reports the places of a call, all of which are held now.
func (h *Hold) Begin() {
	for _, p := range h.places {
		h.all.tellHeld(p, p.Units, 0, nil)
	}
}

// Join returns a Hold of the places of several Holds, in the order of the numbers that order returns. Some of the Holds may be nil. The
// caller uses none of them any more.
func (l *Places) Join(holds []*Hold, order func(*Place) int) *Hold {
	all := l.Hold()
	for _, h := range holds {
		if h != nil {
			all.places, all.joined = append(all.places, h.places...), append(all.joined, h) // a place counts as forgotten when its first Hold is
		}
	}
	slices.SortStableFunc(all.places, func(a, b *Place) int { return cmp.Compare(order(a), order(b)) })
	return all
}

// Unused says that the places were kept without work. [Places.Times] then leaves out how long they were held. It comes before End.
func (h *Hold) Unused() { h.unused = true }

// Token returns the token of the first of the places. Of a nil Hold it is 0.
func (h *Hold) Token() uint64 {
	if h == nil {
		return 0
	}
	return h.places[0].Token
}

// Release claims the places for the [Permit], ends the Hold, and returns the places to give back. There are none if they
// were claimed before, and of a nil Hold.
func (h *Hold) Release() []*Place {
	if h == nil {
		return nil
	}
	if _, first := h.Claim(Permit); !first {
		return nil
	}
	h.End()
	return h.places
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
func (h *Hold) Claim(by Claimant) (mine, first bool) {
	if h.claimed.CompareAndSwap(0, uint32(by)) {
		return true, true
	}
	return h.claimed.Load() == uint32(by), false
}

// End ends the leases of a Hold, before its places are given back. It calls hooks: no lock may be held. A second End
// does nothing, and neither does that of a nil Hold.
func (h *Hold) End() {
	if h == nil || h.ended.Swap(true) {
		return
	}
	before := make([]error, len(h.places))
	for i, p := range h.places {
		p.ended.Store(true)
		before[i] = p.lease.Finish()
	}
	for i, p := range h.places {
		if h.unused {
			h.all.tellHeld(p, -p.Units, time.Since(p.began), before[i])
		} else {
			h.all.noteEnd(p, before[i])
		}
	}
}

// Context returns a context that ends when this process can no longer be sure of all places, those of shadow checks
// aside, and when parent ends. Its cause says why. Of a nil Hold it is parent.
func (h *Hold) Context(parent context.Context) context.Context {
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
func (h *Hold) Err() error {
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
