package exact

// Charge is when something was charged, and what was used then. The zero Charge is one that is not
// known: what it settles is settled as of now.
type Charge struct {
	// At is the instant of the charge.
	At int64
	// Used is how many units of a meter were used after the charge.
	Used int64
	// Order tells a charge before a settlement from one after it in the same microsecond: see
	// [Pasts.Order].
	Order int64
}

// Correction changes what was charged to what it should have been. The zero Correction changes
// nothing.
type Correction struct {
	// Events are added, or refunded if below 0. They are no more than the capacity.
	Events int
	// At is the charge that is corrected.
	At Charge
	// Raise makes Events the least that is to be used: nothing is added if as much is used already.
	Raise bool
	// Holder is whose places a correction of a limit that holds is about. Events below 0 give all of
	// them back, and Renew begins their lease anew, unless it has ended. Lost says, once a renewal is
	// carried out, that it had.
	Holder Holder
	Renew  bool
	Lost   bool
	// Length begins a ban by hand that lasts so many microseconds, whatever is in force. Events are 1 then.
	// Reason is what is said of it.
	Length int64
	Reason string
	// Begun says, once strikes are carried out, that they have begun a ban.
	Begun bool
	// Firm refunds a place in a shaped queue even if others have queued behind it, because its turn
	// stays unused.
	Firm bool

	// low is the least that may have been used since the charge, as far as that is known,
	// in units of the spec that the state has: no more than that is left of the charge.
	low int64
	// noted says, once the correction is carried out, that others may have been charged
	// since the charge, so that the refund has to be noted in the past of the key.
	noted bool
	// refunded is how many units a meter was given back then.
	refunded int64
}

// lowest returns the least that may have been used of a state since the charge. A charge in
// the future was made before the clock stepped back, at an unknown time. A list knows all the
// same whether it has the charge.
func (c *Correction) lowest(own *Spec, p *past, now int64) int64 {
	switch {
	case c.Events >= 0 || c.At.At == 0:
		return most
	case c.At.At > now && !own.Algorithm.Lists():
		return 0
	}
	return p.low(own, c.At, now)
}

// Settle carries out a correction of what was charged under a spec, on the state of a key at an
// instant. It notes refunds in the past of the key. It returns the state afterwards, and whether
// that has changed: the given state is still as it was if it has not, and must not be used if it
// has. A state that has become as good as none is [State.Blank].
func (p *Pasts) Settle(key Key, s *Spec, st State, c *Correction, now int64) (after State, changed bool) {
	if c.Events == 0 {
		return st, false
	}
	if st.spec != nil && st.recovered(s, now) {
		st = State{}
	}
	own := st.numbersOf(s)
	if c.low = c.lowest(own, p.past(key, c.At), now); c.low == 0 {
		return st, false // nothing is left of the charge
	}
	if !s.arithmetic.settle(s, &st, now, c) {
		return st, false
	}
	if c.noted {
		if one := p.of[key]; one != nil && c.At.At != 0 {
			one.spend(c.At, c.refunded)
		}
		p.note(key, now, own, st.level)
	}
	st.spec = own
	return st, true
}
