package core

// validateKept returns the reason why a call makes no sense whose charges nobody gives back.
func validateKept(checks []Check) error {
	for i := range checks {
		if c := &checks[i]; c.Mode == Charge && c.Limit.spec != nil && c.Limit.spec.Algorithm.Holds() {
			return invalid("core: the places of %s have to be given back: use Acquire, TryAcquire, Do or Reserve", c.Limit)
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
		if c.Mode > OnDenial {
			return invalid("core: the check's mode is %s, want Charge, Condition, Look or OnDenial", c.Mode)
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
		if c.Undelayed > 0 && !c.Limit.spec.Algorithm.Delays() {
			return invalid("core: %d undelayed units of %s: only a Shaping limit delays, so leave Undelayed out or use core.Shaping", c.Undelayed, c.Limit)
		}
		bans := c.Limit.spec.Algorithm.Bans()
		if c.Mode == OnDenial && !bans {
			return invalid("core: the check's mode is OnDenial, and %s is no ban", c.Limit)
		}
		if bans && c.Headroom > 0 {
			return invalid("core: a headroom of %d strikes: a ban has none", c.Headroom)
		}
		for j := range checks[:i] {
			if d := &checks[j]; sameState(c, d) && c.Limit.spec.Units != d.Limit.spec.Units {
				return invalid("core: checks %d and %d ask the same key about one named limit with different numbers: %s and %s", j, i, d.Limit, c.Limit)
			}
			if d := &checks[j]; bans && c.Mode != d.Mode && c.Mode != Look && d.Mode != Look && sameState(c, d) {
				return invalid("core: checks %d and %d ask the same key about %s with the modes %s and %s", j, i, c.Limit, d.Mode, c.Mode)
			}
			if d := &checks[j]; (c.Mode == Condition) != (d.Mode == Condition) && sameState(c, d) {
				return invalid("core: checks %d and %d ask the same key about %s, and one is a condition", j, i, c.Limit)
			}
		}
	}
	return nil
}
