package call

// Advance turns the observation before the first of several times into the one before the time at a
// place, from 0: the times that fit before it have been charged.
func Advance(group []Check, place int) {
	times := Granted(group, place)
	for i := range group {
		c := &group[i]
		if events := c.Events(times); c.Charge && events > 0 {
			c.Usage = c.Spec.Charged(c.Usage, events)
		}
		if c.Costs != nil {
			c.Cost = c.Costs[place]
		}
	}
}

// Granted returns how many of the first times of a group fit in the observed usage.
func Granted(group []Check, times int) int {
	for i := range group {
		times = min(times, group[i].granted(times))
	}
	return times
}

func (c *Check) granted(times int) int {
	switch {
	case c.Cost == 0:
	case !c.Charge: // a condition, which takes nothing
		if !c.Spec.Fits(c.Usage, c.Need()) {
			return 0
		}
	case c.Costs == nil:
		return min(times, max(0, c.Spec.Remaining(c.Usage)-c.Headroom)/c.Cost)
	default:
		rest := c.Spec.Remaining(c.Usage) - c.Headroom
		for i, cost := range c.Costs[:times] {
			if rest -= cost; rest < 0 {
				return i
			}
		}
	}
	return times
}

// Events returns the sum of the check's costs over the first times.
func (c *Check) Events(times int) (events int) {
	if c.Costs == nil {
		return times * c.Cost
	}
	for _, cost := range c.Costs[:times] {
		events += cost
	}
	return events
}

// Multiply turns a group that is asked several times into one with the sum of the first costs.
func Multiply(group []Check, times int) {
	for i := range group {
		if c := &group[i]; c.Charge {
			c.Cost = c.Events(times)
			c.Units, c.Costs = c.Cost, nil
		}
	}
}

// Single turns the checks of one of several calls, which differ in their costs, into those of a call by itself.
func Single(group []Check) {
	for i := range group {
		if c := &group[i]; c.Costs != nil {
			c.Units, c.Costs = c.Cost, nil
		}
	}
}
