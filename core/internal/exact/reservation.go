package exact

import (
	"cmp"
	"slices"
)

// Reservation is a charge for a time: an open reservation, which is given back at its end unless it is closed before.
type Reservation struct {
	// Holder is its name.
	Holder Holder
	// Until is the instant from which on it is given back.
	Until int64
	// Events were charged, under Spec and at the instant Charge.
	Events int
	Charge Charge
	Spec   *Spec
}

// Reservations are the open reservations of a state. The zero value has none. They belong to one goroutine at a time.
type Reservations struct{ list []Reservation }

// Open adds a reservation.
func (r *Reservations) Open(one Reservation) { r.list = append(r.list, one) }

// Has reports whether a reservation is open.
func (r *Reservations) Has(h Holder) bool { return r.place(h) >= 0 }

func (r *Reservations) place(h Holder) int {
	if r == nil {
		return -1
	}
	return slices.IndexFunc(r.list, func(one Reservation) bool { return one.Holder == h })
}

// Close closes a reservation, and reports whether it was open.
func (r *Reservations) Close(h Holder) (open bool) {
	place := r.place(h)
	if place >= 0 {
		r.list = slices.Delete(r.list, place, place+1)
	}
	return place >= 0
}

// gone returns the instant from which on nothing can be left of a reservation, neither open nor charged.
func (r *Reservation) gone() int64 { return max(r.Until, r.Charge.At+r.Spec.recovery()) }

// MostEnded is how many ended reservations a call closes: those of one key, or of several. The others stay charged until
// later calls, so that no call takes long.
const MostEnded = 4

// Ended closes reservations that have ended at an instant, the latest to end first, up to *most of them, and counts them
// off *most. It returns those with units that may be left: the newest charge first, so that each gives back the units
// that it has found.
func (r *Reservations) Ended(now int64, most *int) (ended []Reservation) {
	if r == nil || *most == 0 {
		return nil
	}
	var latest []int // places of the ended ones, the last one first
	for i := range r.list {
		if r.list[i].Until > now {
			continue
		}
		at, _ := slices.BinarySearchFunc(latest, r.list[i].Until, func(place int, until int64) int { return cmp.Compare(until, r.list[place].Until+1) })
		if at < *most {
			latest = slices.Insert(latest[:min(len(latest), *most-1)], at, i)
		}
	}
	*most -= len(latest)
	for _, place := range latest {
		ended = append(ended, r.list[place])
	}
	slices.Sort(latest)
	for _, place := range slices.Backward(latest) {
		r.list = slices.Delete(r.list, place, place+1)
	}
	ended = slices.DeleteFunc(ended, func(one Reservation) bool { return now >= one.gone() })
	slices.SortStableFunc(ended, func(a, b Reservation) int {
		return cmp.Or(cmp.Compare(b.Charge.At, a.Charge.At), cmp.Compare(b.Charge.Order, a.Charge.Order), cmp.Compare(b.Charge.Used, a.Charge.Used))
	})
	return ended
}

// Until returns the instant from which on the reservations mean nothing any more, or 0 if none is open.
func (r *Reservations) Until() (until int64) {
	if r == nil {
		return 0
	}
	for i := range r.list {
		until = max(until, r.list[i].gone())
	}
	return until
}

// Refund returns the correction that gives a reservation back.
func (r *Reservation) Refund() Correction { return Correction{Events: -r.Events, At: r.Charge} }

// writtenReserved is a reservation as a record has it: two numbers of the holder, its end, the events, and the instant,
// the usage and the order of the charge.
type writtenReserved struct {
	Limit   string   `json:"limit"`
	Numbers [7]int64 `json:"numbers"`
}

func (r *Reservations) written() (list []writtenReserved) {
	for _, one := range r.list {
		list = append(list, writtenReserved{one.Spec.String(), [7]int64{
			one.Holder[0], one.Holder[1], one.Until, int64(one.Events), one.Charge.At, one.Charge.Used, one.Charge.Order,
		}})
	}
	return list
}

// readReservations reads the reservations of a key under a spec, as written returns them.
func readReservations(list []writtenReserved, s *Spec) (r Reservations, err error) {
	for _, w := range list {
		spec, err := writerOf(w.Limit, s)
		if err != nil {
			return Reservations{}, err
		}
		n := w.Numbers
		if min(n[2], n[3], n[4], n[5], n[6]) < 0 || max(n[2], n[4], n[5], n[6]) > most || n[3] > int64(spec.MostCharged) {
			return Reservations{}, errDamaged
		}
		r.Open(Reservation{
			Holder: Holder{n[0], n[1]}, Until: n[2], Events: int(n[3]),
			Charge: Charge{At: n[4], Used: n[5], Order: n[6]}, Spec: spec,
		})
	}
	return r, nil
}
