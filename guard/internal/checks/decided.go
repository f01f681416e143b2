package checks

import "github.com/weir-go/ratelimit/core"

// Passed reports whether a call passes with these decisions.
func (c *Call[S]) Passed(decisions []core.Decision) bool {
	decided := core.Call{Checks: c.Checks, Decisions: decisions}
	return decided.Passed()
}

// OnlyBans returns the checks of bans and shadows with their decisions, if a ban is in force, and otherwise all. The
// other decisions do not matter then, and have no numbers if the store was not asked.
func (c Call[S]) OnlyBans(decisions []core.Decision) (Call[S], []core.Decision) {
	inForce := false
	for i := range c.Checks {
		inForce = inForce || c.Terms[i].Bans && !c.Checks[i].Shadow && !decisions[i].Allowed
	}
	if !inForce {
		return c, decisions
	}
	own, ofBans := Call[S]{MaxWait: c.MaxWait}, make([]core.Decision, 0, len(decisions))
	for i := range c.Checks {
		if check := &c.Checks[i]; check.Shadow || c.Terms[i].Bans {
			own.Append(*check, c.Terms[i])
			ofBans = append(ofBans, decisions[i])
		}
	}
	return own, ofBans
}
