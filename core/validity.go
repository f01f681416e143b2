package core

import (
	"time"

	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/exact"
)

// validateKept returns the reason why a call makes no sense if its charges are never given back.
func validateKept(checks []Check) error {
	for i := range checks {
		if c := &checks[i]; c.holds() {
			return invalid("core: the places of %s have to be given back: use Acquire, TryAcquire or Reserve", c.Limit)
		} else if c.ReserveFor > 0 && c.Mode == Charge {
			return invalid("core: units reserved for %v have to be settled: use Reserve", c.ReserveFor)
		}
	}
	return validate(checks)
}

// mostChecks is the greatest number of checks in a call: Redis decides them in about a millisecond, and serves no other
// command meanwhile.
const mostChecks = 256

// validate returns the reason why a call makes no sense, or nil.
func validate(checks []Check) error {
	if len(checks) == 0 {
		return invalid("core: a call needs at least one check")
	}
	if len(checks) > mostChecks {
		return invalid("core: a call of %d checks is longer than %d: split it", len(checks), mostChecks)
	}
	for i := range checks {
		if !checks[i].plain() {
			if err := validateOne(checks, i); err != nil {
				return err
			}
		}
		if len(checks) > fewChecks {
			continue
		}
		for j := range checks[:i] {
			if sameState(&checks[i], &checks[j]) { //nolint:gosec // both are in the list
				if err := validateTogether(checks, j, i); err != nil {
					return err
				}
			}
		}
	}
	if len(checks) <= fewChecks {
		return nil
	}
	return validateMany(checks)
}

// fewChecks is how many checks of a call are compared with each other; more of them are looked up.
const fewChecks = 16

// validateMany returns the reason why checks of a call do not go together, each of which makes sense.
func validateMany(checks []Check) (err error) {
	state := func(i int) exact.Key {
		return exact.Key{Subject: checks[i].Key, Identity: checks[i].Limit.known().Identity()}
	}
	call.Pairs(len(checks), state, func(earlier, later int) bool {
		if checks[earlier].Shadow == checks[later].Shadow {
			err = validateTogether(checks, earlier, later)
		}
		return err == nil
	})
	return err
}

// plain reports whether a check is certainly valid, as most checks are: it charges a key some units of a valid limit.
func (c *Check) plain() bool {
	return c.Limit != nil && c.Key != "" && c.Cost >= 0 && c.Mode == Charge && c.Undelayed|c.Headroom == 0 && c.ReserveFor == 0 && !c.Or &&
		c.Limit.known().Problem() == nil
}

// validateOne returns the reason why the check at a place makes no sense by itself.
func validateOne(checks []Check, place int) error {
	c := &checks[place]
	limit := specOf(c.Limit)
	switch {
	case c.Key == "":
		return invalid("core: the key is empty")
	case c.Cost < 0:
		return invalid("core: cost %d is negative", c.Cost)
	case c.Mode > OnDenial:
		return invalid("core: the check's mode is %s, want Charge, Condition, Look or OnDenial", c.Mode)
	case c.Mode == Look && c.Cost != 0:
		return invalid("core: a check that only looks costs nothing, and has a cost of %d", c.Cost)
	case c.Undelayed < 0:
		return invalid("core: %d undelayed units are negative", c.Undelayed)
	case c.Headroom < 0:
		return invalid("core: headroom %d is negative", c.Headroom)
	case c.Mode == Look && c.Headroom != 0:
		return invalid("core: a check that only looks leaves everything to others, and has a headroom of %d", c.Headroom)
	case limit.Problem() != nil:
		return invalid("core: %w", limit.Problem())
	case c.Or && (place == 0 || c.Shadow != checks[place-1].Shadow):
		return invalid("core: check %d is to be an alternative of the check before it: there is none, or only one of the two is a shadow", place)
	}
	if err := c.validateReserveFor(); err != nil {
		return err
	}
	if c.Undelayed > 0 && !limit.Delayed {
		return invalid("core: %d undelayed units of %s: only a Shaping limit delays, so leave Undelayed out or use core.Shaping", c.Undelayed, c.Limit)
	}
	if _, bans := c.Limit.(Bans); !bans && c.Mode == OnDenial {
		return invalid("core: the check's mode is OnDenial, and %s is no ban", c.Limit)
	} else if bans && c.Headroom > 0 {
		return invalid("core: a headroom of %d strikes: a ban has none", c.Headroom)
	}
	if !c.Or {
		return nil
	}
	for either := place - 1; either <= place; either++ {
		if _, bans := checks[either].Limit.(Bans); bans {
			return invalid("core: check %d is an alternative, and %s is a ban, which counts in any case", either, checks[either].Limit)
		}
	}
	return nil
}

// The bounds of a ReserveFor.
const (
	shortestReserved = time.Millisecond
	longestReserved  = 24 * time.Hour
)

// validateReserveFor returns the reason why the ReserveFor of a check makes no sense, or nil.
func (c *Check) validateReserveFor() error {
	if c.ReserveFor == 0 {
		return nil
	}
	if c.ReserveFor < shortestReserved || c.ReserveFor > longestReserved {
		return invalid("core: a check reserves for %v, want from %v to %v", c.ReserveFor, shortestReserved, longestReserved)
	}
	if reason := c.Limit.known().Algorithm.Unreserved(); reason != "" {
		return invalid("core: a check reserves for %v under %s, which %s: leave ReserveFor out", c.ReserveFor, c.Limit, reason)
	}
	return nil
}

// validateTogether returns the reason why two checks about one state may not be asked together, or nil.
func validateTogether(checks []Check, earlier, place int) error {
	d, c := &checks[earlier], &checks[place]
	limit, other := c.Limit.known(), d.Limit.known()
	_, bans := c.Limit.(Bans)
	switch {
	case limit.Units != other.Units || limit.Calendar != other.Calendar:
		return invalid("core: checks %d and %d ask the same key about one named limit with different numbers: %s and %s", earlier, place, d.Limit, c.Limit)
	case c.ReserveFor != d.ReserveFor && c.Mode == Charge && d.Mode == Charge:
		return invalid("core: checks %d and %d ask the same key about %s, and reserve for %v and %v", earlier, place, c.Limit, d.ReserveFor, c.ReserveFor)
	case bans && c.Mode != d.Mode && c.Mode != Look && d.Mode != Look:
		return invalid("core: checks %d and %d ask the same key about %s with the modes %s and %s", earlier, place, c.Limit, d.Mode, c.Mode)
	case isEither(checks, earlier) || isEither(checks, place):
		if c.Mode == Charge && d.Mode == Charge {
			return invalid("core: checks %d and %d charge the same key under %s, and one is an alternative: "+
				"which one is charged would depend on the other", earlier, place, c.Limit)
		}
	case (c.Mode == Condition) != (d.Mode == Condition):
		return invalid("core: checks %d and %d ask the same key about %s, and one is a condition", earlier, place, c.Limit)
	}
	return nil
}

// validateBan returns the reason why a ban by hand cannot have its length or its reason, or nil.
func validateBan(lasts time.Duration, reason string) error {
	const longestReason, longest = 200, 10 * 365 * 24 * time.Hour
	if lasts < time.Microsecond || lasts > longest {
		return invalid("core: a ban of %v is not from 1µs to %v", lasts, longest)
	}
	if len(reason) > longestReason {
		return invalid("core: a reason of %d bytes is longer than %d", len(reason), longestReason)
	}
	return nil
}
