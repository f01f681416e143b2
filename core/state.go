package core

// state is what the memory store keeps of one key under one limit. The zero
// state is that of a key never seen.
type state struct {
	// units are those of the limit that wrote the state. A named limit's numbers
	// may have changed since.
	units units
	// at is the instant, in microseconds since 1970, at which a meter had its level
	// or a window began.
	at int64
	// level is a meter's level in units, or the events of the window that began at at.
	level int64
	// previous is the events of the window before that.
	previous int64
	// log holds the instants of the units that a sliding log admitted, oldest first.
	log []int64
}

func (s *state) empty() bool { return s.units.tick == 0 }
