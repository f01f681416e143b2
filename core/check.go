package core

import (
	"fmt"
	"time"

	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/exact"
)

// Check asks: may Cost units pass under Limit for Key?
type Check struct {
	// Key names the client or thing that is limited: "ip:203.0.113.9", "user:42". It may be any non-empty string; long or
	// unprintable ones are hashed by the store.
	Key string
	// Limit is the limit to ask.
	Limit Limit
	// Cost is the number of units to ask for. The default is 1; a negative cost is an error. To ask
	// for nothing, set Mode to [Look].
	Cost int
	// Mode tells how the units are asked for. The default is [Charge].
	Mode Mode
	// Shadow makes the check a call of its own that travels with the others. It is
	// decided alone and charged to a state of its own: it neither denies the other
	// checks nor is spared when they are denied. If it alone cannot be answered, its
	// Decision is Degraded and has nothing but the Limit: that is no denial.
	Shadow bool
	// Undelayed is the number of units of a [Shaping] limit's queue that pass without a Delay, like nginx's "delay=": the
	// first unit of a burst and this many behind it pass at once, and the others at the limit's pace. The default is 0,
	// which delays all but the first. With any other limit it is an error.
	Undelayed int
	// Headroom is how many units have to be left after the charge. The check passes only if its Cost and
	// its Headroom fit together, and is charged the Cost alone. So less important traffic leaves something
	// for traffic that asks for the same key and limit with less: where batch jobs ask with a Headroom of 200 and
	// users with 0, batch jobs stop while 200 units are left for users, who never notice them.
	//
	// The default is 0, which leaves nothing for others. A negative Headroom is an error ([ErrInvalid]), and so
	// is one with [Look], which asks for nothing. If Cost and Headroom exceed the capacity together, the check is
	// denied with a RetryAfter of [Never]. A [Condition] passes if both would fit.
	//
	// RetryAfter is the wait until both fit. The other numbers of the [Decision] are those of the limit:
	// Remaining counts the units that this check has to leave for others, too. Each check of a
	// key and limit in a call has its own Headroom, on top of its own cost and of those before it.
	// Settlements, refunds and the Delay of a [Shaping] limit know nothing of it.
	Headroom int
	// Or makes the check an alternative of the one before it in the call: see [FirstOf], which sets it. The default is no
	// alternative. With Or, the first check of a call is an error ([ErrInvalid]), and so is a check with another Shadow
	// than the check before it.
	Or bool
	// ReserveFor is for how long [Limiter.Reserve] reserves the units. If they are not settled by then, on the store's
	// clock, the store takes the process that has reserved them for dead and gives them back as if they had been settled
	// at 0. That happens once, and by itself, when the next check of the key and limit that has a ReserveFor is decided.
	// Other checks do not look, and cost no more than ever: they find the units used until then.
	//
	// A call, and a settlement of such reservations, gives back 4 at most, the latest to end, so that it does not hold
	// the store up. The rest stays charged until later ones: meanwhile the key has less left than it should, never more.
	// A reservation that has not been given back yet can still be settled as if its time were not over.
	//
	// It is right for tokens per minute. It is wrong for money, since a process that has died has spent that all the
	// same. Make it longer than the longest request: a settlement that comes after the units were given back charges the
	// whole real cost, as of now.
	//
	// The default is 0, which reserves for good. Any other time has to be from a millisecond to a day ([ErrInvalid]). It
	// is an error under a [Concurrent] limit, which has its lease, a [Shaping] one, which hands turns on, or a [Calendar]
	// one. Checks of a call about one key and limit have the same one. Verbs with charges that cannot be settled do not
	// take it. For a check that is not charged it means nothing.
	ReserveFor time.Duration
}

// Mode tells how a [Check] asks for its units.
type Mode uint8

const (
	// Charge charges the units if the call passes.
	Charge Mode = iota
	// Condition lets the call pass only if the units fit, and charges nothing for them. A condition
	// may not ask about the same key and limit as a check that is charged, unless it is an
	// alternative ([FirstOf]).
	Condition
	// Look tells the numbers and is always allowed. It charges nothing and creates no key. The Cost
	// of such a check is 0.
	Look
	// OnDenial lets the call pass only if no ban is in force, and strikes if the call is denied all the same: by
	// another check that is neither a ban nor a shadow. It is for the limit of a [Ban] alone, and the Cost is how many
	// strikes a denial is. They are made in the same round trip. It is the one thing that a denied call charges.
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

// Units returns how many units a check asks for: its Cost, or 1 where that is 0, and none if it only
// looks.
func (c *Check) Units() int {
	switch {
	case c.Mode == Look:
		return 0
	case c.Cost == 0:
		return 1
	}
	return c.Cost
}

// asksBan reports whether a check asks about a ban without charging it.
func (c *Check) asksBan() bool {
	return (c.Mode == Condition || c.Mode == OnDenial) && c.bans()
}

// bans reports whether a check is about a ban.
func (c *Check) bans() bool {
	_, bans := c.Limit.(Bans)
	return bans
}

// reserves reports whether the charge of a check is given back by itself unless it is settled in time.
func (c *Check) reserves() bool {
	return c.ReserveFor > 0 && c.Mode == Charge && c.Limit != Unlimited
}

// spec returns the spec under which a check counts.
func (c *Check) spec() *exact.Spec {
	if c.Shadow {
		return c.Limit.known().Shadow().For(c.Key)
	}
	return c.Limit.known().For(c.Key)
}

// sameState reports whether two checks are answered from one state.
func sameState(a, b *Check) bool {
	return a.Key == b.Key && a.Shadow == b.Shadow && a.Limit.known().Identity() == b.Limit.known().Identity()
}

// checkOf returns a check for n units, which may be 0.
func checkOf(key string, limit Limit, n int) Check {
	c := Check{Key: key, Limit: limit, Cost: n}
	if n == 0 {
		c.Mode = Look
	}
	return c
}

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

// mostOldest is the greatest number of places of any holders that a call gives back. Redis took 0.4 ms for as
// many, of 20,000 holders, where it took 0.1 ms for one.
const mostOldest = 256

// validateRefunds returns the reason why units of some checks cannot be given back.
func validateRefunds(checks []Check) error {
	places := 0
	for i := range checks {
		c := &checks[i]
		if !c.bare() {
			return invalid("core: check %d gives units back, and has more than a key, a limit, a cost and a shadow", i)
		}
		if c.holds() {
			places += min(c.Units(), mostOldest+1)
		}
	}
	if places > mostOldest {
		return invalid("core: more than %d places are to be given back at once: split the call", mostOldest)
	}
	return validate(checks)
}

// validateCharges returns the reason why some checks cannot be charged without room for them.
func validateCharges(checks []Check) error {
	for i := range checks {
		c := &checks[i]
		if !c.bare() {
			return invalid("core: check %d charges what is not left, too, and has more than a key, a limit, a cost and a shadow", i)
		}
		if _, quota := c.Limit.(Quota); c.Limit != nil && !quota {
			return invalid("core: check %d charges what is not left, too, which %s cannot: it is no Quota", i, c.Limit)
		}
	}
	return validate(checks)
}

// bare reports whether a check has a key, a limit, a cost and a shadow alone.
func (c *Check) bare() bool {
	return *c == Check{Key: c.Key, Limit: c.Limit, Cost: c.Cost, Shadow: c.Shadow}
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
		c.Limit.known().Plain
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
	if limit.Shared {
		if err := validateShare(checks, place); err != nil {
			return err
		}
	}
	if c.Undelayed > 0 && !limit.Delayed {
		return invalid("core: %d undelayed units of %s: only a Shaping limit delays, so leave Undelayed out or use core.Shaping", c.Undelayed, c.Limit)
	}
	if c.Mode == OnDenial && !c.bans() {
		return invalid("core: the check's mode is OnDenial, and %s is no ban", c.Limit)
	}
	if c.Headroom > 0 && c.bans() {
		return invalid("core: a headroom of %d strikes: a ban has none", c.Headroom)
	}
	if !c.Or {
		return nil
	}
	for either := place - 1; either <= place; either++ {
		if checks[either].bans() {
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
	switch {
	case limit.Units != other.Units || limit.Calendar != other.Calendar:
		return invalid("core: checks %d and %d ask the same key about one named limit with different numbers: %s and %s", earlier, place, d.Limit, c.Limit)
	case c.ReserveFor != d.ReserveFor && c.Mode == Charge && d.Mode == Charge:
		return invalid("core: checks %d and %d ask the same key about %s, and reserve for %v and %v", earlier, place, c.Limit, d.ReserveFor, c.ReserveFor)
	case c.bans() && c.Mode != d.Mode && c.Mode != Look && d.Mode != Look:
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
