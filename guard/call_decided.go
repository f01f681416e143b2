package guard

import (
	"errors"
	"slices"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/alternatives"
)

// onlyBans returns the checks of bans and shadows with their decisions, if a ban is in force, and otherwise all. The
// other decisions do not matter then, and have no numbers if the store was not asked.
func (c call) onlyBans(decisions []core.Decision) (call, []core.Decision) {
	inForce := false
	for i := range c.Checks {
		inForce = inForce || c.Terms[i].Bans && !c.Checks[i].Shadow && !decisions[i].Allowed
	}
	if !inForce {
		return c, decisions
	}
	own, ofBans := call{MaxWait: c.MaxWait}, make([]core.Decision, 0, len(decisions))
	for i := range c.Checks {
		if check := &c.Checks[i]; check.Shadow || c.Terms[i].Bans {
			own.append(*check, c.Terms[i])
			ofBans = append(ofBans, decisions[i])
		}
	}
	return own, ofBans
}

// part parts a call into the checks that were not answered, as an error says, and the rest. If one of several
// alternatives was not, none was. Shadow checks are left out: it is unknown whether they have been charged.
func (c call) part(err error) (lost, rest call) {
	unanswered, ok := errors.AsType[*core.UnansweredError](err)
	all := !ok || len(unanswered.Checks) == 0
	rest.MaxWait = c.MaxWait
	for i := range c.Checks {
		if c.Checks[i].Shadow {
			continue
		}
		first, end := alternatives.Of(c.Checks, i, isOr)
		if all || slices.ContainsFunc(unanswered.Checks, func(place int) bool { return first <= place && place < end }) {
			lost.append(c.Checks[i], c.Terms[i])
		} else {
			rest.append(c.Checks[i], c.Terms[i])
		}
	}
	return lost, rest
}

// and returns two calls as one.
func (c call) and(other call) call {
	return call{Checks: slices.Concat(c.Checks, other.Checks), Terms: slices.Concat(c.Terms, other.Terms)}
}

// overloaded has a mode decide about a part of a call, in place of its policies' own, after an error that is
// [core.Overloaded]. Where other servers have failed besides, it is not known which checks are theirs: the stricter one
// of both modes decides.
func (c call) overloaded(part call, mode ErrorMode, err error) {
	alone := nothingElse(err)
	for i := range part.Checks {
		own := &part.Terms[i].Mode
		if alone {
			*own = mode
		} else {
			*own = stricter(*own, mode)
		}
		if index := c.find(&part.Checks[i]); index >= 0 {
			c.Terms[index].Mode = *own
		}
	}
}

// nothingElse reports whether an error tells of nothing else than that this process is overloaded.
func nothingElse(err error) bool {
	if several, ok := errors.AsType[severalErrors](err); ok {
		return !slices.ContainsFunc(several.Unwrap(), func(one error) bool { return !errors.Is(one, core.Overloaded) })
	}
	return true
}

// severalErrors is the type that [errors.Join] returns.
type severalErrors interface {
	error
	Unwrap() []error
}

// failClosed has the policies with the mode Fallback of a part of a call fail closed.
func (c call) failClosed(part call) {
	for i := range part.Checks {
		if index := c.find(&part.Checks[i]); part.Terms[i].Mode == Fallback && index >= 0 {
			c.Terms[index].Mode = FailClosed
		}
	}
}

// failsClosed reports whether one of the policies of a call fails closed.
func (c *call) failsClosed() bool {
	return slices.ContainsFunc(c.Terms, func(t terms) bool { return t.Mode == FailClosed })
}

// local returns the checks of a call that this process decides about: all with the mode Fallback but bans, which are
// not invented.
func (c *call) local() (own call) {
	for i := range c.Checks {
		if c.Terms[i].Mode == Fallback && !c.Terms[i].Bans {
			own.append(c.Checks[i], c.Terms[i])
		}
	}
	return own
}
