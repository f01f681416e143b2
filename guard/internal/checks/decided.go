package checks

import (
	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/algorithm"
)

// Allowed reports whether all checks but those of shadows are allowed, or waived.
func Allowed(checks []core.Check, decisions []core.Decision) bool {
	for i := range checks {
		if !checks[i].Shadow && !decisions[i].Allowed && !decisions[i].Waived {
			return false
		}
	}
	return true
}

// OnlyBans returns what bans and shadows have decided about a call, if a ban is in force, and otherwise all. What the
// others have decided does not matter then, and has no numbers if the store was not asked.
func (c Call[S]) OnlyBans(decisions []core.Decision) (Call[S], []core.Decision) {
	inForce := false
	for i := range c.Checks {
		inForce = inForce || algorithm.Bans(c.Checks[i].Limit) && !c.Checks[i].Shadow && !decisions[i].Allowed
	}
	if !inForce {
		return c, decisions
	}
	own, ofBans := Call[S]{MaxWait: c.MaxWait}, make([]core.Decision, 0, len(decisions))
	for i := range c.Checks {
		if check := &c.Checks[i]; check.Shadow || algorithm.Bans(check.Limit) {
			own.Append(*check, c.Terms[i])
			ofBans = append(ofBans, decisions[i])
		}
	}
	return own, ofBans
}
