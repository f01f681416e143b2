package exact

// State is what a store keeps of a key under a spec. The zero State is that of a key never seen.
// A copy of it may be changed only after the original is given up: the two share their log.
type State struct {
	// spec is the one that wrote the state. A named limit's numbers may have changed
	// since.
	spec *Spec
	// at is the instant at which a meter had its level or a window began.
	at int64
	// level is a meter's level in units, or the events of the window that began at at.
	level int64
	// previous is the events of the window before that.
	previous int64
	// log holds the instants of the events that a sliding log admitted, oldest first. Other
	// algorithms have none, and no room for it.
	log *[]int64
}

// Spec returns the spec that wrote the state, or nil for the zero State.
func (st *State) Spec() *Spec { return st.spec }

// Blank reports whether a state that was written is as good as none.
func (st *State) Blank() bool {
	return st.level == 0 && st.previous == 0 && len(st.instants()) == 0
}

// numbersOf returns the spec whose numbers a state has: those of a named limit may have changed
// since the charge under asked.
func (st *State) numbersOf(asked *Spec) *Spec {
	if st.spec == nil {
		return asked
	}
	return st.spec
}

// recovered reports whether nothing is used of a state, so that the numbers with which it was left
// mean nothing any more. A log has none but the instants.
func (st *State) recovered(now int64) bool {
	s := st.spec
	if s.Algorithm.Logs() {
		return false
	}
	u, _ := s.Observe(st, now, 0)
	return s.Reset(u) == 0
}

// instants returns the log.
func (st *State) instants() []int64 {
	if st.log == nil {
		return nil
	}
	return *st.log
}

// Key identifies a state.
type Key struct {
	// Subject is the caller's key, or a hash of it.
	Subject string
	// Identity is the [Spec.Identity] of the limit.
	Identity *Spec
}

// Usage is what a key has used of a limit at one instant, before the charge of the check that
// observes it. A script replies with these numbers, in this order. Each algorithm uses as many of
// them as it needs ([Algorithm.Observed]), and its file says what they mean. (Go passes a structure
// of four in registers, and an array in memory.)
type Usage struct{ Used, Second, Third, Fourth int64 }

// Unused reports whether nothing is used.
func (u Usage) Unused() bool { return u.Used+u.Second == 0 }
