package core

import "time"

// validateKept returns the reason why a call makes no sense whose charges nobody gives back.
func validateKept(checks []Check) error {
	for i := range checks {
		if c := &checks[i]; c.Mode == Charge && c.Limit.spec != nil && c.Limit.spec.Algorithm.Holds() {
			return invalid("core: the places of %s have to be given back: use Acquire, TryAcquire, Do or Reserve", c.Limit)
		} else if c.ReserveFor > 0 && c.Mode == Charge {
			return invalid("core: what is reserved for %v has to be settled: use Reserve", c.ReserveFor)
		}
	}
	return validate(checks)
}

// validate returns the reason why a call makes no sense, if it does not.
func validate(checks []Check) error {
	for i := range checks {
		c := &checks[i]
		if c.Key == "" {
			return invalid("core: the key is empty")
		}
		if c.Cost < 0 {
			return invalid("core: cost %d is negative", c.Cost)
		}
		if c.Mode > Look {
			return invalid("core: the check's mode is %s, want Charge, Condition or Look", c.Mode)
		}
		if c.Mode == Look && c.Cost != 0 {
			return invalid("core: a check that only looks costs nothing, and has a cost of %d", c.Cost)
		}
		if c.Undelayed < 0 {
			return invalid("core: %d undelayed units are negative", c.Undelayed)
		}
		if c.Headroom < 0 {
			return invalid("core: headroom %d is negative", c.Headroom)
		}
		if c.Mode == Look && c.Headroom != 0 {
			return invalid("core: a check that only looks leaves everything to others, and has a headroom of %d", c.Headroom)
		}
		if err := c.Limit.Validate(); err != nil {
			return err
		}
		if err := c.validateReserveFor(); err != nil {
			return err
		}
		if c.Undelayed > 0 && !c.Limit.spec.Algorithm.Delays() {
			return invalid("core: %d undelayed units of %s: only a Shaping limit delays, so leave Undelayed out or use core.Shaping", c.Undelayed, c.Limit)
		}
		for j := range checks[:i] {
			if d := &checks[j]; sameState(c, d) && c.Limit.spec.Units != d.Limit.spec.Units {
				return invalid("core: checks %d and %d ask the same key about one named limit with different numbers: %s and %s", j, i, d.Limit, c.Limit)
			}
			if d := &checks[j]; c.ReserveFor != d.ReserveFor && c.Mode == Charge && d.Mode == Charge && sameState(c, d) {
				return invalid("core: checks %d and %d ask the same key about %s, and reserve for %v and %v", j, i, c.Limit, d.ReserveFor, c.ReserveFor)
			}
			if d := &checks[j]; (c.Mode == Condition) != (d.Mode == Condition) && sameState(c, d) {
				return invalid("core: checks %d and %d ask the same key about %s, and one is a condition", j, i, c.Limit)
			}
		}
	}
	return nil
}

// The bounds of [Check.ReserveFor].
const (
	shortestReserved = time.Millisecond
	longestReserved  = 24 * time.Hour
)

// validateReserveFor returns the reason why the ReserveFor of a check makes no sense, if it does not.
func (c *Check) validateReserveFor() error {
	switch {
	case c.ReserveFor == 0:
		return nil
	case c.ReserveFor < shortestReserved || c.ReserveFor > longestReserved:
		return invalid("core: a check reserves for %v, want from %v to %v", c.ReserveFor, shortestReserved, longestReserved)
	case c.Limit.spec.Algorithm.Holds():
		return invalid("core: a check reserves for %v under %s, which has a lease: leave ReserveFor out", c.ReserveFor, c.Limit)
	case c.Limit.spec.Algorithm.Delays():
		return invalid("core: a check reserves for %v under %s, whose turns are handed on: leave ReserveFor out", c.ReserveFor, c.Limit)
	}
	return nil
}

// reserves reports whether what a check charges is given back by itself unless it is settled in time.
func (c *Check) reserves() bool {
	return c.ReserveFor > 0 && c.Mode == Charge && c.Limit != Unlimited
}
