package call

import (
	"slices"
	"time"

	"github.com/weir-go/ratelimit/core/internal/exact"
)

// Settled is a check that was charged, with its real cost.
type Settled struct {
	// Key and Spec are those of the check. Units of it were charged.
	Key   string
	Spec  *exact.Spec
	Units int
	// Reserved says that the charge is given back by itself unless it is settled in time.
	Reserved bool
	// Cost is the real cost of the check. At is the charge, and Holder has its places, or the reservation.
	Cost   int
	At     exact.Charge
	Holder exact.Holder
	// Raise makes the Cost the least that is used. Renew begins the lease of places anew instead of giving them back.
	Raise, Renew bool
	// BanFor begins a ban of this length, with a Reason, unless it is 0.
	BanFor time.Duration
	Reason string
	// Wanted says that the caller wants the numbers of the limit after the settlement.
	Wanted bool
}

// correction returns the correction that carries the settlement out.
func (s *Settled) correction() Correction {
	c := Correction{Correction: s.Spec.Correction(s.Units, s.Cost, s.At), Key: s.Key, Spec: s.Spec, Wanted: s.Wanted}
	c.Holder, c.Raise, c.Renew = s.Holder, s.Raise, s.Renew
	if s.Reserved {
		c.Reserved, c.Charged = true, s.Units
		c.Instead = min(s.Cost, s.Spec.MostCharged())
	}
	if s.BanFor > 0 {
		c.Events, c.Length, c.Reason = 1, s.BanFor.Microseconds(), s.Reason
	}
	return c
}

// Corrections carry out some settlements. They are made empty, and may be used again.
type Corrections struct {
	// List has the corrections. Settlements of one call about one state, which were charged together, share one.
	List []Correction

	places []int // of the settlements that each comes from, in one piece of memory
}

// Set makes empty corrections those of n settlements. A settlement that is not needed has none.
func (l *Corrections) Set(n int, settled func(place int) Settled) {
	for i := range n {
		s := settled(i)
		l.places = append(l.places, i)
		c := s.correction()
		c.Of = slices.Clip(l.places[len(l.places)-1:])
		l.List = Append(l.List, c)
	}
	l.List = slices.DeleteFunc(l.List, func(c Correction) bool { return c.Idle() })
}

// Empty makes corrections empty.
func (l *Corrections) Empty() {
	clear(l.List)
	l.List, l.places = l.List[:0], l.places[:0]
}
