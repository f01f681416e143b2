package core

// state is what the memory store keeps of one key under one limit. The zero
// state is that of a key never seen.
type state struct {
	// ruling is the one that wrote the state. A named limit's numbers may have changed
	// since.
	ruling *ruling
	// at is the instant, in microseconds since 1970, at which a meter had its level
	// or a window began.
	at int64
	// level is a meter's level in units, or the events of the window that began at at.
	level int64
	// previous is the events of the window before that.
	previous int64
	// log holds the instants of the units that a sliding log admitted, oldest first. Other
	// algorithms have none, and no room for it.
	log *[]int64
}

func (s *state) empty() bool { return s.ruling == nil }

// instants returns the log.
func (s *state) instants() []int64 {
	if s.log == nil {
		return nil
	}
	return *s.log
}
