package wait

import "time"

// event is something that happens to a lease at a time that is known in advance.
type event int

const (
	renewal  event = iota // it is due to be renewed
	deadline              // it is no longer certain
	events
)

// notScheduled is the place of a lease that is not in a schedule.
const notScheduled = -1

// schedule holds leases by the times of one event, the soonest first, in a heap.
type schedule struct {
	of    event
	items []item
}

// item is a lease in a schedule, with the time of its event.
type item struct {
	at    time.Duration
	lease *Lease
}

// len returns how many leases are in the schedule.
func (s *schedule) len() int { return len(s.items) }

// put adds a lease with its event at an instant, or moves a lease that is there.
func (s *schedule) put(lease *Lease, at time.Duration) {
	lease.at[s.of] = at
	if lease.place[s.of] == notScheduled {
		lease.place[s.of] = len(s.items)
		s.items = append(s.items, item{})
	}
	s.sift(item{at, lease}, lease.place[s.of])
}

// remove takes a lease out, if it is there.
func (s *schedule) remove(lease *Lease) {
	place := lease.place[s.of]
	if place == notScheduled {
		return
	}
	lease.place[s.of] = notScheduled
	last := len(s.items) - 1
	moved := s.items[last]
	s.items[last] = item{}
	s.items = s.items[:last]
	if place < last {
		s.sift(moved, place)
	}
}

// sift finds the place of an item, from a free place on.
func (s *schedule) sift(moved item, free int) {
	for free > 0 {
		above := (free - 1) / 2
		if s.items[above].at <= moved.at {
			break
		}
		s.place(s.items[above], free)
		free = above
	}
	for {
		below := 2*free + 1
		if below+1 < len(s.items) && s.items[below+1].at < s.items[below].at {
			below++
		}
		if below >= len(s.items) || moved.at <= s.items[below].at {
			break
		}
		s.place(s.items[below], free)
		free = below
	}
	s.place(moved, free)
}

// place puts an item in a place.
func (s *schedule) place(one item, place int) {
	s.items[place] = one
	one.lease.place[s.of] = place
}

// next returns the instant of the first event, or never.
func (s *schedule) next() time.Duration {
	if len(s.items) == 0 {
		return never
	}
	return s.items[0].at
}

// first returns the first lease with an event that has come, or nil.
func (s *schedule) first(now time.Duration) *Lease {
	if len(s.items) == 0 || s.items[0].at > now {
		return nil
	}
	return s.items[0].lease
}

// pop is first, and takes the lease out.
func (s *schedule) pop(now time.Duration) *Lease {
	first := s.first(now)
	if first != nil {
		s.remove(first)
	}
	return first
}
