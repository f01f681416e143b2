package core

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/weir-go/ratelimit/core/internal/exact"
)

// validate returns the reason why a list of checks makes no sense, if it does not.
func validate(checks []Check) error {
	for i := range checks {
		c := &checks[i]
		if c.Key == "" {
			return errors.New("core: the key is empty")
		}
		if c.Cost < 0 {
			return fmt.Errorf("core: cost %d is negative", c.Cost)
		}
		if c.Mode > Look {
			return fmt.Errorf("core: the check's mode is %s, want Charge, Condition or Look", c.Mode)
		}
		if c.Mode == Look && c.Cost != 0 {
			return fmt.Errorf("core: a check that only looks costs nothing, and has a cost of %d", c.Cost)
		}
		if c.Undelayed < 0 {
			return fmt.Errorf("core: %d undelayed units are negative", c.Undelayed)
		}
		if err := c.Limit.Validate(); err != nil {
			return err
		}
		if c.Undelayed > 0 && !c.Limit.spec.Algorithm.Delays() {
			return fmt.Errorf("core: %d undelayed units of %s: only a Shaping limit delays, so leave Undelayed out or use core.Shaping", c.Undelayed, c.Limit)
		}
		for j := range checks[:i] {
			if d := &checks[j]; sameState(c, d) && c.Limit.spec.Units != d.Limit.spec.Units {
				return fmt.Errorf("core: checks %d and %d ask the same key about one named limit with different numbers: %s and %s", j, i, d.Limit, c.Limit)
			}
			if d := &checks[j]; (c.Mode == Condition || d.Mode == Condition) && sameState(c, d) {
				return fmt.Errorf("core: checks %d and %d ask the same key about %s, and one is a condition", j, i, c.Limit)
			}
		}
	}
	return nil
}

// sameState reports whether two checks are answered from one state.
func sameState(a, b *Check) bool {
	return a.Key == b.Key && a.Shadow == b.Shadow && a.Limit.spec.Identity() == b.Limit.spec.Identity()
}

// ask is a check made ready for a store: what to observe, and then what was.
type ask struct {
	check *Check
	index int // of the check and its decision
	// cost is what has to fit: the check's own cost and that of the checks before
	// it on the same state, or one more than the capacity if that is less.
	cost int
	// charge says that the state is to be written with cost charged if the question
	// passes. Of several checks on one state it is the last.
	charge bool

	// costs are the costs of a call that is asked several times with another cost each time, as far
	// as it goes: the check's own is the first of them. Nil: they are all the same.
	costs []int

	usage exact.Usage
	fits  bool // in what was observed
	// What the memory store remembers between observing and writing.
	entry *entry
	shard int
	// unanswered says that the ask could not be decided. Only a shadow check can
	// be, since the question does not depend on it.
	unanswered bool
}

// question is a list of checks as a store has to decide them: in groups, one after
// the other, each of which passes as a whole or not at all. The checks that gate
// each other come first; each shadow check is a group of its own.
type question struct {
	asks   []ask
	groups [][]ask // slices of asks
}

var questions = sync.Pool{New: func() any { return new(question) }}

// newQuestion returns the question that a list of checks is. It has to be freed.
func newQuestion(checks []Check, peek bool) *question {
	q := questions.Get().(*question)          //nolint:forcetypeassert // the pool holds nothing else
	q.asks = slices.Grow(q.asks, len(checks)) // so that groups stay slices of it
	for i := range checks {
		if c := &checks[i]; !c.Shadow {
			a := newAsk(c, i, peek)
			for j := range q.asks {
				if before := &q.asks[j]; before.check.Units() > 0 && sameState(before.check, c) {
					a.cost = min(a.cost+min(before.check.Units(), c.Limit.spec.Capacity+1), c.Limit.spec.Capacity+1)
					before.charge = before.charge && c.Mode == Look
				}
			}
			q.asks = append(q.asks, a)
		}
	}
	if gated := len(q.asks); gated > 0 {
		q.groups = append(q.groups, q.asks[:gated:gated])
	}
	for i := range checks {
		if c := &checks[i]; c.Shadow {
			q.asks = append(q.asks, newAsk(c, i, peek))
			q.groups = append(q.groups, q.asks[len(q.asks)-1:])
		}
	}
	return q
}

func newAsk(c *Check, index int, peek bool) ask {
	return ask{check: c, index: index, cost: min(c.Units(), c.Limit.spec.Capacity+1), charge: !peek && c.Mode == Charge}
}

// charged writes what was used after a group was decided into the moments of its
// checks.
func charged(group []ask, pass bool, moments []Moment) {
	for i := range group {
		a := &group[i]
		m := &moments[a.index]
		m.Used = a.usage.Used
		for j := range group { // the last of several asks on one state has charged them all
			if b := &group[j]; pass && b.charge && sameState(a.check, b.check) {
				m.Used = b.after()
			}
		}
	}
}

// after returns what is used of a meter after the charge of an ask, in units.
func (a *ask) after() int64 {
	return a.usage.Used + a.check.Limit.spec.Weigh(a.cost)
}

// free gives back a question that nobody looks at any more.
func (q *question) free() {
	clear(q.asks)
	clear(q.groups)
	q.asks, q.groups = q.asks[:0], q.groups[:0]
	questions.Put(q)
}

// meet reports whether two asks are about one state. Then what is asked cannot be asked several
// times at once, since their costs add up.
func meet(groups [][]ask) bool {
	for _, group := range groups {
		for i := range group {
			for j := range group[:i] {
				if sameState(group[i].check, group[j].check) {
					return true
				}
			}
		}
	}
	return false
}

// advance makes what was observed before a group was asked several times what was observed before
// one of these times: those that fit in front of it have been charged.
func advance(group []ask, place int) {
	times := place
	for i := range group {
		times = min(times, group[i].granted(place))
	}
	for i := range group {
		a := &group[i]
		if events := a.costOf(times); a.charge && events > 0 {
			a.usage = a.check.Limit.spec.Charged(a.usage, events)
		}
		if a.costs != nil {
			a.cost = a.costs[place]
		}
	}
}

// granted returns how many of the first times that an ask is asked fit in what was observed.
func (a *ask) granted(times int) int {
	spec := a.check.Limit.spec
	switch {
	case a.cost == 0:
	case !a.charge: // a condition, which takes nothing
		if !spec.Fits(a.usage, a.cost) {
			return 0
		}
	case a.costs == nil:
		return min(times, spec.Remaining(a.usage)/a.cost)
	default:
		rest := spec.Remaining(a.usage)
		for i, cost := range a.costs[:times] {
			if rest -= cost; rest < 0 {
				return i
			}
		}
	}
	return times
}

// costOf returns what an ask costs in all, the first times that it is asked.
func (a *ask) costOf(times int) (events int) {
	if a.costs == nil {
		return times * a.cost
	}
	for _, cost := range a.costs[:times] {
		events += cost
	}
	return events
}

// copied returns groups that nobody else has, with copies of their checks.
func copied(groups [][]ask) [][]ask {
	own := make([][]ask, len(groups))
	for i, group := range groups {
		own[i] = slices.Clone(group)
		for j := range own[i] {
			check := *own[i][j].check
			own[i][j].check = &check
		}
	}
	return own
}

// passed works out whether each ask of a group fits in what was observed, and reports
// whether all do.
func passed(group []ask) bool {
	pass := true
	for i := range group {
		a := &group[i]
		spec := a.check.Limit.spec
		a.fits = a.check.Mode == Look || a.cost <= spec.Capacity && spec.Fits(a.usage, a.cost)
		pass = pass && a.fits
	}
	return pass
}

// answer writes the decisions of a group.
func answer(group []ask, decisions []Decision, pass, peek bool) {
	for i := range group {
		group[i].decide(pass && !peek, peek, &decisions[group[i].index])
	}
}

// decide writes the decision of an ask.
func (a *ask) decide(charged, peek bool, d *Decision) {
	spec := a.check.Limit.spec
	*d = Decision{Limit: a.check.Limit, Degraded: a.unanswered}
	if a.unanswered {
		return
	}
	d.Allowed = a.fits
	after := a.usage
	switch {
	case !d.Allowed && a.cost > spec.Capacity:
		d.RetryAfter = Never
	case !d.Allowed:
		d.RetryAfter = microseconds(spec.Wait(a.usage, a.cost))
	case spec.Algorithm.Delays() && a.check.Mode != Look && (charged || peek): // served when what came before has been
		before := spec.Charged(a.usage, a.cost-a.check.Units())
		d.Delay = microseconds(spec.Delay(before, a.check.Undelayed))
	}
	if charged && a.cost > 0 && a.check.Mode != Condition {
		after = spec.Charged(a.usage, a.cost)
	}
	d.Remaining = spec.Remaining(after)
	d.NextAfter = microseconds(spec.Next(after, d.Remaining))
	d.ResetAfter = microseconds(spec.Reset(after))
}

func microseconds(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

// appendCheck appends what limit.lua and cost.lua expect to be told of an ask.
func appendCheck(arguments []any, a *ask, more bool) []any {
	spec := a.check.Limit.spec
	limit := spec.LimitArgument(a.charge, more)
	if a.costs != nil {
		return append(arguments, limit, a.listedCosts())
	}
	if units := a.unitsAsked(); units != spec.Weight {
		return append(arguments, limit, units)
	}
	return append(arguments, limit, spec.UnitArgument())
}

// listedCosts returns the costs in the limit's units, with commas in between.
func (a *ask) listedCosts() string {
	b := make([]byte, 0, 16*len(a.costs))
	for i, cost := range a.costs {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, a.check.Limit.spec.Weigh(cost), 10)
	}
	return string(b)
}

// unitsAsked returns the cost in the limit's units, or one more than the capacity
// if the cost exceeds it. A check that costs nothing has nothing to fit.
func (a *ask) unitsAsked() int64 {
	spec := a.check.Limit.spec
	if a.check.Mode == Look {
		return 0
	}
	if a.cost > spec.Capacity {
		return spec.Full + 1
	}
	return spec.Weigh(a.cost)
}
