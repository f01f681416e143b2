package denials

import (
	"slices"

	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/internal/alternatives"
)

// Known is the part of a call's answer that is known without the store.
type Known struct {
	// Denied is the set of the checks that are denied, a bit for each place: [Check.Repeated] is the answer to them.
	Denied uint64
	// Banned says that a ban is in force. Then nothing else matters, but for shadows.
	Banned bool
	// All says that the call is denied without the store: all checks are denied, or a ban is in force and none is a
	// shadow.
	All bool
}

// mostRepeated is how many checks a call that is looked up may have: one for each bit of a set.
const mostRepeated = 64

// Look looks a call up at an instant.
func (d *Denials) Look(checks []Check, now int64) (known Known) {
	if len(checks) > mostRepeated {
		return Known{}
	}
	known.All = true
	bans := false
	for first := 0; first < len(checks); {
		end := alternatives.End(checks, first, (*Check).isOr)
		denied := true // all alternatives are, each of which may let the call pass
		for i := first; i < end; i++ {
			c := &checks[i]
			if c.Reserves || c.Spec.Shared || i > 0 && met(checks, i) {
				// Only the store knows which reservations of others are over. The costs of checks with one state add up. A share is
				// not asked without its cap.
				return Known{}
			}
			bans = bans || c.OfBan
			denied = denied && !c.Spec.IsShadow() && !c.looks() && d.repeat(c, now)
		}
		known.All = known.All && denied
		for i := first; i < end && denied; i++ {
			known.Denied |= 1 << i
		}
		first = end
	}
	if bans {
		known.heedBans(checks)
	}
	return known
}

// heedBans completes the known part of a call by the denials of its bans. If only another check is known to be denied,
// the store has to know, since that may be a strike.
func (k *Known) heedBans(checks []Check) {
	shadows, bans, strikes := false, false, false
	for i := range checks {
		c := &checks[i]
		shadow := c.Spec.IsShadow()
		shadows = shadows || shadow
		if c.OfBan {
			strikes = strikes || c.OnDenial || c.charges() && c.Spec.Extends()
			if !c.looks() && !shadow {
				bans, k.Banned = true, k.Banned || k.Denied&(1<<i) != 0
			}
		}
	}
	switch {
	case k.Banned:
		k.All = k.All || !shadows
	case bans && strikes:
		*k = Known{}
	}
}

// Begin is called before a call is sent to the store. Changes from now on keep its denials from being remembered.
func (d *Denials) Begin(checks []Check) {
	for i := range checks {
		d.noticeNumbers(&checks[i])
	}
	for i := range checks {
		d.begin(&checks[i])
	}
}

// Charged is called when a call may have been charged.
func (d *Denials) Charged(checks []Check) {
	d.answered(checks)
	for i := range checks {
		if !checks[i].looks() {
			d.noticeCharge(&checks[i])
		}
	}
}

// Denied is called when a call that was sent at an instant was denied. answer returns the answer to the check at a
// place, and whether that is denied.
func (d *Denials) Denied(checks []Check, sent int64, answer func(place int) (told Denial, denied bool)) {
	d.answered(checks)
	received := d.Now()
	for i := range checks {
		c := &checks[i]
		if c.Spec.IsShadow() || met(checks, i) || c.Reserves || c.Spec.Shared || c.Spec.Extends() || !c.writes() {
			continue // without a write the store repairs no state, so that the wait may stand still
		}
		if told, denied := answer(i); denied {
			d.remember(c, told, sent, received)
		}
	}
}

// answered notes the further changes that an answered call may have made.
func (d *Denials) answered(checks []Check) {
	for i := range checks {
		d.noticeNumbers(&checks[i]) // again: there may have been calls with other numbers meanwhile
		if checks[i].Reserves {
			d.Forget(checks[i].Key, checks[i].Spec) // the reserved units of others may have come back
		}
	}
}

// Writes reports whether the store may write a state for a call, and so repair it. Denials of other calls are not
// remembered.
func Writes(checks []Check) bool {
	return slices.ContainsFunc(checks, func(c Check) bool { return c.writes() })
}

func (c *Check) isOr() bool { return c.Or }

func (c *Check) looks() bool { return c.Units == 0 }

func (c *Check) charges() bool { return !c.looks() && !c.Condition && !c.OnDenial }

func (c *Check) writes() bool {
	return c.charges() || (c.Condition || c.OnDenial) && c.OfBan
}

// met reports whether a check has the same state as an earlier one, so that their costs add up, as those of
// alternatives do not.
func met(checks []Check, place int) bool {
	own := &checks[place]
	for i := range checks[:place] {
		if other := &checks[i]; own.Key == other.Key && own.Spec.Identity() == other.Spec.Identity() &&
			!alternatives.Several(checks, place, (*Check).isOr) && !alternatives.Several(checks, i, (*Check).isOr) {
			return true
		}
	}
	return false
}

// Notice forgets the denials that are due to charges which have been given back.
func (d *Denials) Notice(givenBack []call.Correction) {
	for i := range givenBack {
		d.Forget(givenBack[i].Key, givenBack[i].Spec)
	}
}
