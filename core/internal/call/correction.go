package call

import (
	"slices"
	"time"

	"github.com/weir-go/ratelimit/core/internal/exact"
)

// Correction is a settlement as a store has to carry it out.
type Correction struct {
	exact.Correction

	// Key and Spec are those of the check that is settled.
	Key  string
	Spec *exact.Spec
	// Of are the settlements that it comes from, by their places.
	Of []int
	// Reset refunds everything, and keeps earlier charges from being refunded later.
	Reset bool

	// Leaves is a waiter that has left: it is no longer registered, and the units or places kept for it are free. Nil
	// says that the correction is about places or units.
	Leaves *Waiter
	// Further says that the correction was not carried out, and has to be sent again for this instant: see
	// script.Further. It is 0 otherwise.
	Further int64
	// Reserved says that the charge is an open reservation of the Holder, unless its time is over and it was given back.
	// It is Charged in all. A correction that finds it given back charges the cost as of now in place of the Events, and
	// is Lost.
	Reserved bool
	Charged  int
	Instead  int

	// More says that a reset has removed many holders, and may have left others: it is sent again.
	More bool

	// Wanted says that the store is to observe the usage afterwards. A correction of 0 events is carried out for that
	// alone.
	Wanted bool
	// Observed says that the correction was carried out, and that Usage is the observation of a check after all
	// corrections of the list.
	Observed bool
	Usage    exact.Usage
}

// Late turns the correction into one of a reservation that has been given back.
func (c *Correction) Late() { c.Events, c.At, c.Lost = c.Instead, exact.Charge{}, true }

// Noted reports whether the corrected charge was noted: see [Check.Noted].
func (c *Correction) Noted() bool { return c.At.Order > 0 && c.Spec.Noted }

// OfPlaces reports whether the correction is about the places of its Holder. Others may wait for them.
func (c *Correction) OfPlaces() bool { return c.Holder != exact.Holder{} && !c.Reserved }

// Hurries reports whether others may wait for the units or places of the correction, so that it must not queue behind settlements.
func (c *Correction) Hurries() bool { return c.Leaves != nil || c.Oldest || c.OfPlaces() }

// OfTurn reports whether the correction gives back a turn, behind which others may have queued.
func (c *Correction) OfTurn() bool { return c.Spec.Delayed && !c.Firm }

// Idle reports whether the correction neither changes nor tells anything.
func (c *Correction) Idle() bool { return c.Events == 0 && !c.Wanted && !c.Reserved }

// Observe sets the usage that was observed after the corrections.
func (c *Correction) Observe(usage exact.Usage) { c.Usage, c.Observed = usage, true }

// ObserveState sets the usage that a check would observe of a state at an instant.
func (c *Correction) ObserveState(st *exact.State, now int64) {
	usage, _ := c.Spec.Observe(st, now, 0)
	c.Observe(usage)
}

// Answer returns the answer that a check which only looks would get after the corrections. There is one
// if they were observed.
func (c *Correction) Answer() Answer {
	look := Check{Spec: c.Spec, Usage: c.Usage, Fits: true}
	return look.Answer(false, true)
}

// StateKey returns the key of the state that is corrected.
func (c *Correction) StateKey() exact.Key { return StateKey(c.Key, c.Spec) }

// Append appends a correction to others, or joins it with one of the same charge, since units charged together are
// corrected together.
func Append(list []Correction, c Correction) []Correction {
	most := c.Spec.MostCharged
	for i := range list {
		d := &list[i]
		if !c.Raise && !d.Raise && c.Length == 0 && d.Length == 0 && c.TopUp == "" && d.TopUp == "" && c.Renew == d.Renew && c.Oldest == d.Oldest &&
			c.At == d.At && c.Holder == d.Holder && c.Key == d.Key && c.Spec == d.Spec {
			d.Events = max(-most, min(d.Events+c.Events, most))
			d.Charged, d.Instead = d.Charged+c.Charged, min(d.Instead+c.Instead, most)
			d.Of = append(d.Of, c.Of...)
			d.Wanted = d.Wanted || c.Wanted
			return list
		}
	}
	return append(list, c)
}

// Reversal returns the corrections that undo the charges of a group that passed.
func Reversal(group []Check) []Correction {
	list := make([]Correction, 0, len(group))
	for i := range group {
		if c := &group[i]; c.Charge && !c.Waived {
			at := c.Charged
			at.Used = c.used()
			list = append(list, Correction{
				Correction: exact.Correction{Events: -c.Cost, At: at, Firm: true, Holder: c.Holder},
				Key:        c.Key, Spec: c.Spec, Reserved: c.ReserveFor > 0, Charged: c.Cost,
			})
		}
	}
	return list
}

// Leaving returns the corrections that end the registrations of a group that was denied.
func Leaving(group []Check) []Correction {
	var list []Correction
	for i := range group {
		if c := &group[i]; c.Waiter != nil && c.Usage.Fourth > 0 {
			left := *c.Waiter
			left.Since = c.Usage.Fourth
			list = append(list, Correction{Correction: exact.Correction{Events: -c.Units}, Key: c.Key, Spec: c.Spec, Leaves: &left})
		}
	}
	return list
}

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
	// Oldest gives back as many places as the Units are, of any holders.
	Oldest bool
	// BanFor begins a ban of this length, with a Reason, unless it is 0.
	BanFor time.Duration
	Reason string
	// TopUp tops a balance up by the Cost, unless it is "": see [exact.Correction].
	TopUp string
	// Wanted says that the caller wants the numbers of the limit after the settlement. Those of a share are not known without its cap.
	Wanted bool
}

// correction returns the correction that carries the settlement out.
func (s *Settled) correction() Correction {
	c := Correction{Correction: s.Spec.Correction(s.Units, s.Cost, s.At), Key: s.Key, Spec: s.Spec, Wanted: s.Wanted && !s.Spec.Shared}
	c.Holder, c.Raise, c.Renew, c.Oldest = s.Holder, s.Raise, s.Renew, s.Oldest
	if c.TopUp = s.TopUp; s.Raise { // without debt
		c.Events = min(c.Events, s.Spec.Capacity)
	}
	if s.Reserved {
		c.Reserved, c.Charged = true, s.Units
		c.Instead = min(s.Cost, s.Spec.MostCharged)
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
