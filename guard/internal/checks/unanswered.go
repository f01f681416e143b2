package checks

import (
	"errors"
	"slices"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/alternatives"
)

// Mode decides about a request when the store cannot answer a check. No policy has the zero value.
type Mode int

// The modes: see the ErrorMode of package guard.
const (
	FailOpen = iota + 1
	FailClosed
	Fallback
)

// Stricter returns the mode of two that lets less through.
func Stricter(a, b Mode) Mode {
	for _, mode := range [...]Mode{FailClosed, Fallback} {
		if a == mode || b == mode {
			return mode
		}
	}
	return FailOpen
}

// Part parts a call into the checks that were not answered, as an error says, and the rest. If one of several
// alternatives was not, none was. Shadow checks are left out: it is unknown whether they have been charged.
func (c Call[S]) Part(err error) (lost, rest Call[S]) {
	unanswered, ok := errors.AsType[*core.UnansweredError](err)
	all := !ok || len(unanswered.Checks) == 0
	rest.MaxWait = c.MaxWait
	for i := range c.Checks {
		if c.Checks[i].Shadow {
			continue
		}
		first, end := alternatives.Of(c.Checks, i, isOr)
		if all || slices.ContainsFunc(unanswered.Checks, func(place int) bool { return first <= place && place < end }) {
			lost.Append(c.Checks[i], c.Terms[i])
		} else {
			rest.Append(c.Checks[i], c.Terms[i])
		}
	}
	return lost, rest
}

// And returns two calls as one.
func (c Call[S]) And(other Call[S]) Call[S] {
	return Call[S]{Checks: slices.Concat(c.Checks, other.Checks), Terms: slices.Concat(c.Terms, other.Terms)}
}

// Overloaded has a mode decide about a part of a call, in place of its policies' own, after an error that is
// [core.Overloaded]. Where other servers have failed besides, it is not known which checks are theirs: the stricter one
// of both modes decides.
func (c Call[S]) Overloaded(part Call[S], mode Mode, err error) {
	alone := nothingElse(err)
	for i := range part.Checks {
		own := &part.Terms[i].Mode
		if alone {
			*own = mode
		} else {
			*own = Stricter(*own, mode)
		}
		if index := c.Find(&part.Checks[i]); index >= 0 {
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

// FailClosed has the policies with the mode Fallback of a part of a call fail closed.
func (c Call[S]) FailClosed(part Call[S]) {
	for i := range part.Checks {
		if index := c.Find(&part.Checks[i]); part.Terms[i].Mode == Fallback && index >= 0 {
			c.Terms[index].Mode = FailClosed
		}
	}
}

// FailsClosed reports whether one of the policies of a call fails closed.
func (c *Call[S]) FailsClosed() bool {
	return slices.ContainsFunc(c.Terms, func(t Terms[S]) bool { return t.Mode == FailClosed })
}

// Local returns the checks of a call that this process decides about: all with the mode Fallback but bans, which are
// not invented.
func (c *Call[S]) Local() (own Call[S]) {
	for i := range c.Checks {
		if c.Terms[i].Mode == Fallback && !c.Terms[i].Bans {
			own.Append(c.Checks[i], c.Terms[i])
		}
	}
	return own
}
