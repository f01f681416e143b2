package exact

// State is the numbers that a store keeps of a key under a spec. The zero State is that of a key never seen. A copy of it may be
// changed only after the original is given up: the two share their list.
type State struct {
	// spec is the one that wrote the state. A named limit's numbers may have changed
	// since.
	spec *Spec
	// at is the instant at which a meter had its level, at which a window or a ban began, or at which a balance was reset, or the
	// latest token of a concurrent limit.
	at int64
	// level is a meter's level in units, the units left of a balance, the events of the window that began at at, or how many bans have
	// begun.
	level int64
	// previous is the units spent of a balance, or the events of the window before that, when the window ends that began at at, if a calendar
	// has cut it, or the instant at which a ban ends.
	previous int64
	// list is the part that grows with use. Algorithms that have none have no room for it.
	list *list
}

// list is the part of a state that grows with use.
type list struct {
	// instants are those of the events that a sliding log admitted, or of strikes, oldest first.
	instants []int64
	// holders are those of a concurrent limit, in the order in which their leases end.
	holders []holder
	// reason is the reason of a ban that was begun by hand.
	reason string
	// notes are those of the open reservations of a meter, or nil.
	notes *notes
	// topUps are the latest ones of a balance, oldest first.
	topUps []topUp
	// pool is the memory of a cap for its tenants, or nil.
	pool *pool
	// held is the product of the pool as of the last charge of a tenant.
	held product
}

// Clear empties a state that was written. It is still one of its spec.
func (st *State) Clear() { *st = State{spec: st.spec} }

// Spec returns the spec that wrote the state, or nil for the zero State.
func (st *State) Spec() *Spec { return st.spec }

// Blank reports whether a state that was written is as good as none.
func (st *State) Blank() bool {
	return st.level == 0 && st.previous == 0 && len(st.instants()) == 0 && !st.spec.Algorithm.Holds() && !st.spec.Prepaid
}

// numbersOf returns the spec with the numbers of a state: those of a named limit may have changed since the charge under
// asked. A state with a window of its own has none.
func (st *State) numbersOf(asked *Spec) *Spec {
	if st.spec == nil || st.spec.Algorithm.Dated() || asked.Algorithm.Bans() { // all that a ban keeps are instants
		return asked
	}
	return st.spec
}

// recovered reports whether nothing is used of a state, so that the numbers with which it was left
// mean nothing any more. A list has none but its own.
func (st *State) recovered(asked *Spec, now int64) bool {
	s := st.numbersOf(asked)
	if s.Algorithm.Lists() || s.Prepaid {
		return false
	}
	u, _ := s.Observe(st, now, 0)
	return s.Reset(u) == 0
}

// ownList returns the list of a state, which is made if there is none.
func (st *State) ownList() *list {
	if st.list == nil {
		st.list = new(list)
	}
	return st.list
}

// instants returns the log.
func (st *State) instants() []int64 {
	if st.list == nil {
		return nil
	}
	return st.list.instants
}

func (st *State) setInstants(log []int64) {
	st.ownList().instants = log
}

// reason returns the reason of a ban that was begun by hand.
func (st *State) reason() string {
	if st.list == nil {
		return ""
	}
	return st.list.reason
}

func (st *State) setReason(reason string) {
	if st.list != nil || reason != "" {
		st.ownList().reason = reason
	}
}

// holders returns the holders of a concurrent limit.
func (st *State) holders() []holder {
	if st.list == nil {
		return nil
	}
	return st.list.holders
}

// Vacate gives back all places of a state of a concurrent limit, or takes all units of a balance away. It reports whether the state is one
// of these, and whether it has changed. Such a state stays, since its latest token, or its top-ups, are still known.
func (st *State) Vacate(s *Spec, now int64) (stays, changed bool) {
	if s.Prepaid {
		return true, st.empty(now)
	}
	if !s.Algorithm.Holds() {
		return false, false
	}
	if len(st.holders()) == 0 {
		return true, false
	}
	st.setHolders(nil)
	return true, true
}

func (st *State) setHolders(holders []holder) {
	st.ownList().holders = holders
}

// Key identifies a state.
type Key struct {
	// Subject is the caller's key, or a hash of it.
	Subject string
	// Identity is the [Spec.Identity] of the limit.
	Identity *Spec
}

// Usage is how much a key has used of a limit at one instant, before the charge of the check that observes it. A script
// replies with these numbers, in this order. Each algorithm uses as many of them as it needs ([Algorithm.Observed]); its
// file explains them. (Go passes a structure of four in registers, and an array in memory.)
type Usage struct{ Used, Second, Third, Fourth int64 }

// Unused reports whether nothing is used, or there is nothing to keep of a balance. Second is a wait if a calendar cuts the limit's windows.
func (s *Spec) Unused(u Usage) bool {
	if s.Prepaid {
		return u.Used == s.Full
	}
	return u.Used == 0 && (u.Second == 0 || s.Algorithm.Dated())
}
