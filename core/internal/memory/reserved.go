package memory

import "github.com/weir-go/ratelimit/core/internal/exact"

// giveBackEnded gives back up to *most reservations of a key that have ended at an instant, and counts them off.
func (s *shard) giveBackEnded(key exact.Key, now int64, most *int) {
	of := s.open[key]
	for _, one := range of.Ended(now, most) {
		refund := one.Refund()
		s.settle(key, one.Spec, &refund, now)
	}
	s.forgetClosed(key, of)
}

// reserve adds an open reservation to an entry, which has to be scheduled.
func (s *shard) reserve(e *entry, one exact.Reservation) {
	key := e.key()
	if s.open == nil {
		s.open = make(map[exact.Key]*exact.Reservations)
	}
	if s.open[key] == nil {
		s.open[key] = new(exact.Reservations)
	}
	s.open[key].Open(one)
}

// close closes a reservation of a key, if it is open. The entry is kept no longer for it.
func (s *shard) close(key exact.Key, h exact.Holder, now int64) {
	of := s.open[key]
	if !of.Close(h) {
		return
	}
	s.forgetClosed(key, of)
	if e := s.entries.get(key); e != nil {
		spec := e.state.Spec()
		u, _ := spec.Observe(&e.state, now, 0)
		s.schedule(e, spec.Keep(u, now))
	}
}

// forgetClosed forgets that a key had reservations when none is open.
func (s *shard) forgetClosed(key exact.Key, of *exact.Reservations) {
	if of != nil && of.Until() == 0 {
		delete(s.open, key)
	}
}
