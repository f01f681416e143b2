package call

import (
	"slices"
	"time"

	"github.com/weir-go/ratelimit/core/internal/exact"
)

// Settled is a check that was charged, with its real cost.
type Settled struct {
	// Key, Spec and Units are those of the check.
	Key   string
	Spec  *exact.Spec
	Units int
	// Looks says that the check has only looked, so that it has opened no window.
	Looks bool
	// Strikes says that the check has asked about a ban without charging it, so that the Cost is the strikes to be made.
	Strikes bool
	// Reserved says that the charge is given back by itself unless it is settled in time.
	Reserved bool
	// Cost is the real cost of the check. At and Holder are the charge.
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

// Events returns how many units the settlement adds, or refunds if below 0, or raises to.
func (s *Settled) Events() int {
	most := s.Spec.MostCharged()
	charged := min(s.Units, most)
	if s.Spec.Algorithm.Holds() {
		return -charged // all of them, at any cost
	}
	events := max(-most, min(s.Cost, most))
	if s.Strikes || s.Raise {
		return events
	}
	return events - charged
}

// correction returns the correction that carries the settlement out.
func (s *Settled) correction() Correction {
	c := Correction{
		Correction: exact.Correction{Events: s.Events(), At: s.At, Raise: s.Raise},
		Key:        s.Key, Spec: s.Spec, Wanted: s.Wanted,
	}
	if c.Spec.Algorithm.Holds() {
		c.Holder, c.Renew = s.Holder, s.Renew
	}
	if s.Reserved {
		c.Holder, c.Reserved, c.Charged = s.Holder, true, s.Units
		c.Instead = min(s.Cost, s.Spec.MostCharged())
	}
	if s.Looks || c.Spec.Algorithm.Bans() { // so it has opened no window
		c.At = exact.Charge{}
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
