package exact

// Charge tells when a charge was made, and how much was used then. The zero Charge is an unknown one: it is settled as of
// now.
type Charge struct {
	// At is the instant of the charge.
	At int64
	// Used is how many units of a meter were used after the charge. Of a share it is the product in short: see [fair].
	Used int64
	// Order tells a charge before a reset from one after it in the same microsecond: see [Pasts.Order]. Of a
	// meter it is the number under which the charge was noted ([State.Note]), or 0 if it was not.
	Order int64
}

// Correction changes a charge to its real cost. The zero Correction changes nothing.
type Correction struct {
	// Events are added, or refunded if below 0. They are no more than the capacity.
	Events int
	// At is the charge that is corrected.
	At Charge
	// Raise makes Events the least that is to be used: nothing is added if as much is used already.
	Raise bool
	// Holder has the places that a correction of a limit that holds is about, as many as the Events are below 0: it gives all
	// of them back, or with Renew begins their lease anew, unless it has ended. Lost says, once a renewal is carried out, that it had.
	Holder Holder
	Renew  bool
	Lost   bool
	// Oldest gives back places of any holders, as many as the Events are below 0: the ones with leases that end first.
	// A holder that had more of them keeps the rest until its lease ends, or until they are given back in the same way.
	Oldest bool
	// Length begins a ban by hand that lasts this many microseconds, also if one is in force. Events are 1 then. Reason
	// is its reason.
	Length int64
	Reason string
	// TopUp is the name of the event by which a balance is topped up by the Events. The correction is Lost, and changes nothing, if the
	// balance has been topped up by it before.
	TopUp string
	// Begun says, once strikes are carried out, that they have begun a ban.
	Begun bool
	// Firm refunds a place in a shaped queue even if others have queued behind it, because its turn
	// stays unused.
	Firm bool
}

// Settle corrects a charge under a spec, on the state of a key at an instant. It returns the state afterwards, and
// whether it has changed. If not, the given state is still as it was; if so, it must not be used any more. A state that
// has become as good as none is [State.Blank].
func (p *Pasts) Settle(key Key, s *Spec, st State, c *Correction, now int64) (after State, changed bool) {
	if c.Events == 0 {
		return st, false
	}
	if st.spec != nil && st.recovered(s, now) {
		st = State{list: st.onlyPool()}
	}
	own := st.numbersOf(s)
	if c.Events < 0 && c.At.At != 0 && !p.remains(key, own, c.At, now) || !s.arithmetic.settle(s, &st, now, c) {
		return st, false
	}
	st.spec = own
	return st, true
}
