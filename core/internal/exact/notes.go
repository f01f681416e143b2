package exact

import (
	"slices"
	"sort"
)

// notes tell settlements how low the level of a meter has been since each open reservation was charged. No more than that
// is left of a reservation. The rest has drained: without the charge, it would have found the meter empty.
//
// They are a stack of one number for each open reservation, the newest last. The lowest level since a reservation is the
// sum of its number and of those below it. So a falling level takes from the newest numbers, and a reservation that gives
// back takes from its own number first and then from those below.
//
// A check that cannot be settled neither reads nor writes them. The drained units then follow from the time since: no
// more can have drained.
type notes struct {
	by    Units  // the numbers under which the slots were counted
	slots []slot // of the open reservations, in the order of their charges
	level int64  // the used units when a reservation was noted or settled last
	at    int64  // the instant of that
}

// slot is an open reservation.
type slot struct{ number, units int64 }

// MostNotes is how many open reservations a state keeps notes of. Nothing is given back of older ones.
const MostNotes = 4096

// least returns the least units that may have been left since the slots were counted, given the units used now.
func (n *notes) least(s *Spec, used, now int64) int64 { return min(used, s.left(n.level, now, n.at)) }

// drain takes from the slots the units that may have drained since they were counted, given the units used now.
func (n *notes) drain(s *Spec, used, now int64) {
	least := n.least(s, used, now)
	excess := n.noted() - least
	for i := len(n.slots) - 1; i >= 0 && excess > 0; i-- {
		taken := min(excess, n.slots[i].units)
		n.slots[i].units -= taken
		excess -= taken
	}
	if least == 0 {
		n.slots = nil
	}
}

// noted returns the sum of the slots.
func (n *notes) noted() (sum int64) {
	for i := range n.slots {
		sum += n.slots[i].units
	}
	return sum
}

// take closes a slot, and takes units from it and from those below, or as many as there are, given the units used now. It
// returns how many were taken, and whether there is such a slot. If nothing is left to take, the slots are not drained: a later
// call drains them, too.
func (n *notes) take(s *Spec, number, units, used, now int64) (taken int64, found bool) {
	place := sort.Search(len(n.slots), func(i int) bool { return n.slots[i].number >= number })
	if place == len(n.slots) || n.slots[place].number != number {
		return 0, false
	}
	var lowest int64 // level since the reservation
	for i := range place + 1 {
		lowest += n.slots[i].units
	}
	if taken = min(units, lowest, n.least(s, used, now)); taken > 0 {
		n.drain(s, used, now)
	}
	for i, rest := place, taken; rest > 0; i-- {
		from := min(rest, n.slots[i].units)
		n.slots[i].units -= from
		rest -= from
	}
	n.close(place)
	return taken, true
}

// close removes a slot. Its units count for the slot above.
func (n *notes) close(place int) {
	if place+1 < len(n.slots) {
		n.slots[place+1].units += n.slots[place].units
	}
	n.slots = slices.Delete(n.slots, place, place+1)
}

// Note notes that a state of which so much was used has just been charged by a reservation with a number, higher than any
// before, so that it can be settled: see [Charge.Order].
func (st *State) Note(s *Spec, used, now, number int64) {
	n := st.notes(s)
	if n == nil {
		n = &notes{by: s.Units}
		st.ownList().notes = n
	}
	n.drain(s, used, now)
	n.slots = append(n.slots, slot{number, st.level - n.noted()})
	n.level, n.at = st.level, now
	if len(n.slots) > MostNotes {
		n.slots = slices.Delete(n.slots, 0, 1)
	}
}

// notes returns the notes of a state under a spec, or nil. Those under other numbers mean nothing.
func (st *State) notes(s *Spec) *notes {
	if st.list == nil || st.list.notes == nil || st.list.notes.by != s.Units {
		return nil
	}
	return st.list.notes
}

// Noted reports whether reservations under a limit have to be noted to be settled.
func (a Algorithm) Noted() bool { return a != None && !table[a].windowed && a != FairShare }
