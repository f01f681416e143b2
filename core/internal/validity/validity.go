// Package validity says which calls make no sense, and why.
package validity

import (
	"errors"
	"fmt"
	"time"

	"github.com/weir-go/ratelimit/core/internal/exact"
)

// ErrInvalid is in the chain of each error of this package.
var ErrInvalid = errors.New("core: it makes no sense")

// Errorf returns an error that is [ErrInvalid].
func Errorf(format string, values ...any) error {
	return &invalidError{fmt.Errorf(format, values...)}
}

type invalidError struct{ error }

func (e *invalidError) Is(target error) bool { return target == ErrInvalid }
func (e *invalidError) Unwrap() error        { return e.error }

// Mode tells how a check asks for its units.
type Mode uint8

// The modes: see those of package core.
const (
	Charge Mode = iota
	Condition
	Look
	OnDenial
)

func (m Mode) String() string {
	switch m {
	case Charge:
		return "Charge"
	case Condition:
		return "Condition"
	case Look:
		return "Look"
	case OnDenial:
		return "OnDenial"
	}
	return fmt.Sprintf("Mode(%d)", uint8(m))
}

// Check is a check as its caller has written it.
type Check struct {
	Key                       string
	Limit                     *exact.Spec
	Cost, Undelayed, Headroom int
	Mode                      Mode
	Either                    bool // it is one of several alternatives
	Orphan                    bool // it is to be an alternative of a check that there is not
	ReserveFor                time.Duration
}

// Validate returns the reason why a check makes no sense by itself. place is its place in the call.
func (c *Check) Validate(place int) error {
	switch {
	case c.Key == "":
		return Errorf("core: the key is empty")
	case c.Cost < 0:
		return Errorf("core: cost %d is negative", c.Cost)
	case c.Mode > OnDenial:
		return Errorf("core: the check's mode is %s, want Charge, Condition, Look or OnDenial", c.Mode)
	case c.Mode == Look && c.Cost != 0:
		return Errorf("core: a check that only looks costs nothing, and has a cost of %d", c.Cost)
	case c.Undelayed < 0:
		return Errorf("core: %d undelayed units are negative", c.Undelayed)
	case c.Headroom < 0:
		return Errorf("core: headroom %d is negative", c.Headroom)
	case c.Mode == Look && c.Headroom != 0:
		return Errorf("core: a check that only looks leaves everything to others, and has a headroom of %d", c.Headroom)
	case c.Limit.Problem() != nil:
		return Errorf("core: %w", c.Limit.Problem())
	case c.Orphan:
		return Errorf("core: check %d is to be an alternative of the check before it: there is none, or only one of the two is a shadow", place)
	}
	if err := c.validateReserveFor(); err != nil {
		return err
	}
	switch algorithm := c.Limit.Algorithm; {
	case c.Undelayed > 0 && !algorithm.Delays():
		return Errorf("core: %d undelayed units of %s: only a Shaping limit delays, so leave Undelayed out or use core.Shaping", c.Undelayed, c.Limit)
	case c.Mode == OnDenial && !algorithm.Bans():
		return Errorf("core: the check's mode is OnDenial, and %s is no ban", c.Limit)
	case c.Either && algorithm.Bans():
		return Errorf("core: check %d is an alternative, and %s is a ban, which counts in any case", place, c.Limit)
	case c.Headroom > 0 && algorithm.Bans():
		return Errorf("core: a headroom of %d strikes: a ban has none", c.Headroom)
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
	const reserves = "core: a check reserves for %v "
	switch algorithm := c.Limit.Algorithm; {
	case c.ReserveFor == 0:
	case c.ReserveFor < shortestReserved || c.ReserveFor > longestReserved:
		return Errorf("core: a check reserves for %v, want from %v to %v", c.ReserveFor, shortestReserved, longestReserved)
	case algorithm.Holds():
		return Errorf(reserves+"under %s, which has a lease: leave ReserveFor out", c.ReserveFor, c.Limit)
	case algorithm.Bans():
		return Errorf(reserves+"under %s, which is a ban: leave ReserveFor out", c.ReserveFor, c.Limit)
	case algorithm.Delays():
		return Errorf(reserves+"under %s, which hands turns on: leave ReserveFor out", c.ReserveFor, c.Limit)
	case algorithm.Dated():
		return Errorf(reserves+"under %s, which has windows of a calendar: leave ReserveFor out", c.ReserveFor, c.Limit)
	}
	return nil
}

// Together returns the reason why two checks of one state, at two places of a call, may not be asked together, or nil.
func Together(earlier, place int, d, c *Check) error {
	switch {
	case c.Limit.Units != d.Limit.Units || c.Limit.Calendar != d.Limit.Calendar:
		return Errorf("core: checks %d and %d ask the same key about one named limit with different numbers: %s and %s", earlier, place, d.Limit, c.Limit)
	case c.ReserveFor != d.ReserveFor && c.Mode == Charge && d.Mode == Charge:
		return Errorf("core: checks %d and %d ask the same key about %s, and reserve for %v and %v", earlier, place, c.Limit, d.ReserveFor, c.ReserveFor)
	case c.Limit.Algorithm.Bans() && c.Mode != d.Mode && c.Mode != Look && d.Mode != Look:
		return Errorf("core: checks %d and %d ask the same key about %s with the modes %s and %s", earlier, place, c.Limit, d.Mode, c.Mode)
	case c.Either || d.Either:
		if c.Mode == Charge && d.Mode == Charge {
			return Errorf("core: checks %d and %d charge the same key under %s, and one is an alternative: "+
				"which one is charged would depend on the other", earlier, place, c.Limit)
		}
	case (c.Mode == Condition) != (d.Mode == Condition):
		return Errorf("core: checks %d and %d ask the same key about %s, and one is a condition", earlier, place, c.Limit)
	}
	return nil
}

// BanByHand returns the reason why a ban by hand cannot have its length or its reason, or nil.
func BanByHand(lasts time.Duration, reason string) error {
	const longestReason, longest = 200, 10 * 365 * 24 * time.Hour
	if lasts < time.Microsecond || lasts > longest {
		return Errorf("core: a ban of %v is not from 1µs to %v", lasts, longest)
	}
	if len(reason) > longestReason {
		return Errorf("core: a reason of %d bytes is longer than %d", len(reason), longestReason)
	}
	return nil
}
