package guard

import (
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/alternatives"
)

// errSameAlternative means that two checks which have alternatives are about one state, so that the charge of one would
// depend on that of the other.
var errSameAlternative = errors.New("two policies that have alternatives are one limit for this request")

// call is the checks of a request that are asked together: shadow checks last, and none that was charged before. All of
// them are charged, or none. A call belongs to one goroutine.
type call struct {
	Checks  []core.Check
	Terms   []terms // of each check
	MaxWait maxWait // for places
}

// callRoom is an empty call with memory to be used again: the checks of a call escape to the heap, since a store is given them.
type callRoom struct {
	call

	asked core.Call // as the store is given it; it is empty, too
}

var callRooms = sync.Pool{New: func() any { return new(callRoom) }}

// empty makes a room empty, and keeps its memory.
func (c *callRoom) empty() {
	clear(c.Checks)
	clear(c.Terms)
	clear(c.asked.Decisions)
	c.call = call{Checks: c.Checks[:0], Terms: c.Terms[:0]}
	c.asked.Checks, c.asked.Decisions = nil, c.asked.Decisions[:0]
}

// terms are the fields of a policy that its check needs after the decision.
type terms struct {
	limitKind // of the limit

	// Name is the policy's name, and Unit the unit that it counts.
	Name, Unit string
	// Mode decides if the store cannot answer.
	Mode ErrorMode
	// Settle returns the real cost of a request. If it is nil, the reserved cost is right.
	Settle func(*http.Request, Served) int
	// First says that the response waits for the settlement.
	First bool
	// TellBan says that a ban is told with 429 and Retry-After.
	TellBan bool
	// Share says that the check is about a tenant's share of the check before it.
	Share bool
}

// add adds a check to a call. If the call has a check of the same state, the two are one, unless that has alternatives.
func (c *call) add(check core.Check, t terms) {
	for i := range c.Checks {
		if sameState(&c.Checks[i], &check) && !c.isEither(i) {
			c.Terms[i].join(&c.Checks[i], t, &check)
			return
		}
	}
	c.append(check, t)
}

// addAlternatives adds checks that are alternatives of each other. They have one mode: the strictest of theirs.
func (c *call) addAlternatives(own call) {
	switch len(own.Checks) {
	case 0:
	case 1:
		c.add(own.Checks[0], own.Terms[0])
	default:
		mode := own.Terms[0].Mode
		for i := range own.Checks {
			own.Checks[i].Or = i > 0
			mode = stricter(mode, own.Terms[i].Mode)
		}
		for i := range own.Terms {
			own.Terms[i].Mode = mode
		}
		c.Checks, c.Terms = append(c.Checks, own.Checks...), append(c.Terms, own.Terms...)
	}
}

// append appends a check, without a look at the other checks of the call.
func (c *call) append(check core.Check, t terms) {
	c.Checks, c.Terms = append(c.Checks, check), append(c.Terms, t)
}

// find returns the place of the check of the same state, or -1.
func (c *call) find(check *core.Check) int {
	for i := range c.Checks {
		if sameState(&c.Checks[i], check) {
			return i
		}
	}
	return -1
}

// sameState reports whether two checks are about one state.
func sameState(a, b *core.Check) bool {
	return a.Key == b.Key && a.Shadow == b.Shadow && a.Limit.Identity() == b.Limit.Identity()
}

// chargeOnce has each limit of a call charged once. An alternative that is the same limit as a check beside the
// alternatives becomes the condition that it would fit. If dearest is set, the check beside it costs as much as the dearer
// one of the two, whichever alternative is charged. If both have alternatives, the error is errSameAlternative.
func (c *call) chargeOnce(dearest bool) error {
	for i := range c.Checks {
		check := &c.Checks[i]
		if !c.isEither(i) || check.Mode != core.Charge || check.Limit == core.Unlimited {
			continue
		}
		for j := range c.Checks {
			switch {
			case i == j || !sameState(check, &c.Checks[j]) || c.Checks[j].Mode != core.Charge:
			case c.isEither(j):
				return errSameAlternative
			default:
				if dearest {
					c.Terms[j].join(&c.Checks[j], c.Terms[i], check)
				}
				check.Mode, c.Terms[i].Settle = core.Condition, nil
				c.Terms[i].Name = c.Terms[j].Name
			}
		}
	}
	return nil
}

// isEither reports whether the check at a place is one of several alternatives.
func (c *call) isEither(place int) bool { return alternatives.Several(c.Checks, place, isOr) }

func isOr(c *core.Check) bool { return c.Or }

// knowsCost reports whether a policy knows the real cost.
func (c *call) knowsCost() bool {
	return slices.ContainsFunc(c.Terms, func(t terms) bool { return t.Settle != nil })
}

// remembered reports whether a call has to be remembered after it was answered.
func (c *call) remembered() bool {
	for i := range c.Checks {
		t := &c.Terms[i]
		turns := t.Delays && !c.Checks[i].Shadow // the request may have to be held until its turn
		if t.Settle != nil || turns || c.takesPlace(i) {
			return true
		}
	}
	return false
}

// join makes the checks of two policies one that satisfies both: it has the larger cost, before and after, the
// larger headroom, and the stricter mode for when the store cannot decide.
func (t *terms) join(check *core.Check, other terms, theirs *core.Check) {
	t.Mode = stricter(t.Mode, other.Mode)
	if t.Bans {
		check.Cost, check.Mode = max(check.Cost, theirs.Cost), sterner(check.Mode, theirs.Mode)
		t.Settle, t.TellBan = both(t.Settle, other.Settle), t.TellBan && other.TellBan
		return
	}
	t.First = t.First || other.First
	if t.Settle != nil || other.Settle != nil {
		own, others := settling(t.Settle, check.Cost), settling(other.Settle, theirs.Cost)
		t.Settle = func(r *http.Request, s Served) int { return max(own(r, s), others(r, s)) }
	}
	check.Cost = max(check.Cost, theirs.Cost)
	check.Mode = min(check.Mode, theirs.Mode) // it is charged if one of them is
	check.Undelayed = min(check.Undelayed, theirs.Undelayed)
	check.Headroom = max(check.Headroom, theirs.Headroom)
	if check.ReserveFor == 0 || theirs.ReserveFor == 0 { // for good, which is the longest
		check.ReserveFor = 0
	} else {
		check.ReserveFor = max(check.ReserveFor, theirs.ReserveFor)
	}
}

// sterner returns the mode that strikes more, of two checks about one ban.
func sterner(a, b core.Mode) core.Mode {
	for _, mode := range [...]core.Mode{core.Charge, core.OnDenial} {
		if a == mode || b == mode {
			return mode
		}
	}
	return core.Condition
}

// both returns the effect of a response on a ban that two policies share: the sum of the strikes, unless one of them forgives,
// with less than 0. A nil function does nothing.
func both(a, b func(*http.Request, Served) int) func(*http.Request, Served) int {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return func(r *http.Request, s Served) int {
		own, others := a(r, s), b(r, s)
		if forgiven := min(own, others); forgiven < 0 {
			return forgiven
		}
		return own + others
	}
}

// settling returns the function for the real cost of a policy's request: the reserved cost,
// if the policy has no Settle.
func settling(settle func(*http.Request, Served) int, cost int) func(*http.Request, Served) int {
	if settle == nil {
		return func(*http.Request, Served) int { return cost }
	}
	return func(r *http.Request, s Served) int {
		s.Cost = cost // its own, not that of the policy that it shares a check with
		return settle(r, s)
	}
}

// takesPlace reports whether the check at a place of the call takes places of its limit if it passes.
func (c *call) takesPlace(at int) bool {
	return c.Terms[at].Places && c.Checks[at].Mode == core.Charge
}

// takesPlaces reports whether one of the checks of a call, shadows included, takes places if it passes.
func (c *call) takesPlaces() bool {
	for i := range c.Checks {
		if c.takesPlace(i) {
			return true
		}
	}
	return false
}

// maxWait is how long a call may wait for places: as long as each policy that takes some allows. The zero value is not at
// all.
type maxWait struct {
	Longest time.Duration
	heeded  bool
}

// heed heeds how long a policy allows its check of some kind to wait for places.
func (w *maxWait) heed(longest time.Duration, check *core.Check, of limitKind) {
	if check.Shadow || !of.Places || check.Mode != core.Charge {
		return
	}
	if !w.heeded || longest < w.Longest {
		w.Longest, w.heeded = longest, true
	}
}

// passed reports whether a call passes with these decisions.
func (c *call) passed(decisions []core.Decision) bool {
	decided := core.Call{Checks: c.Checks, Decisions: decisions}
	return decided.Passed()
}

// lacksPlaces reports whether a call was denied for nothing else than that places are taken.
func (c *call) lacksPlaces(decisions []core.Decision) bool {
	lacks := false
	for i := range decisions {
		if d := &decisions[i]; d.Denies() && !c.Checks[i].Shadow {
			if !c.Terms[i].Places || d.RetryAfter == core.Never {
				return false
			}
			lacks = true
		}
	}
	return lacks
}

// denyPlace denies the first place that a call would get: a place that is free by now belongs to an earlier waiter.
func (c *call) denyPlace(decisions []core.Decision, retryAfter time.Duration) {
	place := -1
	for i := range decisions {
		if c.Checks[i].Shadow || !c.takesPlace(i) {
			continue
		}
		if d := &decisions[i]; d.Allowed && !d.Waived {
			place = i
			break
		} else if place < 0 && d.Waived && c.passed(decisions) { // an alternative has become free
			place = i
		}
	}
	if place < 0 {
		return
	}
	first, end := alternatives.Of(c.Checks, place, isOr)
	for other := first; other < end; other++ {
		decisions[other].Waived = other != place
	}
	d := &decisions[place]
	d.Allowed, d.RetryAfter, d.Estimated = false, retryAfter, true
}

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
