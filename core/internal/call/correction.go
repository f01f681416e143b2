package call

import (
	"slices"

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

// ObserveState sets the usage that a check would observe of a state at an instant.
func (c *Correction) ObserveState(st *exact.State, now int64) {
	c.Usage, _ = c.Spec.Observe(st, now, 0)
	c.Observed = true
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

// Corrections carry out some settlements. They are made empty, and may be used again.
type Corrections struct {
	// List has the corrections. Settlements of one call about one state, which were charged together, share one.
	List []Correction

	places []int // of the settlements that each comes from, in one piece of memory
}

// Set makes empty corrections those of n settlements, each of which has one, if it is needed.
func (l *Corrections) Set(n int, correction func(settlement int) Correction) {
	for i := range n {
		l.places = append(l.places, i)
		c := correction(i)
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
