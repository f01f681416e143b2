package call

import "github.com/weir-go/ratelimit/core/internal/exact"

// Resolve observes the state of each check of a group at an instant, and decides the group, as often as
// the call is made. It is for stores that have the states in this process. state returns the state of
// the check at a place of the group, or nil if there is none.
func (c *Call) Resolve(group []Check, now int64, state func(place int) *exact.State) (pass bool) {
	for i := range group {
		check, st := &group[i], state(i)
		if st == nil {
			st = &fresh
		}
		if check.Spec.Shared {
			of := state(i - 1)
			if of == nil {
				of = &fresh
			}
			check.found = new(exact.Product)
			check.Usage, *check.found = check.Spec.ObserveShare(st, of, group[i-1].Usage.Used, now)
			continue
		}
		if check.Charge {
			check.Usage, check.repair = check.Spec.ObserveCharge(st, now, check.Need())
		} else {
			check.Usage, check.repair = check.Spec.Observe(st, now, check.Need())
		}
		if check.extends() {
			check.Usage, check.repair = check.Spec.Extended(st, check.Usage), true
		}
	}
	if c.Times > 1 {
		c.Granted = Granted(group, c.Times)
		Multiply(group, max(1, c.Granted))
	}
	return Decide(group)
}

// fresh is the state of a key that is not there. It is never written.
var fresh exact.State

// Writes reports whether the state of a check must be written after the decision: with its cost charged,
// or repaired.
func (c *Check) Writes(pass bool) bool {
	return c.Struck || c.Charge && pass && !c.Waived || c.repair && c.Mends() && !c.Spec.Unused(c.Usage)
}

// Mends reports whether the check mends a state that it finds damaged.
func (c *Check) Mends() bool { return c.Charge || c.Spec.Mended && !c.Looks() }

// extends reports whether the check strikes during a ban that begins anew then.
func (c *Check) extends() bool {
	return c.Spec.Extends() && (c.Charge || c.OnDenial) && !c.Spec.Fits(c.Usage, 1)
}

// Write writes the state of a check after the decision.
func (c *Check) Write(st *exact.State, now int64, pass bool) {
	cost := 0
	if c.Struck || pass && c.Charge && !c.Waived {
		cost = c.Cost
	}
	c.Spec.Store(st, c.Usage, now, cost, c.Holder)
}

// WriteShare is Write of a share that is charged, beside the state of its cap, which has been written.
func (c *Check) WriteShare(st, of *exact.State, now int64) {
	c.Spec.StoreShare(st, of, c.Usage, *c.found, now, c.Cost)
}

// Keep returns the instant until which the state of a check must be kept after a decision at an instant.
func (c *Check) Keep(now int64, pass bool) int64 { return c.Spec.Keep(c.After(pass), now) }
