package wait

import (
	"container/heap"
	"time"
)

// event is something that happens to a lease at a time that is known in advance.
type event int

const (
	renewal  event = iota // it is due to be renewed
	deadline              // it is no longer certain
	events
)

// schedule holds leases by the times of one event, the soonest first.
type schedule struct {
	indexed[*Lease]

	of event
}

func newSchedule(of event) schedule {
	return schedule{of: of, indexed: indexed[*Lease]{
		less:  func(a, b *Lease) bool { return a.at[of] < b.at[of] },
		moved: func(lease *Lease, place int) { lease.place[of] = place },
	}}
}

// put adds a lease with its event at an instant, or moves a lease that is there.
func (s *schedule) put(lease *Lease, at time.Duration) {
	lease.at[s.of] = at
	if place := lease.place[s.of]; place == absent {
		heap.Push(&s.indexed, lease)
	} else {
		heap.Fix(&s.indexed, place)
	}
}

// drop takes a lease out, if it is there.
func (s *schedule) drop(lease *Lease) {
	if place := lease.place[s.of]; place != absent {
		heap.Remove(&s.indexed, place)
	}
}

// next returns the instant of the first event, or never.
func (s *schedule) next() time.Duration {
	if s.Len() == 0 {
		return never
	}
	return s.first().at[s.of]
}

// due returns the first lease with an event that has come, or nil.
func (s *schedule) due(now time.Duration) *Lease {
	if s.next() > now || s.Len() == 0 {
		return nil
	}
	return s.first()
}

// pop is due, and takes the lease out.
func (s *schedule) pop(now time.Duration) *Lease {
	lease := s.due(now)
	if lease != nil {
		s.drop(lease)
	}
	return lease
}
