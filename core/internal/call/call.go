// Package call is a call as a store decides it: checks in groups, each of which passes as a whole or not at all. A store
// writes its observation of each check, and this package works out which groups pass, and the answers.
//
// The package knows no store, no lock and no clock. A Call belongs to one goroutine at a time.
package call

import (
	"context"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/weir-go/ratelimit/core/internal/exact"
	"github.com/weir-go/ratelimit/internal/alternatives"
)

// Check is one check of a call: may Units pass under a Spec for a Key?
type Check struct {
	// Key is the caller's key.
	Key string
	// Spec is the limit. A shadow check has the spec that shadows count under.
	Spec *exact.Spec
	// Units is how many units the check asks for. A check of 0 units only looks.
	Units int
	// Undelayed is how many units of a queue cause no delay: see [exact.Spec.Delay].
	Undelayed int
	// Headroom is how many units have to stay free beside the cost. [Call.Set] makes it the capacity if
	// it is more.
	Headroom int
	// Condition says that the units must fit and are not charged.
	Condition bool
	// OnDenial says that the units must fit and are charged only if the call is denied, though by no ban: they
	// are strikes. Of several such checks on one state it is the last. See [Check.Struck].
	OnDenial bool
	// Or says that the check is an alternative of the one before it: of checks that are alternatives of
	// each other, the first that fits is charged.
	Or bool

	// Index is the place of the check in the call of the caller.
	Index int
	// Cost is the charge in events: the units of this check and of those before it on the same state, or one more than
	// the capacity if that is less. [Check.Need] has to fit. An alternative asks for its own units alone, and other
	// checks do not add them to theirs.
	Cost int
	// Charge says that the state is written with Cost charged if the group passes and the check is not
	// Waived. Of several checks on one state it is the last.
	Charge bool
	// Either says that the check is one of several alternatives.
	Either bool
	// Costs are the costs of a call that is made several times, each time with another cost: Cost
	// is the first of them. It is nil if the cost is the same each time.
	Costs []int
	// InOrder says that each time is a call of its own, which is settled by itself, and not all of them together.
	InOrder bool

	// Usage is the store's observation.
	Usage exact.Usage
	// Fits says whether Need fits: see [Decide].
	Fits bool
	// Waived says that another alternative, the first that fits, takes the place of the check.
	Waived bool
	// Unanswered says that a store could not decide the check. Only a shadow check can be left
	// without an answer, since the call does not depend on it.
	Unanswered bool
	// Charged is when the check was charged, for the settlement.
	Charged exact.Charge
	// Holder takes the places, or has the reservation, if the check is charged.
	Holder exact.Holder
	// ReserveFor is for how many microseconds the charge is reserved: it is given back then, unless it is settled
	// before. 0 means for good.
	ReserveFor int64

	// Settled says that the check may be settled: see [Check.Noted].
	Settled bool

	// Struck says that the check has charged strikes because its group did not pass: see [Decide].
	Struck bool
	// Waiter registers the call among the waiters for the check's units or places, if it is denied. A nil Waiter
	// registers none. A store without an order of its own ignores it.
	Waiter *Waiter

	repair bool           // the state has to be mended: see Resolve
	found  *exact.Product // of a share: see Resolve
}

// Waiter is a call that waits, as a store keeps its place in the order of the fleet.
type Waiter struct {
	// Age is for how many microseconds it has waited.
	Age int64
	// Since is the instant with which it is registered. It is 0 before, and set by the store.
	Since int64
	// ID names its line, and the process to which that belongs.
	ID string
}

// AppendName appends the name of a waiter that is registered.
func (w *Waiter) AppendName(b []byte) []byte {
	digits := strconv.FormatInt(w.Since, 10)
	for range max(0, 16-len(digits)) {
		b = append(b, '0')
	}
	return append(append(append(b, digits...), ' '), w.ID...)
}

// StateKey returns the key of the state that the check is about.
func (c *Check) StateKey() exact.Key { return StateKey(c.Key, c.Spec) }

// StateKey returns the key of the state that a caller's key has under a spec.
func StateKey(key string, spec *exact.Spec) exact.Key {
	return exact.Key{Subject: Shorten(key), Identity: spec.Identity()}
}

// Need returns how many events have to fit for the check to pass: its cost and its headroom, or less if more makes no difference.
func (c *Check) Need() int {
	return min(c.Cost+c.Headroom, c.Spec.MostNeeded)
}

// Looks reports whether the check asks for nothing but the numbers.
func (c *Check) Looks() bool { return c.Units == 0 }

// Shadow reports whether the check is a shadow: a group of its own.
func (c *Check) Shadow() bool { return c.Spec.IsShadow() }

// SameState reports whether two checks are answered from one state.
func SameState(a, b *Check) bool {
	return a.Key == b.Key && a.Spec.Identity() == b.Spec.Identity()
}

// Call is a list of checks as a store has to decide them: in groups, one after the other. The checks
// that depend on each other are one group and come first; each shadow check is a group of its own, but
// shadow checks that are alternatives of each other are one group.
type Call struct {
	Checks []Check
	Groups [][]Check // slices of Checks
	// Times is how often the call is made; 0 is once. As many are granted as fit, one after the other.
	// A call that is made several times has no shadow checks, no alternatives, and no two checks about one
	// state.
	Times int
	// Granted is how many of Times have been granted.
	Granted int
	// Settled says that the call may be settled, so that it matters when it was charged.
	Settled bool
}

// Empty makes a call ready to be used again. A new call is empty.
func (c *Call) Empty() {
	clear(c.Checks)
	clear(c.Groups)
	c.Checks, c.Groups, c.Times, c.Granted, c.Settled = c.Checks[:0], c.Groups[:0], 0, 0, false
}

// Set makes an empty call one of n checks. check fills in the one at a place, and Set adds its Index, its Cost and the
// fields after these.
func (c *Call) Set(n int, check func(place int, own *Check)) {
	c.Checks = slices.Grow(c.Checks, n)[:n] // so that groups stay slices of it; an empty call has zeros there
	for i := range n {
		own := &c.Checks[i]
		check(i, own)
		own.Index = i
		own.Headroom = min(own.Headroom, own.Spec.Capacity)
		own.Cost = min(own.Units, own.Spec.Capacity+1)
		if own.Spec.Shared {
			own.Headroom = own.Spec.WeighHeadroom(own.Headroom)
		}
		own.Charge = own.Units > 0 && !own.Condition && !own.OnDenial
	}
	if n == 1 {
		c.Groups = append(c.Groups, c.Checks)
		return
	}
	c.group()
}

// group puts several checks in groups, and adds up the costs of those on one state.
func (c *Call) group() {
	n, gated := len(c.Checks), 0
	for i := range n {
		if !c.Checks[i].Shadow() {
			gated++
		}
	}
	if gated < n {
		slices.SortStableFunc(c.Checks, shadowsLast)
	}
	for i := 1; i < n; i++ {
		if c.Checks[i].Or {
			c.Checks[i-1].Either, c.Checks[i].Either = true, true
		}
	}
	pairs(c.Checks[:gated], func(earlier, later int) bool {
		c.addUp(earlier, later)
		return true
	})
	if gated > 0 {
		c.Groups = append(c.Groups, c.Checks[:gated:gated])
	}
	for i := gated; i < n; {
		end := EndOf(c.Checks, i)
		if end < n && c.Checks[end].Spec.Shared { // beside its cap
			end++
		}
		c.Groups = append(c.Groups, c.Checks[i:end:end])
		i = end
	}
}

// shadowsLast puts shadow checks behind the others.
func shadowsLast(a, b Check) int {
	switch {
	case a.Shadow() == b.Shadow():
		return 0
	case a.Shadow():
		return 1
	}
	return -1
}

// EndOf returns the place behind the alternatives of which a check is the first. A check without alternatives is the
// only one.
func EndOf(checks []Check, first int) int { return alternatives.End(checks, first, (*Check).isOr) }

func (c *Check) isOr() bool { return c.Or }

// addUp adds the cost of an earlier check to a later one on the same state. Alternatives are left aside: which of them is
// charged depends on which fits.
func (c *Call) addUp(earlier, later int) {
	before, own := &c.Checks[earlier], &c.Checks[later]
	if own.Either || before.Either || before.Units == 0 {
		return
	}
	own.Cost = min(own.Cost+min(before.Units, own.Spec.Capacity+1), own.Spec.Capacity+1)
	before.Charge = before.Charge && own.Looks()
	before.OnDenial = before.OnDenial && own.Looks()
}

// MaySettle says that some checks of a call may be settled.
func MaySettle(checks []Check) {
	for i := range checks {
		checks[i].Settled = true
	}
}

// Noted reports whether the charge of the check is noted, because its settlement needs the note.
func (c *Check) Noted() bool { return c.Settled && c.Charge && c.Spec.Noted }

// SetNumber sets the number under which the charge of a check was noted: in the check, and in the others of its group on
// the same state, which were charged with it.
func SetNumber(group []Check, place int, number int64) {
	for i := range group {
		if i == place || !group[i].Either && SameState(&group[i], &group[place]) {
			group[i].Charged.Order = number
		}
	}
}

// Passed reports whether the call passed: each check but for shadows fits or is waived.
func (c *Call) Passed() bool {
	for i := range c.Checks {
		if own := &c.Checks[i]; !own.Shadow() && !own.Fits && !own.Waived {
			return false
		}
	}
	return true
}

// Charges reports whether a group that has passed has charged anything.
func Charges(group []Check) bool {
	return slices.ContainsFunc(group, func(c Check) bool { return c.Charge && !c.Waived })
}

// Alone reports whether a group can only be asked one time after the other: if it takes places, each time has
// a holder of its own, if it may strike, a ban may begin in between, of alternatives another one may be charged
// each time, and of a cap each time leaves less to share.
func Alone(group []Check) bool {
	return slices.ContainsFunc(group, func(c Check) bool {
		return c.OnDenial || c.Either || c.Charge && !c.Spec.Counted || c.Spec.Shared
	})
}

// Meet reports whether two checks are about one state. Then the call cannot be made several times at
// once, since their costs add up.
func Meet(groups [][]Check) (meet bool) {
	for _, group := range groups {
		if len(group) == 1 {
			continue
		}
		pairs(group, func(int, int) bool {
			meet = true
			return false
		})
	}
	return meet
}

// Decide works out whether the need of each check of a group fits in the observed usage, and reports whether the group
// passes: all fit, or, of alternatives, one. Then it notes the usage of each check after the charge.
func Decide(group []Check) (pass bool) {
	if len(group) == 1 {
		return group[0].Decide()
	}
	for i := range group {
		c := &group[i]
		need := c.Need()
		c.Fits = c.Looks() || need <= c.Spec.MostFitting && c.Spec.Fits(c.Usage, need)
	}
	pass = choose(group)
	banned := !pass && Banned(group)
	for i := range group {
		c := &group[i]
		c.Struck = c.OnDenial && !pass && !banned
		c.Charged.Used = c.Usage.Used
		if pass && c.Charge && !c.Waived {
			c.Charged.Used = c.used()
		}
	}
	if pass {
		pairs(group, func(earlier, later int) bool { // the last of several checks on one state has charged them all
			if e, l := &group[earlier], &group[later]; l.Charge && !l.Waived {
				e.Charged.Used = l.Charged.Used
			} else if e.Charge && !e.Waived {
				l.Charged.Used = e.Charged.Used
			}
			return true
		})
	}
	return pass
}

// Decide is [Decide] of a check that is its group.
func (c *Check) Decide() (pass bool) {
	need := c.Need()
	c.Fits = c.Units == 0 || need <= c.Spec.MostFitting && c.Spec.Fits(c.Usage, need)
	c.Charged.Used, c.Waived = c.Usage.Used, false
	c.Struck = c.OnDenial && !c.Fits && !c.Spec.Bars(c.Usage)
	if c.Fits && c.Charge && c.Settled { // only a settlement needs it
		c.Charged.Used = c.used()
	}
	return c.Fits
}

// Banned reports whether a ban is in force that a check of a group asks about. [Decide] has been called.
func Banned(group []Check) bool {
	return slices.ContainsFunc(group, func(c Check) bool { return !c.Fits && c.Spec.Bars(c.Usage) })
}

// Strikes returns the corrections that make the strikes of a group after a denial elsewhere: the checks of the call are
// in several places, and each place knows only its own.
func Strikes(group []Check) (list []Correction) {
	for i := range group {
		if c := &group[i]; c.Struck || c.extends() {
			list = append(list, Correction{Correction: exact.Correction{Events: c.Cost}, Key: c.Key, Spec: c.Spec})
		}
	}
	return list
}

// choose has the first of alternatives that fits waive the others, and reports whether the group passes.
func choose(group []Check) (pass bool) {
	pass = true
	for first := 0; first < len(group); {
		end := EndOf(group, first)
		chosen := alternatives.Fitting(first, end, func(i int) bool { return group[i].Fits })
		for i := first; i < end; i++ {
			group[i].Waived = chosen >= 0 && i != chosen
		}
		pass = pass && chosen >= 0
		first = end
	}
	return pass
}

// used returns the used units of a meter after the charge of a check, or the number that the settlement of a share needs: see [exact.Charge].
func (c *Check) used() int64 {
	if c.Spec.Shared { // the settlement of a share needs something else
		return c.Usage.Fourth
	}
	return c.Usage.Used + c.Spec.Weigh(c.Cost)
}

// Copy returns a deep copy of groups.
func Copy(groups [][]Check) [][]Check {
	own := make([][]Check, len(groups))
	for i, group := range groups {
		own[i] = slices.Clone(group)
	}
	return own
}

// Receipt is a charge as a store needs it for a settlement. Users carry it; its numbers mean nothing to them.
type Receipt struct {
	At   int64
	Note [4]int64
}

// Receipt returns the receipt for a check that has been decided.
func (c *Check) Receipt() Receipt {
	return Receipt{At: c.Charged.At, Note: [4]int64{c.Charged.Used, c.Charged.Order, c.Holder[0], c.Holder[1]}}
}

// Answer is the answer to a check. [Never] is the Retry of a need that exceeds the capacity.
type Answer struct {
	Allowed                   bool
	Remaining                 int
	Retry, Next, Reset, Delay time.Duration
	// Token is that of the places that were taken, or 0.
	Token int64
	// Estimated says that Retry is a guess.
	Estimated bool
	// Began says that strikes have begun a ban.
	Began bool
}

// Never is the wait of a check that can never pass.
const Never time.Duration = math.MaxInt64

// Answer returns the answer to a check, given whether its group passed. peek says that the group charges
// nothing: then the answer has the delay even if another check does not fit.
func (c *Check) Answer(pass, peek bool) (a Answer) {
	if a.Allowed = c.Fits; c.Waived {
		pass, peek = false, false
	}
	switch {
	case !a.Allowed && (c.Need() > c.Spec.MostFitting || c.Spec.Prepaid):
		a.Retry = Never
	case !a.Allowed:
		wait, guess := c.Spec.Wait(c.Usage, c.Need())
		a.Retry, a.Estimated = time.Duration(wait)*time.Microsecond, guess
	case c.Spec.Delayed && !c.Looks() && (pass || peek): // served after all that came before
		a.Delay = time.Duration(c.Spec.Delay(c.Spec.Charged(c.Usage, c.Cost-c.Units), c.Undelayed)) * time.Microsecond
	}
	after := c.After(pass && !peek)
	if !c.Spec.Counted {
		c.answerKind(&a, pass)
	}
	remaining, next, reset := c.Spec.Left(after)
	a.Remaining, a.Next, a.Reset = remaining, time.Duration(next)*time.Microsecond, time.Duration(reset)*time.Microsecond
	return a
}

// answerKind sets the parts of an answer that only places and bans have.
func (c *Check) answerKind(a *Answer, pass bool) {
	if !c.Looks() && !c.Condition && pass {
		a.Token = c.Spec.Token(c.Usage, c.Charged.At)
	}
	a.Began = (c.Struck || c.Charge && pass) && c.Spec.Begins(c.Usage, c.Cost)
}

// After returns the usage after the decision, given whether the group passed.
func (c *Check) After(pass bool) exact.Usage {
	if c.Struck || pass && !c.Waived && c.Cost > 0 && !c.Condition && !c.OnDenial {
		return c.Spec.Charged(c.Usage, c.Cost)
	}
	return c.Usage
}

// Reservation returns the open reservation of a check in a group that has passed at an instant.
func (c *Check) Reservation(now int64) exact.Reservation {
	at := c.Charged
	at.Used = c.used()
	return exact.Reservation{Holder: c.Holder, Until: now + c.ReserveFor, Events: c.Cost, Charge: at, Spec: c.Spec}
}

// Store keeps states and decides calls. It may be used by many goroutines at once. core.Store documents the methods.
type Store interface {
	Decide(ctx context.Context, calls []*Call) (answered int, err error)
	Settle(ctx context.Context, list []Correction) error
	Reset(ctx context.Context, key string, specs []*exact.Spec) error
	Ping(ctx context.Context) error
	Close() error
}
