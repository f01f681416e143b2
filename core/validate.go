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
		if err := validateAlternative(checks, i); err != nil {
			return err
		}
		if c.Undelayed > 0 && !c.Limit.spec.Algorithm.Delays() {
			return invalid("core: %d undelayed units of %s: only a Shaping limit delays, so leave Undelayed out or use core.Shaping", c.Undelayed, c.Limit)
		}
		for j := range checks[:i] {
			d := &checks[j]
			if !sameState(c, d) {
				continue
			}
			if c.Limit.spec.Units != d.Limit.spec.Units {
				return invalid("core: checks %d and %d ask the same key about one named limit with different numbers: %s and %s", j, i, d.Limit, c.Limit)
			}
			if err := validateApart(checks, j, i); err != nil {
				return err
			}
		}
	}
	return nil
}
